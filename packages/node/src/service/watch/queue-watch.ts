import type { Engine } from '@taskmaster/engine';
import {
  DEAD_LETTER_SUFFIX,
  type EngineFigures,
  type PartitionId,
  type QueueFilter,
  type QueueStats,
  Refusal,
} from '@taskmaster/engine/domain';
import {
  comparePlaces,
  formatQueueName,
  type NodeOverview,
  overviewSeries,
  parseQueueName,
  partitionOf,
  placeByTrouble,
  type QueuePlace,
  type QueueTotals,
  type Trouble,
  type QueueWatch as WatchMessage,
} from '@taskmaster/proto';
import { FindTroubles } from './find-troubles.ts';
import { Samples } from './samples.ts';

/** Time between two samples, in ms. */
export const STEP_MS = 10_000;
/** Samples of the node: those of two hours. */
const MOST_SAMPLES = 720;
/** Samples of a queue: those of half an hour. */
const MOST_OF_QUEUE = 180;
/** A look is used again for this long, in ms, and for this many times as long as it took. */
const FRESH_MS = 2_000;
const FRESH_TIMES = 20;
/** An overview waits no longer for a look, in ms: a store that does not answer must not keep back what else is known. */
const PATIENCE_MS = 1_000;
const LONGEST_FRESH_MS = STEP_MS;
/** Queues whose samples are kept. */
const MOST_KEPT = 1_000;
/** For how long the samples of a queue are kept after the last request for them, in ms. */
const ASKED_MS = 600_000;
/** Queues with trouble that are listed first. Further ones are among the others. */
const MOST_TROUBLED = 10_000;
/** Queues that are read in one turn of the event loop. */
const PAGE = 1_000;
/** Troubles of queues in an overview. */
const MOST_SHOWN = 200;

const queueSeries = ['available', 'leased', 'delayed', 'enqueueRate', 'completeRate', 'failureRate'] as const;

/** What a look at all queues has found. */
export interface Look {
  readonly totals: QueueTotals;
  /** Tasks in dead-letter queues. */
  readonly deadLettered: number;
  /** By the full name of the queue. */
  readonly troubles: ReadonlyMap<string, readonly Trouble[]>;
  /** Those queues, the worst first. */
  readonly places: readonly QueuePlace[];
}

/** What a node says of itself. */
export type NodeFacts = Pick<
  NodeOverview,
  'nodeId' | 'name' | 'version' | 'health' | 'troubles' | 'diskFreeBytes' | 'diskFullBelowBytes' | 'changes'
>;

const NO_FACTS: NodeFacts = { nodeId: '', name: '', version: '', health: 'serving', troubles: [], changes: [] };

export interface QueueWatchOptions {
  /** The system clock, in ms since 1970. */
  readonly wall?: () => number;
  readonly facts?: () => NodeFacts;
  /** How long an overview waits for a look, in ms. Default: 1 s. */
  readonly patienceMs?: number;
}

type WatchedEngine = Pick<Engine, 'listQueues' | 'figures'> & {
  readonly partitions: Pick<Engine['partitions'], 'count' | 'holds'>;
};

interface Kept {
  readonly samples: Samples<(typeof queueSeries)[number]>;
  askedAt: number;
}

interface Rates {
  readonly enqueued: number;
  readonly leased: number;
  readonly completed: number;
  readonly failed: number;
  readonly deadLettered: number;
}

const NO_RATES: Rates = { enqueued: 0, leased: 0, completed: 0, failed: 0, deadLettered: 0 };
const UNKNOWN: Rates = { enqueued: -1, leased: -1, completed: -1, failed: -1, deadLettered: -1 };

const EVERY_QUEUE: QueueFilter = {
  matches: undefined,
  group: undefined,
  minAvailable: undefined,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};

/**
 * The time until the next sample, in ms. It is taken in the middle of a step: a timer that is early or late must not skip one.
 * `now`: the system clock.
 */
export function untilSample(now: number): number {
  const untilMiddle = STEP_MS - ((now + STEP_MS / 2) % STEP_MS);
  // This step has its sample.
  return untilMiddle <= STEP_MS / 2 ? untilMiddle + STEP_MS : untilMiddle;
}

/**
 * Looks at all queues of this node every 10 s, and if somebody asks, every 2 s: what is wrong since when, and samples for charts.
 * It reads memory only, in turns of 1,000 queues.
 */
export class QueueWatch {
  readonly #engine: WatchedEngine;
  readonly #wall: () => number;
  readonly #facts: () => NodeFacts;
  readonly #find = new FindTroubles();
  readonly #samples = new Samples(overviewSeries, MOST_SAMPLES);
  readonly #kept = new Map<string, Kept>();
  #last: { readonly until: number; readonly look: Look } | undefined;
  #looking: Promise<Look> | undefined;
  #figures: { readonly at: number; readonly of: EngineFigures } | undefined;
  #rates = NO_RATES;
  #isSampling = false;
  readonly #patienceMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(engine: WatchedEngine, options: QueueWatchOptions = {}) {
    const { wall = () => Date.now(), facts = () => NO_FACTS, patienceMs = PATIENCE_MS } = options;
    this.#engine = engine;
    this.#wall = wall;
    this.#facts = facts;
    this.#patienceMs = patienceMs;
  }

  /** Takes a sample every 10 s until it is disposed of. */
  start(onFailure: (error: unknown) => void): Disposable {
    const goOn = (): void => {
      this.#timer = setTimeout(goOn, untilSample(this.#wall())).unref();
      void this.sample().catch(onFailure);
    };
    goOn();
    return { [Symbol.dispose]: () => clearTimeout(this.#timer) };
  }

  /** Takes a sample. */
  async sample(): Promise<void> {
    const slot = Math.floor(this.#wall() / STEP_MS);
    // What is wrong with the node is found by looking, too.
    this.#facts();
    const rates = this.#ratesNow();
    const totals = await this.#totalsFor(slot);
    const { available, leased, delayed } = totals;
    const { enqueued, completed, failed, deadLettered } = rates;
    this.#samples.add(slot, { available, leased, delayed, enqueued, completed, failed, deadLettered });
  }

  /** Unknown ones if the engine refuses to be read, or still has not answered the last time. */
  async #totalsFor(slot: number): Promise<Pick<QueueTotals, 'available' | 'leased' | 'delayed'>> {
    const unknown = { available: -1, leased: -1, delayed: -1 };
    if (this.#isSampling) return unknown;
    this.#isSampling = true;
    try {
      return (await this.#lookNow(slot)).totals;
    } catch (error) {
      // A node that is overloaded or has failed refuses reads.
      if (!(error instanceof Refusal)) throw error;
      return unknown;
    } finally {
      this.#isSampling = false;
    }
  }

  /** A look that is a few seconds old at most. Rejects with a `Refusal` if the engine refuses to be read. */
  look(): Promise<Look> {
    const now = this.#wall();
    // A clock that was set back must not keep an old look.
    if (this.#last !== undefined && now <= this.#last.until && this.#last.until - now <= LONGEST_FRESH_MS) {
      return Promise.resolve(this.#last.look);
    }
    return this.#lookNow();
  }

  /** What is known of a queue. `isKept`: keeps its samples from now on. */
  of(queue: string, stats: Pick<QueueStats, 'failureRate'>, look: Look, isKept: boolean): WatchMessage {
    if (isKept) this.#keep(queue, this.#wall());
    const samples = this.#kept.get(queue)?.samples;
    const last = samples?.last;
    return {
      failureRate: stats.failureRate,
      troubles: [...(look.troubles.get(queue) ?? [])],
      history:
        samples === undefined || last === undefined
          ? undefined
          : { stepMs: STEP_MS, lastUnixMs: last * STEP_MS, ...samples.all() },
    };
  }

  /** `mayRead`: whether the caller may read the queues of a group. */
  async overview(
    { afterUnixMs, includeChanges }: { readonly afterUnixMs: number; readonly includeChanges: boolean },
    mayRead: (group: string) => boolean,
  ): Promise<NodeOverview> {
    const { troubles, changes, ...facts } = this.#facts();
    const look = await this.#lookInTime();
    const readable = (look?.places ?? []).filter(({ queue }) => mayRead(parseQueueName(queue).group));
    const ofQueues = readable.slice(0, MOST_SHOWN).flatMap(({ queue }) => look?.troubles.get(queue) ?? []);
    return {
      ...facts,
      totals: look?.totals,
      deadLettered: look?.deadLettered ?? 0,
      waitingLeases: this.#engine.figures().waiters,
      rates: { ...this.#rates },
      troubles: [...troubles, ...ofQueues],
      troubledQueues: readable.length,
      history: this.#historyAfter(afterUnixMs),
      changes: includeChanges ? [...changes] : [],
    };
  }

  /** The last look if a new one takes long or is refused. The state of the node says why. */
  async #lookInTime(): Promise<Look | undefined> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => resolve(undefined), this.#patienceMs);
    try {
      return (await Promise.race([this.look(), late])) ?? this.#last?.look;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return this.#last?.look;
    } finally {
      clearTimeout(timer);
    }
  }

  #historyAfter(afterUnixMs: number): NodeOverview['history'] {
    const { last } = this.#samples;
    if (last === undefined) return undefined;
    const after = Math.floor(afterUnixMs / STEP_MS);
    return { stepMs: STEP_MS, lastUnixMs: last * STEP_MS, ...this.#samples.all(after) };
  }

  /** One look at a time. `slot`: of the sample that it is for. */
  async #lookNow(slot?: number): Promise<Look> {
    // A look that goes on may have begun before the sample's instant. The sample needs one of its own.
    while (this.#looking !== undefined && slot !== undefined) await this.#looking.catch(() => {});
    this.#looking ??= this.#begin(slot).finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #begin(slot: number | undefined): Promise<Look> {
    const began = this.#wall();
    const totals = { queues: 0, available: 0, leased: 0, delayed: 0, waiting: 0, completed: 0 };
    let deadLettered = 0;
    const troubles = new Map<string, readonly Trouble[]>();
    let places: QueuePlace[] = [];
    this.#find.begin();
    for await (const page of this.#pages()) {
      const now = this.#wall();
      for (const stats of page) {
        const { queue: name } = stats;
        const queue = formatQueueName(name);
        if (stats.available + stats.leased + stats.delayed > 0) add(totals, stats);
        if (name.name.endsWith(DEAD_LETTER_SUFFIX)) deadLettered += stats.available + stats.leased + stats.delayed;
        const found = this.#find.of(queue, stats, now);
        if (found.length > 0) {
          troubles.set(queue, found);
          places.push(placeByTrouble(queue, found));
        }
        if (slot !== undefined) this.#sampleQueue(queue, stats, slot, found.length > 0);
      }
      if (places.length > 2 * MOST_TROUBLED) places = worst(places, troubles);
    }
    for (const [queue, found] of this.#find.end(this.#wall(), (name) => this.#isHere(name))) {
      troubles.set(queue, found);
      places.push(placeByTrouble(queue, found));
    }
    places = worst(places, troubles);
    const now = this.#wall();
    for (const [queue, { askedAt }] of this.#kept) {
      if (now - askedAt > ASKED_MS && !troubles.has(queue)) this.#kept.delete(queue);
    }
    const look = { totals, deadLettered, troubles, places };
    const freshMs = Math.min(LONGEST_FRESH_MS, Math.max(FRESH_MS, FRESH_TIMES * (now - began)));
    this.#last = { until: now + freshMs, look };
    return look;
  }

  #isHere(queue: string): boolean {
    const { partitions } = this.#engine;
    return partitions.holds(partitionOf(parseQueueName(queue).group, partitions.count) as PartitionId);
  }

  /** Empty queues, too: all tasks of one may have become dead letters. */
  async *#pages(): AsyncGenerator<readonly QueueStats[]> {
    let after: QueueStats['queue'] | undefined;
    do {
      const page = await this.#engine.listQueues({ filter: EVERY_QUEUE, limit: PAGE, after, includeEmpty: true });
      yield page.queues;
      after = page.more ? page.queues.at(-1)?.queue : undefined;
    } while (after !== undefined);
  }

  #sampleQueue(queue: string, stats: QueueStats, slot: number, hasTrouble: boolean): void {
    if (hasTrouble && this.#kept.size < MOST_KEPT / 2) this.#keep(queue, Number.NEGATIVE_INFINITY);
    this.#kept.get(queue)?.samples.add(slot, stats);
  }

  /** Keeps the samples of a queue. If there are too many, those that nobody has asked for the longest go. */
  #keep(queue: string, askedAt: number): void {
    const known = this.#kept.get(queue);
    const kept = known ?? { samples: new Samples(queueSeries, MOST_OF_QUEUE), askedAt };
    kept.askedAt = Math.max(kept.askedAt, askedAt);
    this.#kept.delete(queue);
    this.#kept.set(queue, kept);
    if (this.#kept.size <= MOST_KEPT) return;
    const [first] = this.#kept.keys();
    if (first !== undefined) this.#kept.delete(first);
  }

  #ratesNow(): Rates {
    const of = this.#engine.figures();
    const at = this.#wall();
    const before = this.#figures;
    this.#figures = { at, of };
    if (before === undefined || at <= before.at) return UNKNOWN;
    const per = (count: (figures: EngineFigures) => number): number =>
      Math.max(0, (count(of) - count(before.of)) / ((at - before.at) / 1000));
    this.#rates = {
      enqueued: per(({ tasksEnqueued }) => tasksEnqueued),
      leased: per(({ tasksLeased }) => tasksLeased),
      completed: per(({ tasksCompleted }) => tasksCompleted),
      failed: per(({ attemptsFailed }) => attemptsFailed),
      deadLettered: per(({ tasksDeadLettered }) => tasksDeadLettered),
    };
    return this.#rates;
  }
}

function add(totals: { -readonly [K in keyof QueueTotals]: number }, stats: QueueStats): void {
  totals.queues++;
  totals.available += stats.available;
  totals.leased += stats.leased;
  totals.delayed += stats.delayed;
  totals.waiting += stats.waiting;
  totals.completed += stats.completed;
}

/** The worst places in their order. The troubles of the others are forgotten. */
function worst(places: QueuePlace[], troubles: Map<string, readonly Trouble[]>): QueuePlace[] {
  places.sort(comparePlaces);
  for (const { queue } of places.slice(MOST_TROUBLED)) troubles.delete(queue);
  return places.slice(0, MOST_TROUBLED);
}
