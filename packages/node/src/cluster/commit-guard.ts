import { Refusal } from '../domain/errors.ts';
import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { MemberRecord } from './members.ts';

export interface CommitGuardDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly self: () => MemberRecord | undefined;
  /** The other members that take part when one is given up, alive or not. */
  readonly others: () => readonly MemberRecord[];
  /** Hears what the member knows; whether it answered. */
  readonly exchange: (nodeId: string) => Promise<boolean>;
}

const BEAT_MS = 500;
/** Whoever stood still for longer may have been given up meanwhile. */
export const PAUSE_MS = 5_000;
/** Callers wait so long, then they are refused. */
const PATIENCE_MS = 2_000;
const RETRY_DELAY_MS = 500;
const REPORT_MS = 30_000;

type State =
  | { readonly kind: 'open' }
  /** Nothing is committed until one of the others says that this node is still a member. */
  | {
      readonly kind: 'held';
      readonly since: Instant;
      readonly over: PromiseWithResolvers<void>;
      readonly asking: Set<string>;
      reportAt: number;
    }
  /** Nothing is committed ever again. */
  | { readonly kind: 'closed'; readonly refused: Promise<void> };

/**
 * Keeps a node that was given up while it was down or stood still from changing anything.
 *
 *  G1  Nothing is committed between a start, or a gap of five seconds in the beats, and an exchange begun after it with
 *      another member that has not left. Every such member knows durably who was given up before anything of it is
 *      claimed, so one answer of any of them suffices.
 *  G2  Whoever is alone has nobody who could have given it up.
 *  G3  Whether the others are down or cut off cannot be told from here: it waits, however long they are gone. A member
 *      that will not return is given up by an operator, at this node too.
 */
export class CommitGuard {
  readonly #deps: CommitGuardDeps;
  #state: State = { kind: 'open' };
  #lastBeat: Instant;
  #cancelBeat: CancelTimer = () => {};
  #stopped = false;

  constructor(deps: CommitGuardDeps) {
    this.#deps = deps;
    this.#lastBeat = deps.clock.now();
    this.#hold();
    this.membersChanged();
  }

  /** Undefined when this node may commit in this turn; otherwise as `PartitionHost.guard` asks. */
  readonly check = (): Promise<void> | undefined => {
    if (this.#state.kind === 'open') {
      if (this.#deps.clock.now() - this.#lastBeat <= PAUSE_MS) return undefined;
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
      return `it waits for one of the other members to answer: ${namesOf(others())}`;
    }
    return self()?.state === 'left' ? 'it is not a member of the cluster any more' : 'it is shutting down';
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
    const { self, others, log } = this.#deps;
    const own = self();
    if (own?.state === 'left' && this.#state.kind !== 'closed') {
      const message = own.removedBy === '' ? 'has left' : 'was given up by an operator and may change nothing any more';
      const refusal = new Refusal('MEMBER_LEFT', `this node ${message}`);
      this.#close(refusal);
      if (own.removedBy !== '') {
        log.error(
          { node: own.name, removedBy: own.removedBy },
          'this node was given up by an operator: others hold its partitions now. Stop it; to use the machine again, start it with an empty data directory',
        );
      }
    }
    if (this.#state.kind === 'held' && others().length === 0) this.#open();
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
    const now = this.#deps.clock.now();
    const gapMs = now - this.#lastBeat;
    this.#lastBeat = now;
    if (gapMs <= PAUSE_MS || this.#state.kind === 'closed') return;
    if (this.#stopped) {
      // Nobody would ask any more.
      this.#close(shuttingDown());
      return;
    }
    this.#deps.log.warn({ gapMs }, 'this node stood still: it asks the others whether it is still a member');
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
    this.#state = { kind: 'held', since, over, asking: new Set(), reportAt: since + PATIENCE_MS };
    if (earlier) over.promise.then(earlier.resolve, earlier.reject);
  }

  #open(): void {
    if (this.#state.kind !== 'held') return;
    const { over } = this.#state;
    this.#state = { kind: 'open' };
    over.resolve();
  }

  #close(refusal: Refusal): void {
    const earlier = this.#state;
    this.#state = { kind: 'closed', refused: rejected(refusal) };
    if (earlier.kind === 'held') earlier.over.reject(refusal);
  }

  #ask(): void {
    const state = this.#state;
    if (state.kind !== 'held' || this.#stopped) return;
    const { clock, others, log } = this.#deps;
    const waiting = others();
    for (const { nodeId } of waiting) {
      if (!state.asking.has(nodeId)) void this.#askOne(state, nodeId);
    }
    const now = clock.now();
    if (now < state.since + PATIENCE_MS) return;
    // From here on it stays rejected: callers that come later are refused at once.
    state.over.reject(
      new Refusal('STARTING', `this node waits for one of the other members to answer: ${namesOf(waiting)}`, {
        retryDelayMs: RETRY_DELAY_MS,
      }),
    );
    if (now < state.reportAt) return;
    state.reportAt = now + REPORT_MS;
    log.warn(
      { members: waiting.map(({ name, rpcAddress }) => ({ name, rpcAddress })) },
      'no other member answers, and this node may have been given up while it was away: it serves nothing until one does. Start one of them; if all are lost for good, give each up with `taskmaster members remove NAME --accept-loss`',
    );
  }

  async #askOne(state: Extract<State, { kind: 'held' }>, nodeId: string): Promise<void> {
    const { others, exchange } = this.#deps;
    state.asking.add(nodeId);
    const answered = await exchange(nodeId);
    state.asking.delete(nodeId);
    // An answer that lay around while this node stood still comes to a state before the gap, or `check` finds the gap.
    // Whoever was found to have left is no judge of who is a member.
    if (answered && this.#state === state && others().some((other) => other.nodeId === nodeId)) this.#open();
  }
}

const namesOf = (members: readonly MemberRecord[]): string => members.map(({ name }) => name).join(', ');

const shuttingDown = (): Refusal => new Refusal('SHUTTING_DOWN', 'the node is shutting down');

function rejected(refusal: Refusal): Promise<void> {
  const refused = Promise.reject(refusal);
  refused.catch(() => {});
  return refused;
}
