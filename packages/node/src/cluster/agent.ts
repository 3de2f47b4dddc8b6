import type { ExchangeRequest, ExchangeResponse, JoinRequest, JoinResponse } from '@taskmaster/proto';
import { Refusal } from '../domain/errors.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import type { Partitions } from '../engine/partitions.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Membership } from '../ports/membership.ts';
import type { CallPeer, PeerHandlers } from '../ports/peer-network.ts';
import type { Random } from '../ports/random.ts';
import type { HandOffs } from './handoff/hand-offs.ts';
import { HolderView } from './holder-view.ts';
import { fromWireRecord, learnFrom, toWireKnowledge, toWireRecord } from './knowledge-codec.ts';
import type { Identity, MemberStore } from './member-store.ts';
import { type MemberRecord, type Members, memberNamed, mergeMembers, ringMembers } from './members.ts';
import { Placement } from './placement.ts';
import { desiredHolders } from './ring.ts';

export interface AgentDeps {
  readonly identity: Identity;
  readonly members: Members;
  readonly memberStore: MemberStore;
  readonly membership: Membership;
  readonly partitions: Partitions;
  /** Of the cluster, fixed when it was created. */
  readonly partitionCount: number;
  readonly handOffs: HandOffs;
  readonly call: CallPeer;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Transfers from this node at once. */
  readonly transfersAtOnce: number;
}

/** How often somebody is asked even where gossip tells of no news. */
const EXCHANGE_MS = 5_000;
const EXCHANGE_TIMEOUT_MS = 2_000;
const JOIN_TIMEOUT_MS = 5_000;

/**
 * A node's part in its cluster: keeps what is known of members and holders in step with the others, and has partitions
 * moved to where the ring wants them. Runs on ports only.
 */
export class ClusterAgent {
  /** What other nodes ask. */
  readonly handlers: PeerHandlers<'join' | 'exchange'> = {
    join: (request) => this.#takeIn(request),
    exchange: (request) => this.#tell(request),
  };
  readonly #deps: AgentDeps;
  readonly #view: HolderView;
  readonly #placement: Placement;
  readonly #seenVersions = new Map<string, number>();
  readonly #listeners = new Set<() => void>();
  #members: Members;
  #desired: readonly string[] = [];
  #cancelTimer: CancelTimer = () => {};
  #endings: (() => void)[] = [];
  #stopped = false;

  constructor(deps: AgentDeps) {
    this.#deps = deps;
    this.#members = deps.members;
    this.#view = new HolderView(deps.partitionCount);
    this.#placement = new Placement({ ...deps, nodeId: deps.identity.nodeId });
    this.#desired = desiredHolders(ringMembers(this.#members), deps.partitionCount);
  }

  get members(): Members {
    return this.#members;
  }

  get view(): HolderView {
    return this.#view;
  }

  /** Node id by partition, as the ring wants it. */
  get desired(): readonly string[] {
    return this.#desired;
  }

  get self(): MemberRecord | undefined {
    return this.#members.get(this.#deps.identity.nodeId);
  }

  addressOf(nodeId: string): string | undefined {
    return this.#members.get(nodeId)?.rpcAddress;
  }

  start(): void {
    const { partitions, membership, handOffs } = this.#deps;
    partitions.locate((id) => this.#locate(id));
    this.#endings = [
      partitions.onChange(() => this.#holdingsChanged()),
      membership.on('change', () => this.#pullNews()),
    ];
    handOffs.start();
    this.#holdingsChanged();
    this.#exchangeSoon();
  }

  /** Ends what is under way; partitions and members stay as they are. */
  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
    for (const end of this.#endings) end();
    this.#placement.stop();
    this.#deps.handOffs.stop();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Asks one member after the other to be taken in; resolves with what the first of them that answers says. */
  async join(addresses: readonly string[]): Promise<JoinResponse> {
    const { identity, call } = this.#deps;
    const member = this.self;
    if (!member) throw new Error('a node joins with a record of its own');
    let last: unknown = new Refusal('HOLDER_UNREACHABLE', 'no member to ask');
    for (const address of addresses) {
      const request = { clusterId: identity.clusterId, member: toWireRecord(member) };
      try {
        const answer = await call(address, 'join', request, { timeoutMs: JOIN_TIMEOUT_MS });
        await this.#learn(answer.knowledge);
        return answer;
      } catch (error) {
        // Somebody who answers no speaks for all.
        if (error instanceof Refusal && error.reason !== 'STARTING') throw error;
        last = error;
      }
    }
    throw last;
  }

  /** Ready to hold partitions. */
  activate(): Promise<void> {
    return this.#changeSelf('active');
  }

  /** Hands everything over; resolves when nothing is left here and everybody may know that this node has left. */
  async drain(signal?: AbortSignal): Promise<void> {
    const others = ringMembers(this.#members).filter((nodeId) => nodeId !== this.#deps.identity.nodeId);
    if (others.length === 0) throw new Refusal('INVALID_ARGUMENT', 'no other active member could take its partitions');
    await this.#changeSelf('leaving');
    await this.#emptied(signal);
    await this.#changeSelf('left');
    await Promise.allSettled(others.map((nodeId) => this.#exchangeWith(nodeId)));
  }

  /** Takes a node in, or says why not. */
  async #takeIn({ clusterId, member }: JoinRequest): Promise<JoinResponse> {
    const { identity, partitionCount } = this.#deps;
    const record = member && fromWireRecord(member);
    if (!record || record.nodeId === '') throw new Refusal('MALFORMED_REQUEST', 'a join without a member');
    if (clusterId !== '' && clusterId !== identity.clusterId) {
      throw new Refusal(
        'WRONG_CLUSTER',
        `node ${record.name} belongs to cluster ${clusterId}, not ${identity.clusterId}`,
      );
    }
    const namesake = memberNamed(this.#members, record.name);
    if (namesake && namesake.nodeId !== record.nodeId) {
      throw new Refusal('NAME_IN_USE', `another member, at ${namesake.rpcAddress}, has the name ${record.name}`);
    }
    if (this.#members.get(record.nodeId)?.state === 'left') {
      throw new Refusal('MEMBER_LEFT', `member ${record.name} has left: start it with an empty data directory`);
    }
    await this.#adopt([record]);
    const knowledge = toWireKnowledge(this.#members, this.#view);
    return { clusterId: identity.clusterId, partitions: partitionCount, knowledge };
  }

  async #tell(request: ExchangeRequest): Promise<ExchangeResponse> {
    const { clusterId } = this.#deps.identity;
    if (request.clusterId !== clusterId) {
      throw new Refusal('WRONG_CLUSTER', `this is cluster ${clusterId}, not ${request.clusterId}`);
    }
    await this.#learn(request.knowledge);
    return {
      knowledge: toWireKnowledge(this.#members, this.#view),
      nodeId: this.#deps.identity.nodeId,
      clusterId,
      partitions: this.#deps.partitionCount,
    };
  }

  #locate(id: PartitionId): { nodeId: string; address: string; epoch: number } | undefined {
    const holder = this.#view.get(id);
    const address = holder && this.addressOf(holder.nodeId);
    return holder && address !== undefined ? { ...holder, address } : undefined;
  }

  /** What this node holds it says first hand; where it has just given something up, it knows to whom. */
  #holdingsChanged(): void {
    const { partitions, identity } = this.#deps;
    let news = false;
    for (let id = 0; id < this.#view.partitions; id++) {
      const holding = partitions.holding(id as PartitionId);
      if (!holding) continue;
      const nodeId = holding.kind === 'released' ? holding.to : identity.nodeId;
      if (this.#view.learn(id as PartitionId, { nodeId, epoch: holding.epoch })) news = true;
    }
    if (news) this.#announce();
    this.#place();
  }

  async #learn(knowledge: ExchangeRequest['knowledge']): Promise<void> {
    const { records, news } = learnFrom(knowledge, this.#view);
    if (news) {
      await this.#giveUpSuperseded();
      this.#announce();
    }
    await this.#adopt(records);
    this.#place();
  }

  /** What somebody else holds at a later epoch is not this node's any more, whatever it thinks. */
  async #giveUpSuperseded(): Promise<void> {
    const { partitions, identity, log } = this.#deps;
    for (const { id, epoch } of partitions.held()) {
      const known = this.#view.get(id);
      if (!known || known.nodeId === identity.nodeId || known.epoch <= epoch) continue;
      log.error({ partition: id, epoch, by: known }, 'another node holds the partition at a later epoch: giving it up');
      await partitions.supersede(id, known);
    }
  }

  /** Durable before anything follows from it. */
  async #adopt(records: readonly MemberRecord[]): Promise<void> {
    const merged = mergeMembers(this.#members, records);
    if (merged === this.#members) return;
    const changed = [...merged.values()].filter((record) => this.#members.get(record.nodeId) !== record);
    await this.#deps.memberStore.writeMembers(changed);
    // Others may have come meanwhile.
    this.#members = mergeMembers(this.#members, changed);
    this.#desired = desiredHolders(ringMembers(this.#members), this.#deps.partitionCount);
    this.#announce();
    this.#place();
  }

  async #changeSelf(state: MemberRecord['state']): Promise<void> {
    const { self } = this;
    if (!self) throw new Error('this node has no record of its own');
    if (self.state === state) return;
    if (self.state === 'left') throw new Refusal('MEMBER_LEFT', `member ${self.name} has left the cluster`);
    await this.#adopt([{ ...self, state, version: self.version + 1 }]);
  }

  #emptied(signal?: AbortSignal): Promise<void> {
    const { partitions } = this.#deps;
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (partitions.held().length > 0) return;
        end();
        resolve();
      };
      const onAbort = (): void => {
        end();
        reject(signal?.reason);
      };
      const stop = partitions.onChange(look);
      const end = (): void => {
        stop();
        signal?.removeEventListener('abort', onAbort);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      look();
    });
  }

  /** Peers pull when the number has grown. */
  #announce(): void {
    const { membership } = this.#deps;
    membership.announce({ stateVersion: membership.self.stateVersion + 1 });
    for (const listener of this.#listeners) listener();
  }

  #pullNews(): void {
    for (const { nodeId, alive, stateVersion, role } of this.#deps.membership.peers()) {
      if (!alive || role !== 'node' || this.#seenVersions.get(nodeId) === stateVersion) continue;
      this.#seenVersions.set(nodeId, stateVersion);
      void this.#exchangeWith(nodeId);
    }
    this.#place();
  }

  #exchangeSoon(): void {
    const { clock, random, membership } = this.#deps;
    const delayMs = EXCHANGE_MS * (0.5 + random.next());
    this.#cancelTimer = clock.at((clock.now() + Math.ceil(delayMs)) as Instant, () => {
      const alive = membership.peers().filter(({ alive: isAlive, role }) => isAlive && role === 'node');
      const peer = alive[Math.floor(random.next() * alive.length)];
      if (peer) void this.#exchangeWith(peer.nodeId);
      this.#place();
      this.#exchangeSoon();
    });
  }

  /** Whether it answered. */
  async #exchangeWith(nodeId: string): Promise<boolean> {
    const { identity, call, membership, log } = this.#deps;
    const peer = membership.peers().find((one) => one.nodeId === nodeId);
    const address = peer?.rpcAddress ?? this.addressOf(nodeId);
    if (address === undefined || this.#stopped) return false;
    const knowledge = toWireKnowledge(this.#members, this.#view);
    const request = { clusterId: identity.clusterId, from: identity.nodeId, knowledge };
    try {
      const answer = await call(address, 'exchange', request, { timeoutMs: EXCHANGE_TIMEOUT_MS });
      await this.#learn(answer.knowledge);
      return true;
    } catch (error) {
      // Gossip tells of news again.
      this.#seenVersions.delete(nodeId);
      log.debug({ err: error, peer: nodeId }, 'a member did not say what it knows');
      return false;
    }
  }

  #place(): void {
    if (this.#stopped) return;
    this.#placement.update(this.#desired, (nodeId) => this.#targetAt(nodeId));
  }

  /** Where to send partitions to; nowhere while the member is not there. */
  #targetAt(nodeId: string): string | undefined {
    const peer = this.#deps.membership.peers().find((one) => one.nodeId === nodeId);
    return peer?.alive === true ? peer.rpcAddress : undefined;
  }
}
