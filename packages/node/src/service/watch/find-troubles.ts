import { DEAD_LETTER_SUFFIX, type QueueStats } from '@taskmaster/engine/domain';
import { type QueueTroubleKind, rankOfTrouble, type Trouble, TroubleSeverity } from '@taskmaster/proto';

/** A pause that lasts longer is worth a look, in ms. */
const LONG_PAUSE_MS = 3_600_000;
/** As the alert TasksWaitTooLong, in ms. */
const OLD_MS = 600_000;
/** For how long nobody leases tasks that are there, in ms. */
const UNWORKED_MS = 300_000;
/** For how long more comes than goes, in ms. A short burst is no trouble. */
const GROWING_MS = 600_000;
/** For how long more than half of the attempts fail, in ms. */
const FAILING_MS = 300_000;
/** A queue is not dying any more if no task of it has died for this long, in ms, as in the alert NewDeadLetters. */
const DYING_MS = 3_600_000;
/** Slower queues come and go too irregularly for a comparison of their rates, per second. */
const LEAST_RATE = 0.05;
/** What goes must be below this part of what comes, as in the alert WorkersTooSlow. */
const KEEPS_UP = 0.9;

/** Queues that are remembered between two looks. */
const MOST_REMEMBERED = 20_000;

/** When something began, in ms since 1970. */
interface Beginning {
  readonly at: number;
  readonly isExact: boolean;
}

/** What is known of a queue from one look to the next. */
interface Remembered {
  /** Number of the look that has seen it last. */
  look: number;
  unworked: Beginning | undefined;
  /** Leases that had been granted at the beginning. */
  leased: number;
  growing: Beginning | undefined;
  failing: Beginning | undefined;
  dying: Beginning | undefined;
  diedAt: number;
  /** Tasks that had died at the last look, and when it began. */
  dead: number;
  deadBefore: number;
}

const nothing = (): Remembered => ({
  look: 0,
  unworked: undefined,
  leased: 0,
  growing: undefined,
  failing: undefined,
  dying: undefined,
  diedAt: 0,
  dead: 0,
  deadBefore: 0,
});

/**
 * Finds what is wrong with queues, and since when. It looks at each queue once in a look, and remembers those with something that
 * may become a trouble if it lasts.
 */
export class FindTroubles {
  readonly #remembered = new Map<string, Remembered>();
  #look = 0;

  begin(): void {
    this.#look++;
  }

  /**
   * Ends a look, and forgets the queues that it has not seen. But of a queue whose tasks all died nothing is left soon except its
   * dead letters: its trouble goes on while its group `isHere`. Returns the troubles of these queues.
   */
  end(now: number, isHere: (queue: string) => boolean): ReadonlyMap<string, readonly Trouble[]> {
    const gone = new Map<string, readonly Trouble[]>();
    for (const [queue, known] of this.#remembered) {
      if (known.look === this.#look) continue;
      if (known.dying !== undefined && now - known.diedAt < DYING_MS && isHere(queue)) {
        Object.assign(known, { unworked: undefined, growing: undefined, failing: undefined });
        gone.set(queue, [messageOf(queue)(dyingSince(known.dying, known.dead - known.deadBefore))]);
      } else this.#remembered.delete(queue);
    }
    return gone;
  }

  /** The troubles of a queue, the worst first. `now`: the system clock. */
  of(queue: string, stats: QueueStats, now: number): Trouble[] {
    const found: Found[] = [];
    const { pause, available } = stats;
    if (pause !== undefined && available > 0 && now - pause.message.sinceUnixMs > LONG_PAUSE_MS) {
      const since = exactly(pause.message.sinceUnixMs);
      found.push(['paused-long', since, `paused by ${pause.message.pausedBy} while ${tasks(available)} wait`]);
    }
    if (!stats.queue.name.endsWith(DEAD_LETTER_SUFFIX)) this.#addOfWork(queue, stats, now, found);
    if (found.length === 0) return NONE;
    return found.map(messageOf(queue)).toSorted((a, b) => rankOfTrouble(b.kind) - rankOfTrouble(a.kind));
  }

  #addOfWork(queue: string, stats: QueueStats, now: number, found: Found[]): void {
    const { available, leased, oldestAgeMs, kinds, operations } = stats;
    if (oldestAgeMs > OLD_MS) {
      found.push(['queue-old', exactly(now - oldestAgeMs + OLD_MS), `its oldest task is ${minutes(oldestAgeMs)} old`]);
    }
    if (kinds !== undefined && kinds.unclaimed > 0) {
      const since = Math.min(...kinds.most.flatMap(({ unclaimedSinceUnixMs: at }) => at ?? []));
      const names = kinds.most.flatMap(({ kind, unclaimedSinceUnixMs: at }) => (at === undefined ? [] : [kind]));
      const shown = names.slice(0, 3).join(', ');
      found.push(['kind-unclaimed', exactly(since), `nobody asks for ${tasks(kinds.unclaimed)} of ${shown}`]);
    }
    const known = this.#remembered.get(queue) ?? nothing();
    const began: Beginning = { at: now, isExact: this.#isExact(stats) };

    const offers = stats.pause === undefined && stats.heldBy.length === 0;
    const isIdle = offers && available > 0 && leased === 0;
    if (!isIdle || operations.leased !== known.leased) known.unworked = isIdle ? began : undefined;
    else known.unworked ??= began;
    known.leased = operations.leased;
    // At the first look nothing but the age of its tasks tells for how long nobody has worked.
    const { unworked } = known;
    if (
      unworked !== undefined &&
      (now - unworked.at >= UNWORKED_MS || (!unworked.isExact && oldestAgeMs >= UNWORKED_MS))
    ) {
      found.push(['queue-unworked', unworked, `nobody leases its ${tasks(available)}`]);
    }

    const comes = stats.enqueueRate;
    const isGrowing = available > 0 && comes > LEAST_RATE && stats.completeRate < KEEPS_UP * comes;
    known.growing = isGrowing ? (known.growing ?? began) : undefined;
    if (known.growing !== undefined && now - known.growing.at >= GROWING_MS) {
      const rates = `${perSecond(comes)} come, ${perSecond(stats.completeRate)} are completed`;
      found.push(['queue-growing', known.growing, `it grows: ${rates}`]);
    }

    const isFailing = stats.failureRate > LEAST_RATE && stats.failureRate > stats.leaseRate / 2;
    known.failing = isFailing ? (known.failing ?? began) : undefined;
    if (known.failing !== undefined && now - known.failing.at >= FAILING_MS) {
      found.push([
        'queue-failing',
        known.failing,
        `more than half of its attempts fail: ${perSecond(stats.failureRate)}`,
      ]);
    }

    if (operations.deadLettered < known.dead) {
      // The queue was gone meanwhile, and counts from 0.
      known.deadBefore -= known.dead;
      known.dead = 0;
    }
    if (operations.deadLettered > known.dead) {
      if (known.dying === undefined) {
        known.dying = began;
        known.deadBefore = known.dead;
      }
      known.diedAt = now;
    } else if (known.dying !== undefined && now - known.diedAt >= DYING_MS) {
      known.dying = undefined;
    }
    known.dead = operations.deadLettered;
    if (known.dying !== undefined) {
      found.push(dyingSince(known.dying, known.dead - known.deadBefore));
    }
    this.#remember(queue, known);
  }

  /** What begins in the first look, or when the group has just come here, may have begun before. */
  #isExact({ operations: { enqueued, leased } }: QueueStats): boolean {
    return this.#look > 1 && enqueued + leased > 0;
  }

  #remember(queue: string, known: Remembered): void {
    const { unworked, growing, failing, dying, dead } = known;
    if (dead === 0 && unworked === undefined && growing === undefined && failing === undefined && dying === undefined) {
      this.#remembered.delete(queue);
    } else if (this.#remembered.size < MOST_REMEMBERED || this.#remembered.has(queue)) {
      known.look = this.#look;
      this.#remembered.set(queue, known);
    }
  }
}

type Found = readonly [kind: QueueTroubleKind, since: Beginning, message: string];

const NONE: Trouble[] = [];

const exactly = (at: number): Beginning => ({ at, isExact: true });

const dyingSince = (since: Beginning, died: number): Found => [
  'queue-dying',
  since,
  `${tasks(died)} failed for the last time and became dead letters`,
];

const messageOf =
  (queue: string) =>
  ([kind, { at, isExact }, message]: Found): Trouble => ({
    kind,
    severity: TroubleSeverity.TROUBLE_SEVERITY_WARNING,
    message,
    sinceUnixMs: Math.floor(at),
    sinceIsExact: isExact,
    queue,
  });

const tasks = (count: number): string => (count === 1 ? '1 task' : `${count} tasks`);
const minutes = (ms: number): string => `${Math.floor(ms / 60_000)} min`;
const perSecond = (rate: number): string => `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`;
