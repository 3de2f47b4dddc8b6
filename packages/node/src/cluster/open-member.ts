import type { HeldPartition, Partitions } from '@taskmaster/engine';
import type { PartitionId } from '@taskmaster/engine/domain';
import type { Clock, Log, Random, SharedHolders } from '@taskmaster/engine/ports';
import type { ClockDifference, MemberState } from '@taskmaster/server/cluster-view';
import { assertResolves, openGossip } from '@taskmaster/server/gossip';
import type { Audit, CallPeer, Membership, MembershipFigures, PeerHandlers } from '@taskmaster/server/ports';
import { ClusterAgent } from './agent.ts';
import { ClusterAdministration } from './membership/administration.ts';
import type { Identity, MemberStore } from './membership/member-store.ts';
import type { StartingRole } from './membership/starting-role.ts';
import { type HandOffFigures, HandOffs } from './placement/handoff/hand-offs.ts';
import { MemberAudit } from './report/member-audit.ts';

export interface MemberDeps {
  readonly role: Extract<StartingRole, { kind: 'member' }>;
  readonly memberStore: MemberStore;
  readonly partitions: Partitions;
  /** See `AgentDeps`. */
  readonly holders?: SharedHolders | undefined;
  readonly call: CallPeer;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly audit: Audit;
  /** Called after each completed hand-off, with the time that callers waited, in ms. */
  readonly handedOver?: (frozenMs: number) => void;
}

export interface MemberSettings {
  /** Where gossip listens. Port 0: any free port. */
  readonly listen: { readonly host: string; readonly port: number };
  /** Host that other nodes use. Empty: the host that gossip listens at, or the first address of the machine. */
  readonly advertiseHost: string;
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly version: string;
  readonly keys: readonly string[];
  /** gRPC addresses to look for other members at, in addition to their last known addresses. */
  readonly join: readonly string[];
  readonly maxConcurrentTransfers: number;
  readonly maxTransferBytesPerSecond: number;
}

/** A node as a running member of its cluster. Disposing of it ends it like a crash: no partition moves. */
export interface Member extends AsyncDisposable {
  readonly agent: ClusterAgent;
  readonly handOffs: HandOffs;
  readonly membership: Membership;
  /** gRPC address (`host:port`) that other nodes use for this node. */
  readonly rpcAddress: string;
  readonly handlers: PeerHandlers;
  readonly identity: Identity;
  readonly administration: ClusterAdministration;
  figures(): MemberFigures;
  /** Tells other nodes its address and becomes active. `handlers` must answer their calls before. */
  enter(): Promise<void>;
}

/** Figures of the cluster, as one member sees it. */
export interface MemberFigures {
  readonly members: readonly { readonly name: string; readonly state: MemberState; readonly alive: boolean }[];
  /** Number of partitions of this node by state; `wanted`: how many the ring assigns to it. */
  readonly partitions: Readonly<Record<HeldPartition['state'] | 'wanted', number>>;
  readonly handOffs: HandOffFigures;
  readonly gossip: MembershipFigures;
  readonly clocks: readonly ClockDifference[];
}

/**
 * Starts gossip and builds the member; `enter` makes it active. Rejects with `GossipListenError` or
 * `AdvertiseHostUnknownError`.
 */
export async function openMember(settings: MemberSettings, deps: MemberDeps): Promise<Member> {
  const { role, memberStore, partitions, log } = deps;
  const { identity, members } = role;
  const { nodeId, name } = identity;
  await using opened = new AsyncDisposableStack();
  const seeds = [...members.values()]
    .filter((record) => record.nodeId !== nodeId && record.state !== 'left' && record.gossipAddress !== '')
    .map(({ gossipAddress }) => gossipAddress);
  const { advertiseHost, listen, grpcPort, httpPort, version } = settings;
  if (advertiseHost !== '') await assertResolves(advertiseHost);
  const membership = opened.use(
    await openGossip({
      self: {
        nodeId,
        name,
        role: 'node',
        version,
        stateVersion: 1,
        incarnation: identity.startNumber,
        ...addressesAt(advertiseHost || listen.host, grpcPort, httpPort),
      },
      clusterId: identity.clusterId,
      keys: settings.keys,
      seeds,
      listen,
      ...(advertiseHost !== '' && { advertise: advertiseHost }),
      log,
    }),
  );
  const gossipPort = Number(membership.gossipAddress.split(':').at(-1));
  // Announces the host name, not its IP address: the name stays valid when the address changes.
  const host = advertiseHost || (membership.gossipAddress.split(':')[0] ?? '');
  const addresses = addressesAt(host, grpcPort, httpPort);
  membership.announce(addresses);
  membership.on('nameConflict', (peer) => {
    const { nodeId: other, rpcAddress } = peer;
    log.error({ name, other, rpcAddress }, 'another node of this cluster runs under this name: stop one of the two');
  });

  let agent: ClusterAgent | undefined;
  const { maxConcurrentTransfers, maxTransferBytesPerSecond: bytesPerSecond } = settings;
  const addressOf = (id: string): string | undefined => agent?.addressOf(id);
  const handOffs = new HandOffs({ ...deps, nodeId, addressOf, bytesPerSecond });
  agent = new ClusterAgent({
    ...deps,
    acceptedLossAt: await memberStore.readAcceptedLoss(),
    identity,
    members,
    membership,
    handOffs,
    maxConcurrentTransfers,
    contacts: settings.join,
    partitionCount: partitions.count,
  });
  if (role.begins && deps.holders === undefined) {
    await partitions.claim(Array.from({ length: partitions.count }, (_, id) => ({ id: id as PartitionId, epoch: 1 })));
  }
  await memberStore.writeMembers(members.values());
  const memberAudit = new MemberAudit(deps.audit, members);
  agent.onChange(() => memberAudit.look(agent.members));
  opened.defer(() => agent.stop());

  const { call } = deps;
  const administration = new ClusterAdministration({ agent, clusterId: identity.clusterId, membership, call, log });
  const running = opened.move();
  return {
    agent,
    handOffs,
    membership,
    identity,
    administration,
    async enter() {
      agent.start();
      await agent.updateSelf({ rpcAddress: addresses.rpcAddress, gossipAddress: `${host}:${gossipPort}` });
      await agent.activate();
    },
    figures: () => figuresOf(agent, handOffs, membership, partitions),
    rpcAddress: addresses.rpcAddress,
    handlers: { ...agent.handlers, ...handOffs.handlers },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

function figuresOf(agent: ClusterAgent, handOffs: HandOffs, membership: Membership, held: Partitions): MemberFigures {
  const alive = new Set(membership.peers().flatMap((peer) => (peer.alive ? [peer.nodeId] : [])));
  const { nodeId: own } = membership.self;
  const partitions = { serving: 0, frozen: 0, 'handing-over': 0, wanted: 0 };
  for (const { state } of held.held()) partitions[state]++;
  for (const wanted of agent.desired) if (wanted === own) partitions.wanted++;
  const members = [...agent.members.values()].map(({ nodeId, name, state }) => {
    return { name, state, alive: nodeId === own || alive.has(nodeId) };
  });
  // The clock of a node that does not answer is unknown.
  const clocks = agent.clockDifferences.filter(({ nodeId }) => alive.has(nodeId));
  return { members, partitions, handOffs: handOffs.figures(), gossip: membership.figures(), clocks };
}

const addressesAt = (host: string, grpcPort: number, httpPort: number) => ({
  rpcAddress: `${host}:${grpcPort}`,
  httpAddress: `${host}:${httpPort}`,
});
