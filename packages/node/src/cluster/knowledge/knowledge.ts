import { type Partitions, ticketBehindEarlierLives } from '@taskmaster/engine';
import { type Instant, type PartitionId, Refusal, type Ticket } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock, Log } from '@taskmaster/engine/ports';
import type { ClusterKnowledge } from '@taskmaster/proto';
import {
  HolderView,
  isHolding,
  isRemoved,
  type KnownHolder,
  learnFrom,
  type MemberRecord,
  type Members,
  mergeMembers,
  ringMembers,
  toWireKnowledge,
} from '@taskmaster/server/cluster-view';
import type { Identity, MemberStore } from '../membership/member-store.ts';
import { desiredHolders } from '../placement/ring.ts';

export interface KnowledgeDeps {
  readonly identity: Identity;
  readonly members: Members;
  readonly memberStore: MemberStore;
  /** When an operator last accepted that this node has lost acknowledged work; undefined if that never happened. */
  readonly acceptedLossAt?: Instant | undefined;
  readonly partitions: Partitions;
  readonly partitionCount: number;
  readonly clock: Clock;
  readonly log: Log;
}

export interface KnowledgeListener {
  /** Member records changed; the change is durable. */
  readonly membersChanged: () => void;
  /** A member was removed. Until the promise resolves, this node neither learns nor tells anything else. */
  readonly removed: (record: MemberRecord) => Promise<void>;
  /** Other nodes know that this node had durable data of these partitions which its disk lacks now. */
  readonly outdated: (partitions: readonly PartitionId[]) => void;
  /** This node knows something that other nodes do not know yet. */
  readonly news: () => void;
}

/** Shortest time between two counts of tasks and queues: a count reads every queue. */
const COUNT_MS = 1_000;
/** Backoff of a failed write: it starts with the first value and doubles up to the second. */
const FIRST_RETRY_MS = 200;
const MAX_RETRY_MS = 10_000;

/**
 * What a node knows of its cluster: the members (durable) and the holder of each partition. Only the node itself changes
 * its own record and says which partitions it holds.
 */
export class Knowledge {
  readonly view: HolderView;
  readonly #deps: KnowledgeDeps;
  readonly #listener: KnowledgeListener;
  #members: Members;
  #desired: readonly string[];
  #countedAt = Number.NEGATIVE_INFINITY;
  #turn: Promise<void> = Promise.resolve();
  /** Partitions that other nodes hold now. This node released them, but could not write that yet. */
  #toWrite: ReadonlyMap<PartitionId, KnownHolder> = new Map();
  #retryMs = FIRST_RETRY_MS;
  #cancelRetry: CancelTimer = () => {};
  #stopped = false;

  constructor(deps: KnowledgeDeps, listener: KnowledgeListener) {
    this.#deps = deps;
    this.#listener = listener;
    this.view = new HolderView(deps.partitionCount);
    this.#members = deps.members;
    this.#desired = desiredHolders(ringMembers(deps.members), deps.partitionCount);
    // Before this node answers any other node: a removal counts partitions that no answer mentions as lost.
    this.#learnOwn(this.view.ids());
  }

  get members(): Members {
    return this.#members;
  }

  /** Node id by partition, as the ring assigns it. */
  get desired(): readonly string[] {
    return this.#desired;
  }

  get self(): MemberRecord | undefined {
    return this.#members.get(this.#deps.identity.nodeId);
  }

  /** The other members that hold partitions, or may hold some. */
  get others(): MemberRecord[] {
    const { nodeId } = this.#deps.identity;
    return [...this.#members.values()].filter((record) => record.nodeId !== nodeId && isHolding(record));
  }

  /** Whether a store that all nodes share says who holds what. Then a node has no data of its own that could be old. */
  get #isShared(): boolean {
    return this.#deps.partitions.shared !== undefined;
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelRetry();
  }

  /** The knowledge in the form sent to other nodes. */
  tell(): ClusterKnowledge {
    this.#count();
    return toWireKnowledge(this.#members, this.view);
  }

  /**
   * Runs `work` after all earlier work: news, claims and answers take turns. So an answer contains only finished changes,
   * and all consequences of a record are done before this node tells others that it knows the record.
   */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  /** Merges the knowledge of node `from`. Call it only inside `inTurn`. */
  async learn(knowledge: ClusterKnowledge | undefined, from: string): Promise<void> {
    // A removed node may still believe that it holds partitions which other nodes have claimed since.
    if (isRemoved(this.#members.get(from))) return;
    const { records, news } = learnFrom(knowledge, this.view);
    const isOwnRemoval = records.some((record) => record.nodeId === this.#deps.identity.nodeId && isRemoved(record));
    // This comes first: old data must not be served for one more turn.
    if (!isOwnRemoval && !this.#isShared) this.#noticeOldData();
    if (news) {
      // A node that shares its store hears here what the store tells it soon, or that it was fenced.
      await this.#releaseSuperseded(isOwnRemoval || isRemoved(this.self) || this.#isShared);
      this.#listener.news();
    }
    await this.adopt(records.filter((record) => !this.#isEcho(record)));
  }

  /**
   * Whether the record says that this node itself has left. The node announces that before it has left, and decides itself
   * which member must store it; see `Leaving`.
   */
  #isEcho(record: MemberRecord): boolean {
    const { self } = this;
    return record.nodeId === self?.nodeId && self.state === 'leaving' && record.state === 'left' && !isRemoved(record);
  }

  /** Merges records, and stores them before it acts on them. */
  async adopt(records: readonly MemberRecord[]): Promise<void> {
    const merged = mergeMembers(this.#members, records);
    if (merged === this.#members) return;
    const changed = [...merged.values()].filter((record) => this.#members.get(record.nodeId) !== record);
    await this.#deps.memberStore.writeMembers(changed);
    const removed = changed.filter((record) => isRemoved(record) && !isRemoved(this.#members.get(record.nodeId)));
    this.#members = merged;
    this.#desired = desiredHolders(ringMembers(merged), this.#deps.partitionCount);
    this.#listener.membersChanged();
    await Promise.all(removed.map((record) => this.#listener.removed(record)));
    this.#listener.news();
  }

  /** Changes this node's own record, in turn. Does nothing if the record stays the same. */
  changeSelf(change: Partial<Pick<MemberRecord, 'state' | 'rpcAddress' | 'gossipAddress'>>): Promise<void> {
    return this.inTurn(async () => {
      const { self } = this;
      if (!self) throw new Error('this node has no own member record');
      const changed = { ...self, ...change };
      if (JSON.stringify(changed) === JSON.stringify(self)) return;
      if (self.state === 'left') throw new Refusal('MEMBER_LEFT', `member ${self.name} has left the cluster`);
      await this.adopt([{ ...changed, version: self.version + 1 }]);
    });
  }

  /** Call this when this node began or ceased to hold partitions. */
  holdingsChanged(ids: Iterable<PartitionId>): void {
    if (this.#learnOwn(ids)) this.#listener.news();
  }

  #learnOwn(ids: Iterable<PartitionId>): boolean {
    const { partitions, identity } = this.#deps;
    let news = false;
    for (const id of ids) {
      const holding = partitions.holding(id);
      if (!holding) continue;
      const nodeId = holding.kind === 'released' ? holding.to : identity.nodeId;
      if (this.view.learn(id, { nodeId, epoch: holding.epoch })) news = true;
    }
    return news;
  }

  /**
   * A node tells others what it holds, and up to which ticket, only after that is durable. So if others know a later epoch
   * or a larger mark than this node's own disk has, the disk has an older copy of the data, and everything on it is old.
   */
  #noticeOldData(): void {
    const { partitions, identity } = this.#deps;
    const later: PartitionId[] = [];
    for (const [id, known] of this.view.entries()) {
      if (known.nodeId !== identity.nodeId) continue;
      const holding = partitions.holding(id);
      const epoch = holding?.epoch ?? 0;
      if (known.epoch > epoch) later.push(id);
      if (known.epoch !== epoch || holding?.kind === 'released') continue;
      const tickets = partitions.ticketsOf(id);
      if (tickets && this.view.durableMark(id) > this.#markOf(tickets.lastTicket)) later.push(id);
    }
    if (later.length > 0) this.#listener.outdated(later);
  }

  /**
   * The mark that other nodes get for a ticket. After a loss that an operator accepted, tickets may be smaller than before.
   * Marks still grow, because all earlier tickets are from before that instant.
   */
  #markOf(ticket: Ticket): number {
    const { acceptedLossAt } = this.#deps;
    return acceptedLossAt === undefined ? ticket : ticketBehindEarlierLives(acceptedLossAt) + ticket;
  }

  /**
   * Releases each partition that another node holds at a later epoch. If two nodes hold it at one epoch, the node that all
   * views choose (`HolderView.learn`) keeps it. `isExpected`: this node was removed, which is logged elsewhere.
   */
  async #releaseSuperseded(isExpected: boolean): Promise<void> {
    const { partitions, identity, log } = this.#deps;
    const superseded = new Map(this.#toWrite);
    const lost: PartitionId[] = [];
    for (const [id, known] of this.view.entries()) {
      const holding = partitions.holding(id);
      if (!holding || holding.kind === 'released' || known.nodeId === identity.nodeId) continue;
      const { epoch } = holding;
      if (known.epoch < epoch) continue;
      const details = { partition: id, epoch, by: known };
      log.debug(details, 'another node holds the partition, and its epoch counts');
      // If this node had asked another node to take it, this is the answer that it waited for.
      if (holding.kind !== 'handing-over') lost.push(id);
      superseded.set(id, known);
    }
    await this.#supersede(superseded);
    if (lost.length === 0 || isExpected) return;
    log.error({ partitions: lost }, 'released partitions of this node: other nodes hold them, and their epochs count');
  }

  /** Stops serving the partitions at once. A failed write is repeated later: news must not wait for a disk. */
  async #supersede(superseded: ReadonlyMap<PartitionId, KnownHolder>): Promise<void> {
    const { partitions, log } = this.#deps;
    const failed = new Map<PartitionId, KnownHolder>();
    let problem: unknown;
    const give = async ([id, known]: [PartitionId, KnownHolder]): Promise<void> => {
      try {
        await partitions.supersede(id, known);
      } catch (error) {
        failed.set(id, known);
        problem = error;
      }
    };
    await Promise.all([...superseded].map(give));
    this.#toWrite = failed;
    this.#cancelRetry();
    if (failed.size === 0) {
      this.#retryMs = FIRST_RETRY_MS;
      return;
    }
    log.debug({ err: problem, partitions: [...failed.keys()] }, 'could not write yet that partitions were released');
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#stopped) return;
    const { clock } = this.#deps;
    this.#cancelRetry = clock.at((clock.now() + this.#retryMs) as Instant, () => {
      void this.inTurn(() => this.#supersede(this.#toWrite));
    });
    this.#retryMs = Math.min(MAX_RETRY_MS, this.#retryMs * 2);
  }

  #count(): void {
    const { clock, partitions, identity } = this.#deps;
    const countedMs = clock.now();
    if (countedMs - this.#countedAt < COUNT_MS) return;
    this.#countedAt = countedMs;
    for (const { id, epoch, queues, tasks } of partitions.held()) {
      this.view.learnCounts(id, epoch, { queues, tasks, countedMs });
      const durable = partitions.ticketsOf(id)?.durableTicket ?? 0;
      if (durable > 0)
        this.view.learnDurableMark(id, { nodeId: identity.nodeId, epoch }, this.#markOf(durable as Ticket));
    }
  }
}
