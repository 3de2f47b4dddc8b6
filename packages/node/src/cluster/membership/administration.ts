import { type PartitionId, Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import {
  type DrainMemberRequest,
  type DrainMemberResponse,
  type InventoryEntry,
  type ListMembersResponse,
  type ListPartitionsResponse,
  type Member,
  MemberRole,
  MemberState,
  type Partition,
  PartitionState,
  type RemoveMemberRequest,
  type RemoveMemberResponse,
  type ResumeMemberRequest,
  type ResumeMemberResponse,
} from '@taskmaster/proto';
import { type MemberRecord, membersNamed, toWireRecord } from '@taskmaster/server/cluster-view';
import type { CallPeer, Membership, Peer } from '@taskmaster/server/ports';
import type { ClusterAgent } from '../agent.ts';
import { reasonOfSilence } from './silence.ts';

export interface AdministrationDeps {
  readonly agent: ClusterAgent;
  readonly clusterId: string;
  readonly membership: Membership;
  readonly call: CallPeer<'inventory' | 'leave' | 'stay'>;
  readonly log: Log;
}

const INVENTORY_TIMEOUT_MS = 2_000;
const ASK_TIMEOUT_MS = 5_000;

/** The cluster calls for operators, answered by any node; see cluster.proto. */
export class ClusterAdministration {
  readonly #deps: AdministrationDeps;

  constructor(deps: AdministrationDeps) {
    this.#deps = deps;
  }

  readonly listMembers = async (): Promise<ListMembersResponse> => {
    const { agent, clusterId, membership } = this.#deps;
    const held = tally([...agent.view.entries()].map(([, { nodeId }]) => nodeId));
    const wanted = tally(agent.desired);
    const peers = new Map(membership.peers().map((peer) => [peer.nodeId, peer]));
    const nodes = [...agent.members.values()]
      .map((record) => this.#nodeOf(record, peers.get(record.nodeId), held, wanted))
      .sort((a, b) => Number(hasLeft(a)) - Number(hasLeft(b)) || compare(a.name, b.name));
    const proxies = [...peers.values()]
      .filter(({ role, alive }) => role === 'proxy' && alive)
      .map(proxyOf)
      .sort((a, b) => compare(a.name, b.name));
    return { clusterId, partitions: agent.view.partitions, members: [...nodes, ...proxies] };
  };

  readonly listPartitions = async (): Promise<ListPartitionsResponse> => {
    const { agent } = this.#deps;
    const inventories = new Map<string, readonly InventoryEntry[] | undefined>(
      await Promise.all(agent.others.map(async ({ nodeId }) => [nodeId, await this.#inventoryOf(nodeId)] as const)),
    );
    inventories.set(agent.nodeId, agent.inventory());
    const seen = latestOf(inventories);
    const partitions = Array.from({ length: agent.view.partitions }, (_, id) =>
      this.#partitionOf(id as PartitionId, seen.get(id), inventories),
    );
    const unreachable = [...inventories]
      .filter(([, held]) => held === undefined)
      .map(([nodeId]) => this.#nameOf(nodeId));
    return { partitions, unreachable: unreachable.sort(compare) };
  };

  readonly drainMember = async ({ name }: DrainMemberRequest): Promise<DrainMemberResponse> => ({
    partitionsHeld: await this.#ask(name, 'leave'),
  });

  readonly resumeMember = async ({ name }: ResumeMemberRequest): Promise<ResumeMemberResponse> => ({
    partitionsHeld: await this.#ask(name, 'stay'),
  });

  /** Asks the member itself to leave or to stay. Resolves with the number of partitions that it holds. */
  async #ask(name: string, what: 'leave' | 'stay'): Promise<number> {
    const { agent, call, clusterId, membership } = this.#deps;
    const { nodeId } = this.#memberNamed(name);
    if (nodeId === agent.nodeId) return await agent[what]();
    const address = agent.addressOf(nodeId);
    try {
      if (address === undefined) throw new Error('its address is not known');
      // Gossip notices a restart sooner than a connection in reconnect backoff.
      const waitForConnection = membership.peers().some((peer) => peer.nodeId === nodeId && peer.alive);
      const options = { timeoutMs: ASK_TIMEOUT_MS, waitForConnection };
      return (await call(address, what, { clusterId, nodeId }, options)).partitionsHeld;
    } catch (error) {
      if (error instanceof Refusal) throw error;
      const message = `member ${name} does not answer: start it, or remove it if it will not come back`;
      throw new Refusal(reasonOfSilence(error), message, { metadata: { members: name }, cause: error });
    }
  }

  readonly removeMember = async (request: RemoveMemberRequest): Promise<RemoveMemberResponse> => {
    const { name, also, acceptLoss, waitMs } = request;
    const nodeIds = new Set([name, ...also].map((one) => this.#memberNamed(one).nodeId));
    return this.#deps.agent.removal.remove([...nodeIds], { acceptLoss, waitMs });
  };

  /** The member with this name or this node id. A new member may reuse the name of a member that left. */
  #memberNamed(name: string): MemberRecord {
    const { members } = this.#deps.agent;
    const [found, ...others] = membersNamed(members, name);
    if (found && others.length > 0) {
      const ids = [found, ...others].map(({ nodeId, rpcAddress }) => `${nodeId} at ${rpcAddress}`).sort();
      const message = `several members have the name ${name}: use the id of one of them: ${ids.join(', ')}`;
      throw new Refusal('NAME_IN_USE', message, { metadata: { member: name } });
    }
    const known = found ?? members.get(name);
    if (known && known.state !== 'left') return known;
    if (known || [...members.values()].some((member) => member.name === name)) {
      throw new Refusal('MEMBER_LEFT', `member ${name} has left already`, { metadata: { member: name } });
    }
    throw new Refusal('UNKNOWN_MEMBER', `no member has the name ${name}`, { metadata: { member: name } });
  }

  #nameOf(nodeId: string): string {
    return this.#deps.agent.members.get(nodeId)?.name ?? nodeId;
  }

  #nodeOf(
    record: MemberRecord,
    peer: Peer | undefined,
    held: ReadonlyMap<string, number>,
    wanted: ReadonlyMap<string, number>,
  ): Member {
    const { agent, membership } = this.#deps;
    const { name, nodeId, state, rpcAddress, gossipAddress } = toWireRecord(record);
    const isSelf = nodeId === agent.nodeId;
    const meta = isSelf ? membership.self : peer;
    return {
      name,
      nodeId,
      state,
      role: MemberRole.MEMBER_ROLE_NODE,
      alive: isSelf || peer?.alive === true,
      suspect: peer?.suspect === true,
      partitionsHeld: held.get(nodeId) ?? 0,
      partitionsWanted: wanted.get(nodeId) ?? 0,
      version: meta?.version ?? '',
      rpcAddress: agent.addressOf(nodeId) ?? rpcAddress,
      gossipAddress: peer?.alive ? peer.gossipAddress : gossipAddress,
      httpAddress: meta?.httpAddress ?? '',
      removedBy: record.removedBy === '' ? '' : this.#nameOf(record.removedBy),
    };
  }

  /** The partitions that a node says it holds; undefined without an answer. */
  async #inventoryOf(nodeId: string): Promise<readonly InventoryEntry[] | undefined> {
    const { agent, call, clusterId, log } = this.#deps;
    const address = agent.addressOf(nodeId);
    if (address === undefined) return undefined;
    try {
      const answer = await call(address, 'inventory', { clusterId }, { timeoutMs: INVENTORY_TIMEOUT_MS });
      // Another member may have this address now.
      return answer.nodeId === nodeId ? answer.held : undefined;
    } catch (error) {
      log.debug({ err: error, peer: nodeId }, 'a member did not say what it holds');
      return undefined;
    }
  }

  #partitionOf(
    id: PartitionId,
    seen: Seen | undefined,
    inventories: ReadonlyMap<string, readonly InventoryEntry[] | undefined>,
  ): Partition {
    const { view, desired } = this.#deps.agent;
    const known = view.get(id);
    const common = { id, wanted: this.#nameOf(desired[id] ?? '') };
    if (seen && seen.entry.epoch >= (known?.epoch ?? 0)) {
      const { epoch, state, queues, tasks, to, movedRows, movedBytes } = seen.entry;
      return {
        ...common,
        holder: this.#nameOf(seen.nodeId),
        holderNodeId: seen.nodeId,
        epoch,
        state,
        queues,
        tasks,
        movedRows,
        movedBytes,
        movingTo: to === '' ? '' : this.#nameOf(to),
      };
    }
    const counts = view.counts(id);
    // The known holder answered without this partition: the partition is moving between two nodes.
    const isBetween = known && inventories.get(known.nodeId) !== undefined;
    return {
      ...common,
      holder: known ? this.#nameOf(known.nodeId) : '',
      holderNodeId: known?.nodeId ?? '',
      epoch: known?.epoch ?? 0,
      state: isBetween ? PartitionState.PARTITION_STATE_FROZEN : PartitionState.PARTITION_STATE_UNREACHABLE,
      queues: counts?.queues ?? 0,
      tasks: counts?.tasks ?? 0,
      movingTo: '',
      movedRows: 0,
      movedBytes: 0,
    };
  }
}

interface Seen {
  readonly nodeId: string;
  readonly entry: InventoryEntry;
}

/** The holder of each partition with the latest epoch. During a hand-off two nodes may say that they hold it. */
function latestOf(inventories: ReadonlyMap<string, readonly InventoryEntry[] | undefined>): Map<number, Seen> {
  const latest = new Map<number, Seen>();
  for (const [nodeId, held] of inventories) {
    for (const entry of held ?? []) {
      if (entry.epoch > (latest.get(entry.id)?.entry.epoch ?? 0)) latest.set(entry.id, { nodeId, entry });
    }
  }
  return latest;
}

const proxyOf = ({ name, nodeId, alive, suspect, version, rpcAddress, gossipAddress, httpAddress }: Peer): Member => ({
  name,
  nodeId,
  alive,
  suspect,
  version,
  rpcAddress,
  gossipAddress,
  role: MemberRole.MEMBER_ROLE_PROXY,
  state: MemberState.MEMBER_STATE_UNSPECIFIED,
  httpAddress: httpAddress ?? '',
  partitionsHeld: 0,
  partitionsWanted: 0,
  removedBy: '',
});

function tally(nodeIds: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const nodeId of nodeIds) counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1);
  return counts;
}

const hasLeft = ({ state }: Member): boolean => state === MemberState.MEMBER_STATE_LEFT;
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
