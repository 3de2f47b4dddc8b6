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
import { type Instant, type PartitionId, Refusal } from '@taskmaster/server/domain';
import type { CancelTimer, Clock, Log } from '@taskmaster/server/ports';
import type { Partitions } from '../../engine/partitions/partitions.ts';
import type { Identity, MemberStore } from '../membership/member-store.ts';
import { desiredHolders } from '../placement/ring.ts';

export interface KnowledgeDeps {
  readonly identity: Identity;
  readonly members: Members;
  readonly memberStore: MemberStore;
  readonly partitions: Partitions;
  readonly partitionCount: number;
  readonly clock: Clock;
  readonly log: Log;
}

export interface KnowledgeListener {
  /** Records changed; durable. */
  readonly membersChanged: () => void;
  /** A member was given up. Nothing else is heard or said before it resolves. */
  readonly removed: (record: MemberRecord) => Promise<void>;
  /** Others know partitions of this node at later epochs than its own disk does. */
  readonly outdated: (partitions: readonly PartitionId[]) => void;
  /** There is something that others do not know. */
  readonly news: () => void;
}

/** What partitions hold is counted at most so often: it takes a look at every queue. */
const COUNT_MS = 1_000;
/** What could not be written is tried again after so long, then later and later. */
const FIRST_RETRY_MS = 200;
const MAX_RETRY_MS = 10_000;

/** What a node knows of its cluster: its members, durably, and where partitions are. Its own part of both it says itself. */
export class Knowledge {
  readonly view: HolderView;
  readonly #deps: KnowledgeDeps;
  readonly #listener: KnowledgeListener;
  #members: Members;
  #desired: readonly string[];
  #countedAt = Number.NEGATIVE_INFINITY;
  #turn: Promise<void> = Promise.resolve();
  /** Others hold these; that this node gave them up could not be written yet. */
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
    // Before the first answer: what it leaves out is taken for lost where a member is given up.
    this.#learnOwn(this.view.ids());
  }

  get members(): Members {
    return this.#members;
  }

  /** Node id by partition, as the ring wants it. */
  get desired(): readonly string[] {
    return this.#desired;
  }

  get self(): MemberRecord | undefined {
    return this.#members.get(this.#deps.identity.nodeId);
  }

  /** The other members that hold partitions, or may. */
  get others(): MemberRecord[] {
    const { nodeId } = this.#deps.identity;
    return [...this.#members.values()].filter((record) => record.nodeId !== nodeId && isHolding(record));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelRetry();
  }

  /** As it is told to others. */
  tell(): ClusterKnowledge {
    this.#count();
    return toWireKnowledge(this.#members, this.view);
  }

  /**
   * What is heard and claimed, and what is answered of it, takes turns: an answer speaks of what is done, and whatever
   * follows from a record has followed before anybody is told that the record is known.
   */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  /** Takes over what the node of this id knows. Only in turn, as all that changes something. */
  async learn(knowledge: ClusterKnowledge | undefined, from: string): Promise<void> {
    // It may still believe to hold what others have claimed since.
    if (isRemoved(this.#members.get(from))) return;
    const { records, news } = learnFrom(knowledge, this.view);
    if (news) {
      const isOwnRemoval = records.some((record) => record.nodeId === this.#deps.identity.nodeId && isRemoved(record));
      // Before anything else: what this node has is not served for a turn longer.
      if (!isOwnRemoval) this.#noticeOldData();
      await this.#giveUpSuperseded(isOwnRemoval || isRemoved(this.self));
      this.#listener.news();
    }
    await this.adopt(records);
  }

  /** Durable before anything follows from it. */
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

  /** Waits for its turn. Without a difference nothing happens. */
  changeSelf(change: Partial<Pick<MemberRecord, 'state' | 'rpcAddress' | 'gossipAddress'>>): Promise<void> {
    return this.inTurn(async () => {
      const { self } = this;
      if (!self) throw new Error('this node has no record of its own');
      const changed = { ...self, ...change };
      if (JSON.stringify(changed) === JSON.stringify(self)) return;
      if (self.state === 'left') throw new Refusal('MEMBER_LEFT', `member ${self.name} has left the cluster`);
      await this.adopt([{ ...changed, version: self.version + 1 }]);
    });
  }

  /** What this node holds it says first hand; where it has just given something up, it knows to whom. */
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
   * A node says that it holds a partition once that is durable. So where others have heard that of it at a later epoch than
   * its own disk knows, the disk has an older copy of what it had, and everything on it is old.
   */
  #noticeOldData(): void {
    const { partitions, identity } = this.#deps;
    const later = [...this.view.entries()].filter(
      ([id, known]) => known.nodeId === identity.nodeId && known.epoch > (partitions.holding(id)?.epoch ?? 0),
    );
    if (later.length > 0) this.#listener.outdated(later.map(([id]) => id));
  }

  /**
   * What somebody else holds at a later epoch is not this node's any more, whatever it thinks. `isExpected`: as it was
   * given up, which is told of elsewhere.
   */
  async #giveUpSuperseded(isExpected: boolean): Promise<void> {
    const { partitions, identity, log } = this.#deps;
    const superseded = new Map(this.#toWrite);
    const lost: PartitionId[] = [];
    for (const [id, known] of this.view.entries()) {
      const holding = partitions.holding(id);
      if (!holding || holding.kind === 'released' || known.nodeId === identity.nodeId) continue;
      const { epoch } = holding;
      if (known.epoch <= epoch) continue;
      const details = { partition: id, epoch, by: known };
      log.debug(details, 'another node holds the partition at a later epoch');
      // Where this node told another one to take it, that is the answer it was waiting for.
      if (holding.kind !== 'handing-over') lost.push(id);
      superseded.set(id, known);
    }
    await this.#supersede(superseded);
    if (lost.length === 0 || isExpected) return;
    log.error({ partitions: lost }, 'other nodes hold partitions of this one at later epochs: it gave them up');
  }

  /** None of them is served from now on. What cannot be written is so later: nothing that is heard waits for a disk. */
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
    log.debug({ err: problem, partitions: [...failed.keys()] }, 'that partitions were given up cannot be written yet');
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
    const { clock, partitions } = this.#deps;
    const countedMs = clock.now();
    if (countedMs - this.#countedAt < COUNT_MS) return;
    this.#countedAt = countedMs;
    for (const { id, epoch, queues, tasks } of partitions.held()) {
      this.view.learnCounts(id, epoch, { queues, tasks, countedMs });
    }
  }
}
