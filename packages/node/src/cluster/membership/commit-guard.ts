import { type Instant, type PartitionId, Refusal } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock, Log } from '@taskmaster/engine/ports';
import type { Heard, MemberRecord, MemberState } from '@taskmaster/server/cluster-view';

export interface CommitGuardDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly self: () => MemberRecord | undefined;
  /** The other members that hold partitions or may hold some, alive or not. */
  readonly others: () => readonly MemberRecord[];
  /** Exchanges knowledge with the member; undefined if it did not answer. */
  readonly hear: (nodeId: string) => Promise<Heard | undefined>;
  /** True if the store refuses the commits of a node that was removed (G6). Default false. */
  readonly isFenced?: boolean;
}

const BEAT_MS = 500;
/** A node that paused for longer may have been removed meanwhile. */
export const PAUSE_MS = 5_000;
/** Longest time that callers wait for a confirmation; then they are refused. */
const PATIENCE_MS = 2_000;
/**
 * How long a waiting node looks for a member that may commit (G2): longer than a process needs to restart. Members that
 * joined while this node was down find it in this time, too.
 */
const SEARCH_MS = 10_000;
const RETRY_DELAY_MS = 500;
const REPORT_MS = 30_000;

/** The time of a beat by all three clocks. `now` pauses while the machine is suspended. */
interface Beat {
  readonly now: Instant;
  readonly wall: number;
  readonly uptimeMs: number;
}

type State =
  | { readonly kind: 'open' }
  /** Commits wait until another member confirms that this node is still a member. */
  | {
      readonly kind: 'held';
      readonly since: Instant;
      readonly over: PromiseWithResolvers<void>;
      readonly asking: Set<string>;
      /** For each member that was asked since then: whether it answered. */
      readonly answered: Map<string, boolean>;
      reportAt: number;
    }
  /** This node never commits again. */
  | { readonly kind: 'closed'; readonly refused: Promise<void> };

/**
 * Keeps a node from committing if it was removed while it was down or paused.
 *
 *  G1  After a start, or after a gap of five seconds between beats by any clock, the node commits nothing until it has
 *      exchanged knowledge with another member. The exchange must begin after the start or gap; the other member must not
 *      have left and must not be waiting itself. Every such member stores a removal durably before any node claims the
 *      removed member's partitions, so one answer suffices.
 *  G2  A waiting member may not know of a removal. Example: two members were removed together, or one after the other
 *      before the second heard of the first; both restart. So answers of waiting members count only once all other members
 *      have answered. After ten seconds, answers of more than half of the members that this node knows (itself included)
 *      suffice. That rule is for a cluster that was down as a whole and of which a few members stay down. Removed members
 *      that restart together and reach no remaining member look the same. They serve if they are more than half of the
 *      members they know, so the documents warn operators.
 *  G3  A node without other members commits at once: no member could have removed it.
 *  G4  The node cannot tell members that are down from members that are cut off. While no member answers it waits, without
 *      a time limit. An operator can remove members that will not return, at this node too.
 *  G5  A node that was started with an older copy of its data directory stops committing when it hears of it. At a start it
 *      hears of it before its membership is confirmed, if the confirming member knows it.
 *  G6  Nodes that share a store need no confirmation: whoever takes the partitions of a node ends its power to commit before.
 */
export class CommitGuard {
  readonly #deps: CommitGuardDeps;
  /** Resolves when this node is first confirmed as a member. Rejects if it never will be. */
  readonly confirmed: Promise<void>;
  /** Resolves when this node learns that it was removed or that its directory is an older copy (G5). The log says which. */
  readonly barred: Promise<void>;
  readonly #confirmed = Promise.withResolvers<void>();
  readonly #barred = Promise.withResolvers<void>();
  #state: State = { kind: 'open' };
  /** This node's own state at the last call of `membersChanged`. */
  #ownState: MemberState | undefined;
  #lastBeat: Beat;
  #cancelBeat: CancelTimer = () => {};
  #stopped = false;

  constructor(deps: CommitGuardDeps) {
    this.#deps = deps;
    this.confirmed = this.#confirmed.promise;
    this.confirmed.catch(() => {});
    this.barred = this.#barred.promise;
    this.#lastBeat = beatAt(deps.clock);
    if (deps.isFenced) this.#confirmed.resolve();
    else this.#hold();
    this.membersChanged();
  }

  /** Undefined if this node may commit in this turn; otherwise the promise that `PartitionHost.guard` describes. */
  readonly check = (): Promise<void> | undefined => {
    if (this.#state.kind === 'open') {
      const { clock, isFenced } = this.#deps;
      if (isFenced) return undefined;
      // Leaves out the uptime: it has to be read from a file.
      if (gapMs(this.#lastBeat, clock.now(), clock.wall()) <= PAUSE_MS) return undefined;
      this.#beat();
    }
    // `#beat` may have opened the guard, if there are no other members.
    const state = this.#state as State;
    if (state.kind === 'open') return undefined;
    return state.kind === 'held' ? state.over.promise : state.refused;
  };

  /** Why this node commits nothing, as text for operators; undefined while it commits. */
  get problem(): string | undefined {
    const { self, others } = this.#deps;
    if (this.#state.kind === 'open') return undefined;
    if (this.#state.kind === 'held') {
      return `it waits for one of the other members to answer: ${namesOf(silent(this.#state, others()))}`;
    }
    if (this.#stopped) return 'it is shutting down';
    return self()?.state === 'left'
      ? 'it is no longer a member of the cluster'
      : 'its data directory is an older copy of what it had';
  }

  /**
   * Whether this node waits for a confirmation, and has looked for less than `SEARCH_MS`. Members that joined while it was
   * down may be unknown to it.
   */
  get isSearching(): boolean {
    return this.#state.kind === 'held' && this.#deps.clock.now() < this.#state.since + SEARCH_MS;
  }

  start(): void {
    if (this.#deps.isFenced) return;
    this.#ask();
    this.#beatSoon();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelBeat();
    if (this.#state.kind === 'held') this.#close(shuttingDown());
  }

  membersChanged(): void {
    const { self, log } = this.#deps;
    const own = self();
    const earlier = this.#ownState;
    this.#ownState = own?.state;
    if (own?.state === 'left' && this.#state.kind !== 'closed') {
      const message = own.removedBy === '' ? 'has left' : 'was removed by an operator and may change nothing any more';
      const refusal = new Refusal('MEMBER_LEFT', `this node ${message}`);
      this.#close(refusal);
      if (own.removedBy !== '') {
        this.#barred.resolve();
        log.error(
          { node: own.name, removedBy: own.removedBy },
          'this node was removed by an operator: other members hold its partitions now. Stop it; to use the machine again, start it with an empty data directory',
        );
      } else if (earlier !== undefined && earlier !== 'leaving') {
        // A node that leaves writes `leaving` first.
        this.#barred.resolve();
        log.error(
          { node: own.name },
          'the data directory is an older copy: this node has left the cluster since. The node serves none of it and exits. To bring it back as a new member, start it with --join and an empty data directory',
        );
      }
    }
    this.#openIfTold();
  }

  /** Call this when other nodes know that this node's disk had more of these partitions than it has now. */
  outdated(partitions: readonly PartitionId[]): void {
    if (this.#state.kind === 'closed') return;
    const { self, log } = this.#deps;
    const node = self()?.name ?? '';
    this.#close(
      new Refusal(
        'OLD_DATA',
        `node ${node} was started with an older copy of its data directory and serves none of it`,
        {
          retryDelayMs: RETRY_DELAY_MS,
        },
      ),
    );
    this.#barred.resolve();
    log.error(
      { node, partitions },
      `the data directory is an older copy: other members know that this node had more. The node serves none of it and exits. Restore the newest copy of the directory; if there is none, remove the member with \`taskmaster members remove ${node} --accept-loss\` and start it with an empty directory`,
    );
  }

  #beatSoon(): void {
    const { clock } = this.#deps;
    this.#cancelBeat = clock.at((clock.now() + BEAT_MS) as Instant, () => {
      this.#beat();
      this.#ask();
      this.#beatSoon();
    });
  }

  #beat(): void {
    const last = this.#lastBeat;
    const beat = beatAt(this.#deps.clock);
    this.#lastBeat = beat;
    const goneMs = Math.max(gapMs(last, beat.now, beat.wall), beat.uptimeMs - last.uptimeMs);
    if (goneMs <= PAUSE_MS || this.#state.kind === 'closed') return;
    if (this.#stopped) {
      // A stopped guard asks no member any more, so `held` would never end.
      this.#close(shuttingDown());
      return;
    }
    const message =
      'this node or its machine was paused, or its clock was changed: it asks whether it is still a member';
    this.#deps.log.warn({ gapMs: goneMs }, message);
    this.#hold();
    this.membersChanged();
    this.#ask();
  }

  /** Closes the guard until a confirmation. Answers to earlier questions do not count. */
  #hold(): void {
    const since = this.#deps.clock.now();
    const earlier = this.#state.kind === 'held' ? this.#state.over : undefined;
    const over = Promise.withResolvers<void>();
    over.promise.catch(() => {});
    this.#state = { kind: 'held', since, over, asking: new Set(), answered: new Map(), reportAt: since + PATIENCE_MS };
    if (earlier) over.promise.then(earlier.resolve, earlier.reject);
  }

  #open(): void {
    if (this.#state.kind !== 'held') return;
    const { over } = this.#state;
    this.#state = { kind: 'open' };
    over.resolve();
    this.#confirmed.resolve();
  }

  /** Opens the guard if enough waiting members answered (G2), or if there are no other members (G3). */
  #openIfTold(): void {
    const state = this.#state;
    if (state.kind !== 'held') return;
    const others = this.#deps.others();
    const missing = silent(state, others);
    const isMostOfAll = others.length + 1 > 2 * missing.length;
    const isSearchOver = !this.isSearching && missing.length < others.length;
    if (isSearchOver && isMostOfAll ? missing.every(({ nodeId }) => state.answered.has(nodeId)) : missing.length === 0)
      this.#open();
  }

  #close(refusal: Refusal): void {
    const earlier = this.#state;
    this.#state = { kind: 'closed', refused: rejected(refusal) };
    this.#confirmed.reject(refusal);
    if (earlier.kind === 'held') earlier.over.reject(refusal);
  }

  #ask(): void {
    this.#openIfTold();
    const state = this.#state;
    if (state.kind !== 'held' || this.#stopped) return;
    const { clock, others, log } = this.#deps;
    for (const { nodeId } of others()) {
      if (!state.asking.has(nodeId)) void this.#askOne(state, nodeId);
    }
    const missing = silent(state, others());
    const now = clock.now();
    if (now < state.since + PATIENCE_MS) return;
    // The promise stays rejected, so later callers are refused at once.
    state.over.reject(
      new Refusal('STARTING', `this node waits for one of the other members to answer: ${namesOf(missing)}`, {
        retryDelayMs: RETRY_DELAY_MS,
      }),
    );
    const noneAnswered = missing.length === others().length;
    if (now < state.reportAt || (!noneAnswered && now < state.since + SEARCH_MS)) return;
    state.reportAt = now + REPORT_MS;
    log.warn(
      { members: missing.map(({ name, rpcAddress }) => ({ name, rpcAddress })) },
      `${noneAnswered ? 'no other member answers' : 'half of the members or more do not answer'}, and this node may have been removed while it was away: it serves nothing until they do. Start some of them; if all are lost for good, remove them with \`taskmaster members remove NAME... --accept-loss\``,
    );
  }

  async #askOne(state: Extract<State, { kind: 'held' }>, nodeId: string): Promise<void> {
    const { others, hear } = this.#deps;
    state.asking.add(nodeId);
    const heard = await hear(nodeId);
    state.asking.delete(nodeId);
    // Ignores an answer that arrived during a pause: it belongs to an earlier state, or `check` notices the gap.
    if (this.#state !== state) return;
    state.answered.set(nodeId, heard !== undefined || state.answered.get(nodeId) === true);
    // A member that has left cannot confirm others.
    if (heard?.mayCommit && others().some((other) => other.nodeId === nodeId)) this.#open();
    else this.#openIfTold();
  }
}

const beatAt = (clock: Clock): Beat => ({ now: clock.now(), wall: clock.wall(), uptimeMs: clock.mark().uptimeMs });

/** Time between two beats by the clock that advanced more. A clock that was set back does not count. */
const gapMs = (last: Beat, now: Instant, wall: number): number => Math.max(now - last.now, wall - last.wall);

const silent = (
  { answered }: Extract<State, { kind: 'held' }>,
  others: readonly MemberRecord[],
): readonly MemberRecord[] => others.filter(({ nodeId }) => answered.get(nodeId) !== true);

const namesOf = (members: readonly MemberRecord[]): string => members.map(({ name }) => name).join(', ');

const shuttingDown = (): Refusal => new Refusal('SHUTTING_DOWN', 'the node is shutting down');

function rejected(refusal: Refusal): Promise<void> {
  const refused = Promise.reject(refusal);
  refused.catch(() => {});
  return refused;
}
