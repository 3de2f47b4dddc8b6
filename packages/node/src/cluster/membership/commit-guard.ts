import type { Heard, MemberRecord } from '@taskmaster/server/cluster-view';
import { type Instant, type PartitionId, Refusal } from '@taskmaster/server/domain';
import type { CancelTimer, Clock, Log } from '@taskmaster/server/ports';

export interface CommitGuardDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly self: () => MemberRecord | undefined;
  /** The other members that take part when one is given up, alive or not. */
  readonly others: () => readonly MemberRecord[];
  /** Hears what the member knows; undefined unless it answered. */
  readonly hear: (nodeId: string) => Promise<Heard | undefined>;
}

const BEAT_MS = 500;
/** Whoever stood still for longer may have been given up meanwhile. */
export const PAUSE_MS = 5_000;
/** Callers wait so long, then they are refused. */
const PATIENCE_MS = 2_000;
/** So long those who wait themselves look for somebody who does not: longer than a process needs to start again. */
const SEARCH_MS = 10_000;
const RETRY_DELAY_MS = 500;
const REPORT_MS = 30_000;

/** When a beat was, by all clocks there are: the first of them stands still while the machine is suspended. */
interface Beat {
  readonly now: Instant;
  readonly wall: number;
  readonly uptimeMs: number;
}

type State =
  | { readonly kind: 'open' }
  /** Nothing is committed until one of the others says that this node is still a member. */
  | {
      readonly kind: 'held';
      readonly since: Instant;
      readonly over: PromiseWithResolvers<void>;
      readonly asking: Set<string>;
      /** Of everybody who was asked since, whether an answer came. */
      readonly answered: Map<string, boolean>;
      reportAt: number;
    }
  /** Nothing is committed ever again. */
  | { readonly kind: 'closed'; readonly refused: Promise<void> };

/**
 * Keeps a node that was given up while it was down or stood still from changing anything.
 *
 *  G1  Nothing is committed between a start, or a gap of five seconds in the beats by any clock, and an exchange begun after it with
 *      another member that has not left and does not wait itself. Every such member knows durably who was given up before
 *      anything of it is claimed, so one answer of any of them suffices.
 *  G2  Those who wait may know nothing of it: members that were given up together, or one after the other before the
 *      second heard of the first, do not when they come back. What they say counts only once all others have answered; or,
 *      where those who have not keep silent for ten seconds, once more than half of all members that this node knows have,
 *      with itself. The latter is for a cluster that was down as a whole and of which a few stay down. From members that
 *      were given up together, came back together, and reach none of those who know, it can be told by their number
 *      alone: those serve only where they are the greater part of the members they know. Operators are told not to do that.
 *  G3  Whoever is alone has nobody who could have given it up.
 *  G4  Whether the others are down or cut off cannot be told from here: while nobody answers it waits, however long they
 *      are gone. Members that will not return are given up by an operator, at this node too.
 *  G5  A node that was started with an older copy of its data directory commits nothing once it hears of that: at its start
 *      that is before it is told that it is a member, unless whoever tells it does not know better.
 */
export class CommitGuard {
  readonly #deps: CommitGuardDeps;
  /** Resolves once this node was told that it is a member, the first time. Rejects where it never will be. */
  readonly confirmed: Promise<void>;
  /** Resolves when this node learns that it was given up, or that its data is old (G5); never otherwise. The log says why. */
  readonly barred: Promise<void>;
  readonly #confirmed = Promise.withResolvers<void>();
  readonly #barred = Promise.withResolvers<void>();
  #state: State = { kind: 'open' };
  #lastBeat: Beat;
  #cancelBeat: CancelTimer = () => {};
  #stopped = false;

  constructor(deps: CommitGuardDeps) {
    this.#deps = deps;
    this.confirmed = this.#confirmed.promise;
    this.confirmed.catch(() => {});
    this.barred = this.#barred.promise;
    this.#lastBeat = beatAt(deps.clock);
    this.#hold();
    this.membersChanged();
  }

  /** Undefined when this node may commit in this turn; otherwise as `PartitionHost.guard` asks. */
  readonly check = (): Promise<void> | undefined => {
    if (this.#state.kind === 'open') {
      const { clock } = this.#deps;
      // Without the uptime, which is a file to be read.
      if (gapMs(this.#lastBeat, clock.now(), clock.wall()) <= PAUSE_MS) return undefined;
      this.#beat();
    }
    // `beat` may have found nobody to wait for.
    const state = this.#state as State;
    if (state.kind === 'open') return undefined;
    return state.kind === 'held' ? state.over.promise : state.refused;
  };

  /** Why nothing is committed, for people; undefined while it is. */
  get problem(): string | undefined {
    const { self, others } = this.#deps;
    if (this.#state.kind === 'open') return undefined;
    if (this.#state.kind === 'held') {
      return `it waits for one of the other members to answer: ${namesOf(silent(this.#state, others()))}`;
    }
    if (this.#stopped) return 'it is shutting down';
    return self()?.state === 'left'
      ? 'it is not a member of the cluster any more'
      : 'its data directory is an older copy of what it had';
  }

  /** Begins to ask and to beat. */
  start(): void {
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
    if (own?.state === 'left' && this.#state.kind !== 'closed') {
      const message = own.removedBy === '' ? 'has left' : 'was given up by an operator and may change nothing any more';
      const refusal = new Refusal('MEMBER_LEFT', `this node ${message}`);
      this.#close(refusal);
      if (own.removedBy !== '') {
        this.#barred.resolve();
        log.error(
          { node: own.name, removedBy: own.removedBy },
          'this node was given up by an operator: others hold its partitions now. Stop it; to use the machine again, start it with an empty data directory',
        );
      }
    }
    this.#openIfTold();
  }

  /** Others know these partitions to be here at later epochs than this node's disk does. */
  outdated(partitions: readonly PartitionId[]): void {
    if (this.#state.kind === 'closed') return;
    const { self, log } = this.#deps;
    const node = self()?.name ?? '';
    this.#close(
      new Refusal(
        'OLD_DATA',
        `node ${node} was started with an older copy of its data directory, and serves nothing of it`,
        {
          retryDelayMs: RETRY_DELAY_MS,
        },
      ),
    );
    this.#barred.resolve();
    log.error(
      { node, partitions },
      `the data directory is an older copy of what this node had: the others know partitions of it that came here later. Nothing of it is served, and the node ends. Put the newest copy of the directory back; if there is none, give the member up with \`taskmaster members remove ${node} --accept-loss\` and start it with an empty directory`,
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
      // Nobody would ask any more.
      this.#close(shuttingDown());
      return;
    }
    const message = 'this node or its machine stood still, or its clock was set: it asks whether it is still a member';
    this.#deps.log.warn({ gapMs: goneMs }, message);
    this.#hold();
    this.membersChanged();
    this.#ask();
  }

  /** Answers to whoever was asked before do not count. */
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

  /** By those who wait themselves (G2), or because there is nobody else (G3). */
  #openIfTold(): void {
    const state = this.#state;
    if (state.kind !== 'held') return;
    const others = this.#deps.others();
    const missing = silent(state, others);
    const isMostOfAll = others.length + 1 > 2 * missing.length;
    const isSearchOver = this.#deps.clock.now() >= state.since + SEARCH_MS && missing.length < others.length;
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
    // From here on it stays rejected: callers that come later are refused at once.
    state.over.reject(
      new Refusal('STARTING', `this node waits for one of the other members to answer: ${namesOf(missing)}`, {
        retryDelayMs: RETRY_DELAY_MS,
      }),
    );
    const nobody = missing.length === others().length;
    if (now < state.reportAt || (!nobody && now < state.since + SEARCH_MS)) return;
    state.reportAt = now + REPORT_MS;
    log.warn(
      { members: missing.map(({ name, rpcAddress }) => ({ name, rpcAddress })) },
      `${nobody ? 'no other member answers' : 'half of the members or more do not answer'}, and this node may have been given up while it was away: it serves nothing until they do. Start some of them; if all are lost for good, give them up with \`taskmaster members remove NAME... --accept-loss\``,
    );
  }

  async #askOne(state: Extract<State, { kind: 'held' }>, nodeId: string): Promise<void> {
    const { others, hear } = this.#deps;
    state.asking.add(nodeId);
    const heard = await hear(nodeId);
    state.asking.delete(nodeId);
    // An answer that lay around while this node stood still comes to a state before the gap, or `check` finds the gap.
    if (this.#state !== state) return;
    state.answered.set(nodeId, heard !== undefined || state.answered.get(nodeId) === true);
    // Whoever was found to have left is no judge of who is a member.
    if (heard?.mayCommit && others().some((other) => other.nodeId === nodeId)) this.#open();
    else this.#openIfTold();
  }
}

const beatAt = (clock: Clock): Beat => ({ now: clock.now(), wall: clock.wall(), uptimeMs: clock.mark().uptimeMs });

/** Clocks that were set back say nothing. */
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
