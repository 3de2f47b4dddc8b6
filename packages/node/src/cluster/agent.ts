import type { PartitionLocation, Partitions } from '@taskmaster/engine';
import { type Instant, type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { type Clock, type Log, type Random, type SharedHolders, sleep } from '@taskmaster/engine/ports';
import type { ExchangeRequest, ExchangeResponse, InventoryEntry, JoinResponse, MemberRelease } from '@taskmaster/proto';
import {
  addressOf,
  assertCompatible,
  type ClockDifference,
  Exchanger,
  epochBeyond,
  type Heard,
  type HolderView,
  isRemoved,
  type MemberRecord,
  type Members,
  releaseOf,
} from '@taskmaster/server/cluster-view';
import type { CallPeer, Membership, PeerHandlers } from '@taskmaster/server/ports';
import { inventoryOf } from './knowledge/inventory.ts';
import { Knowledge } from './knowledge/knowledge.ts';
import { CommitGuard } from './membership/commit-guard.ts';
import { Joining } from './membership/joining.ts';
import { Leaving } from './membership/leaving.ts';
import type { Identity, MemberStore } from './membership/member-store.ts';
import { Orphans } from './membership/orphans.ts';
import { Removal } from './membership/removal.ts';
import type { HandOffs } from './placement/handoff/hand-offs.ts';
import { LeftTargets } from './placement/left-targets.ts';
import { Placement } from './placement/placement.ts';
import { SharedPlacement } from './placement/shared/shared-placement.ts';
import { PresenceLog } from './report/presence-log.ts';
import { ShareLog } from './report/share-log.ts';

export interface AgentDeps {
  readonly identity: Identity;
  readonly members: Members;
  readonly memberStore: MemberStore;
  /** When an operator last accepted that this node has lost acknowledged work; undefined if that never happened. */
  readonly acceptedLossAt?: Instant | undefined;
  readonly membership: Membership;
  readonly partitions: Partitions;
  /** Number of partitions of the cluster; fixed when the cluster was created. */
  readonly partitionCount: number;
  readonly handOffs: HandOffs;
  /** Who holds the partitions, if the nodes share a store. Undefined: each has its own, and partitions are handed over. */
  readonly holders?: SharedHolders | undefined;
  readonly call: CallPeer;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Maximum number of concurrent transfers from this node. */
  readonly maxConcurrentTransfers: number;
  /** gRPC addresses (`host:port`) of nodes to ask while gossip knows no live node. Default: none. */
  readonly contacts?: readonly string[];
}

/** The calls that other nodes make to an agent. Calls of hand-offs are in `TransferMethod`. */
export type AgentMethod = 'join' | 'exchange' | 'inventory' | 'leave' | 'stay' | 'removeMembers';

/**
 * How often a node tries to tell a removed member of its removal. Most removed members never answer, so trying longer has no use.
 * `Orphans` (O2) says why this is safe.
 */
const TELL_ATTEMPTS = 5;
const TELL_RETRY_MS = 1_000;

/**
 * A node's part in its cluster: synchronizes the knowledge of members and holders with other nodes, and moves partitions
 * to the nodes that the ring assigns. Uses ports only.
 */
export class ClusterAgent {
  readonly handlers: PeerHandlers<AgentMethod> = {
    join: (request) => this.#joining.takeIn(request),
    exchange: (request) => this.#tell(request),
    inventory: async ({ clusterId }) => {
      this.#assertCluster(clusterId);
      return { held: this.inventory(), nodeId: this.nodeId };
    },
    leave: async (request) => {
      this.#assertMeant(request);
      return { partitionsHeld: await this.leave() };
    },
    stay: async (request) => {
      this.#assertMeant(request);
      return { partitionsHeld: await this.stay() };
    },
    removeMembers: async ({ clusterId, nodeId, also, acceptLoss }) => {
      this.#assertCluster(clusterId);
      return this.removal.removeHere([nodeId, ...also], acceptLoss);
    },
  };
  /** Removes other members. */
  readonly removal: Removal;
  readonly #deps: AgentDeps;
  readonly #knowledge: Knowledge;
  readonly #placement: Placement;
  /** Takes the place of `#placement`, `#orphans` and `#leftTargets` if nodes share a store. */
  readonly #sharedPlacement: SharedPlacement | undefined;
  readonly #exchanger: Exchanger;
  readonly #guard: CommitGuard;
  readonly #orphans: Orphans;
  readonly #joining: Joining;
  readonly #leaving: Leaving;
  readonly #leftTargets: LeftTargets;
  readonly #presence: PresenceLog;
  readonly #share: ShareLog;
  readonly #listeners = new Set<() => void>();
  readonly #stopping = new AbortController();
  #endListening = (): void => {};

  constructor(deps: AgentDeps) {
    this.#deps = deps;
    const knowledge = new Knowledge(deps, {
      membersChanged: () => {
        this.#guard.membersChanged();
        this.#seekOthers();
      },
      removed: (record) => this.#resolveRemoved(record),
      outdated: (partitions) => this.#guard.outdated(partitions),
      news: () => this.#announce(),
    });
    this.#knowledge = knowledge;
    const { clusterId, nodeId } = deps.identity;
    const { view } = knowledge;
    const exchange = (id: string): Promise<boolean> => this.#exchanger.with(id);
    const toHear = (): string[] => this.#toHear();
    const common = { ...deps, clusterId, nodeId, knowledge, view, exchange, toHear, members: () => knowledge.members };
    this.#placement = new Placement(common);
    const { holders } = deps;
    this.#sharedPlacement = holders && new SharedPlacement({ ...common, holders });
    this.#presence = new PresenceLog(common);
    this.#share = new ShareLog(common);
    this.#leaving = new Leaving({ ...common, tellLeft: () => this.#joining.tellLeft() });
    this.#exchanger = new Exchanger({
      ...common,
      from: nodeId,
      contacts: deps.contacts ?? [],
      knowledge: () => knowledge.tell(),
      learn: (heard, from) => knowledge.inTurn(() => knowledge.learn(heard, from)),
      onBeat: () => this.#look(),
    });
    this.#joining = new Joining({
      ...common,
      exchanger: this.#exchanger,
      release: this.#release,
      stopping: this.#stopping.signal,
    });
    const exchangeWithAll = async (ids: readonly string[]): Promise<boolean> =>
      (await Promise.all(ids.map(exchange))).every((answered) => answered);
    this.#leftTargets = new LeftTargets({
      ...common,
      exchangeWithAll,
      takeBack: (id) => this.#takeBack(id),
    });
    const hear = (id: string): Promise<Heard | undefined> => this.#exchanger.hear(id);
    const [self, others] = [() => knowledge.self, () => knowledge.others];
    this.#guard = new CommitGuard({ ...common, hear, self, others, isFenced: holders !== undefined });
    this.#orphans = new Orphans({
      ...common,
      mayCommit: () => this.mayCommit,
      exchangeWithAll,
      claim: (decide) => knowledge.inTurn(async () => deps.partitions.claim(decide())),
    });
    this.removal = new Removal({
      ...common,
      addressOf: (id) => this.addressOf(id),
      ownInventory: () => this.inventory(),
      isSearching: () => this.#guard.isSearching,
      adopt: (records) => knowledge.inTurn(() => knowledge.adopt(records)),
      onChange: (listener) => this.onChange(listener),
      stopping: this.#stopping.signal,
      isShared: holders !== undefined,
    });
    deps.partitions.guard(this.#guard.check);
  }

  get nodeId(): string {
    return this.#deps.identity.nodeId;
  }

  get members(): Members {
    return this.#knowledge.members;
  }

  get view(): HolderView {
    return this.#knowledge.view;
  }

  /** Node id by partition, as the ring assigns it. */
  get desired(): readonly string[] {
    return this.#knowledge.desired;
  }

  get self(): MemberRecord | undefined {
    return this.#knowledge.self;
  }

  /** Resolves when this node has handed over all partitions and left. Never resolves for a removed node. */
  get left(): Promise<void> {
    return this.#leaving.done;
  }

  /** Resolves when this node may commit for the first time; rejects if it never may. */
  get confirmed(): Promise<void> {
    return this.#guard.confirmed;
  }

  /** Resolves when this node learns that it may never commit again; see `CommitGuard.barred`. */
  get barred(): Promise<void> {
    return this.#guard.barred;
  }

  /** Whether this node may commit now. False while it waits for a confirmation that it is still a member. */
  get mayCommit(): boolean {
    return this.#guard.check() === undefined;
  }

  /** The other members that hold partitions, or may hold some. */
  get others(): MemberRecord[] {
    return this.#knowledge.others;
  }

  addressOf(nodeId: string): string | undefined {
    return addressOf(nodeId, this.#deps.membership, this.members);
  }

  /** Why this node commits nothing now, as text for operators; undefined while it commits. */
  get problem(): string | undefined {
    const isOpening = this.#sharedPlacement?.isSettled === false && this.self?.state === 'active';
    const problem = this.#guard.problem ?? (isOpening ? 'it opens its partitions' : undefined);
    return problem && (this.#exchanger.incompatibility ?? problem);
  }

  /** How far the system clocks of other members are ahead of this one. */
  get clockDifferences(): readonly ClockDifference[] {
    return this.#exchanger.clockDifferences;
  }

  /** Why most other members refuse the calls that this node forwards if it identifies callers; undefined if they do not. */
  get forwardingProblem(): string | undefined {
    return this.#exchanger.forwardingProblem;
  }

  inventory(): InventoryEntry[] {
    const { partitions, handOffs } = this.#deps;
    return inventoryOf(partitions.held(), handOffs.progress());
  }

  start(): void {
    const { partitions, handOffs } = this.#deps;
    partitions.locate((id) => this.#locate(id));
    this.#endListening = partitions.onChange((changed) => this.#holdingsChanged(changed));
    // The last run may have ended before it had finished a removal. `LeftTargets` does the rest.
    for (const record of this.members.values()) if (isRemoved(record)) void this.#refuseRemoved(record.nodeId);
    if (this.#sharedPlacement === undefined) handOffs.start();
    this.#holdingsChanged(this.view.ids());
    this.#seekOthers();
    this.#guard.start();
    this.#exchanger.start();
    if (this.self?.state === 'leaving') this.#leaving.goOn();
  }

  /** Ends all running work; partitions and members stay as they are. */
  stop(): void {
    this.#stopping.abort(new Refusal('SHUTTING_DOWN', 'the node is shutting down'));
    this.#endListening();
    this.#exchanger.stop();
    this.#knowledge.stop();
    this.#guard.stop();
    this.#orphans.stop();
    this.#leaving.stop();
    this.#placement.stop();
    this.#sharedPlacement?.stop();
    this.#share.stop();
    this.#deps.handOffs.stop();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Asks the addresses in order to admit this node; resolves with the first answer. */
  join(addresses: readonly string[]): Promise<JoinResponse> {
    return this.#joining.ask(addresses);
  }

  /**
   * Makes this node active, so that it may hold partitions. Resolves once another holding member has stored that durably.
   * Without it this node could remove a member that does not know this node; restarted, that member would think it is
   * alone.
   */
  activate(): Promise<void> {
    return this.#joining.activate();
  }

  /** Call this at every start: other nodes find this node by the addresses in its record. */
  async updateSelf(addresses: { readonly rpcAddress?: string; readonly gossipAddress?: string }): Promise<void> {
    if (this.self?.state !== 'left') await this.#knowledge.changeSelf(addresses);
  }

  /** Starts to hand over all partitions; idempotent. Resolves with the number of partitions still held; see `left`. */
  async leave(): Promise<number> {
    await this.#leaving.begin();
    return this.#deps.partitions.held().length;
  }

  /** Ends a drain: this node stays a member, with its share. Resolves with the number of partitions that it holds. */
  async stay(): Promise<number> {
    await this.#leaving.cancel();
    return this.#deps.partitions.held().length;
  }

  /**
   * Hands over all partitions, because the process ends; resolves when this node holds none and has told the other members that
   * it left. `stay` is refused meanwhile.
   */
  async drain(signal?: AbortSignal): Promise<void> {
    this.#leaving.endsWithProcess();
    await this.leave();
    await Promise.race([this.left, aborted(signal), aborted(this.#stopping.signal)]);
  }

  async #tell({ clusterId, from, knowledge: heard, release: other }: ExchangeRequest): Promise<ExchangeResponse> {
    // A proxy may not know the cluster's id yet.
    if (clusterId !== '' || from !== '') this.#assertCluster(clusterId);
    const release = this.#release;
    assertCompatible(release, other);
    const { identity, partitionCount: partitions, clock } = this.#deps;
    const knowledge = this.#knowledge;
    return knowledge.inTurn(async () => {
      if (from !== '') {
        await knowledge.learn(heard, from);
        // It may have given partitions to this node.
        this.#sharedPlacement?.look();
      }
      const self = { nodeId: this.nodeId, clusterId: identity.clusterId, mayCommit: this.mayCommit, release };
      return { ...self, knowledge: knowledge.tell(), partitions, nowMs: clock.now(), wallMs: clock.wall() };
    });
  }

  #assertCluster(clusterId: string): void {
    const own = this.#deps.identity.clusterId;
    if (clusterId === own) return;
    throw new Refusal('WRONG_CLUSTER', `this is cluster ${own}, not ${clusterId}`);
  }

  #assertMeant({ clusterId, nodeId }: { readonly clusterId: string; readonly nodeId: string }): void {
    this.#assertCluster(clusterId);
    if (nodeId !== this.nodeId) throw new Refusal('UNKNOWN_MEMBER', `this is node ${this.nodeId}, not ${nodeId}`);
  }

  /** What this node tells other members about its release. */
  get #release(): MemberRelease {
    return releaseOf(this.#deps.membership.self.version);
  }

  #locate(id: PartitionId): PartitionLocation | undefined {
    const holder = this.view.get(id);
    const address = holder && this.addressOf(holder.nodeId);
    return holder && address !== undefined ? { ...holder, address } : undefined;
  }

  #holdingsChanged(ids: Iterable<PartitionId>): void {
    this.#knowledge.holdingsChanged(ids);
    this.#look();
  }

  /** Does what a removal requires at this node. A partition that cannot be taken back now is taken back later. */
  async #resolveRemoved({ nodeId }: MemberRecord): Promise<void> {
    if (nodeId === this.nodeId) return;
    await this.#refuseRemoved(nodeId);
    // The store says who holds what was given to it.
    if (this.#sharedPlacement !== undefined) return;
    await this.#takeBack(nodeId).catch((error: unknown) => {
      const { log } = this.#deps;
      log.warn({ err: error, nodeId }, 'could not take back yet the partitions that a removed member may have taken');
    });
  }

  /** Also tells the removed member, in case it still runs. */
  async #refuseRemoved(nodeId: string): Promise<void> {
    if (nodeId === this.nodeId) return;
    void this.#tellRemoved(nodeId);
    await this.#deps.handOffs.refuse(nodeId);
  }

  #takeBack(nodeId: string): Promise<void> {
    return this.#deps.handOffs.resolveRemoved(nodeId, (epoch) => epochBeyond(epoch, this.members));
  }

  async #tellRemoved(nodeId: string): Promise<void> {
    const { signal } = this.#stopping;
    for (let attempt = 0; attempt < TELL_ATTEMPTS && !signal.aborted; attempt++) {
      if (await this.#exchanger.with(nodeId)) return;
      // Rejects when the agent stops; the loop ends then.
      await sleep(this.#deps.clock, TELL_RETRY_MS, signal).catch(() => {});
    }
  }

  /** Peers fetch this node's knowledge when its state version has grown. */
  #announce(): void {
    const { membership } = this.#deps;
    membership.announce({ stateVersion: membership.self.stateVersion + 1 });
    for (const listener of this.#listeners) listener();
    this.#look();
  }

  /** Asks gossip to look for the other members: they may have restarted at new addresses. */
  #seekOthers(): void {
    this.#deps.membership.seek(this.others.flatMap(({ gossipAddress }) => gossipAddress || []));
  }

  /** Lets every part of the agent act on the present state. */
  #look(): void {
    if (this.#stopping.signal.aborted || this.self?.state === 'left') return;
    this.#presence.look();
    this.#share.update(this.desired);
    if (this.#sharedPlacement !== undefined) {
      this.#sharedPlacement.look();
      return;
    }
    this.#placement.update(this.desired, (nodeId) => this.#targetAt(nodeId));
    this.#orphans.look();
    this.#leftTargets.look();
  }

  /** The address that partitions for the node go to; undefined while the node is not alive. */
  #targetAt(nodeId: string): string | undefined {
    const peer = this.#deps.membership.peers().find((one) => one.nodeId === nodeId);
    return peer?.alive === true ? peer.rpcAddress : undefined;
  }

  /**
   * The members that must answer before a decision for the whole cluster. That includes members that are joining, alive or not:
   * they may be active and hold partitions, and this node may not have heard of it.
   */
  #toHear(): string[] {
    return [...this.members.values()]
      .filter(({ nodeId, state }) => state !== 'left' && nodeId !== this.nodeId)
      .map(({ nodeId }) => nodeId);
  }
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
