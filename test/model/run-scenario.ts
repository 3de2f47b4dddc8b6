import { isDeepStrictEqual } from 'node:util';
import {
  type Call,
  type CountsReply,
  History,
  type HistoryEvent,
  type LeaseCall,
} from '@taskmaster/cli/testing/history';
import { type Engine, type EngineConfig, openEngine } from '@taskmaster/engine';
import { Refusal } from '@taskmaster/engine/domain';
import { sleep } from '@taskmaster/engine/ports';
import { SeededRandom, SimDisk, settle, VirtualClock } from '@taskmaster/engine/testing';
import { reservedQueues } from '@taskmaster/proto';
import { Callers, isCall } from './callers.ts';
import { diskFaults } from './disk-faults.ts';
import { type Asked, ask } from './engine-caller.ts';
import { EventFollower } from './event-follower.ts';
import { putAllSettings, settingsCounts } from './records/settings.ts';
import { subscribeAll, subscriptionCounts } from './records/topics.ts';
import { type Action, EACH_KEY, PATTERNS, QUEUES, type Scenario } from './scenario.ts';

/** A place in the history where the clock may have gone back. */
interface Reboot {
  readonly seq: number;
  /** The instant of the crash before it. */
  readonly crashedAt: number;
}

export interface Run {
  readonly events: readonly HistoryEvent[];
  readonly reboots: readonly Reboot[];
  /** Faults other than wrong replies. */
  readonly faults: readonly string[];
}

/** The first start of the engine in a boot. */
interface Boot {
  readonly at: number;
  /** How far the clock was ahead of the virtual time, in ms. */
  readonly aheadMs: number;
  starts: number;
}

export const RETENTION_MS = 60_000;
const CHECKPOINT_MS = 250;
/** A call that takes longer than this hangs. */
const PATIENCE_MS = 60_000;
const RECORD_COUNTS = [...settingsCounts, ...subscriptionCounts];
/** More than the tasks that wait for each other in one order. */
const MOST_ROUNDS = 100;
/** Later than any lease, delay or backoff of a scenario. */
const LONG_MS = 15_000;

/** Plays a scenario on an engine and records the history of its callers. */
export async function runScenario(scenario: Scenario): Promise<Run> {
  const run = new ScenarioRun(scenario);
  await run.play();
  return { events: run.history.events, reboots: run.reboots, faults: run.faults };
}

class ScenarioRun {
  readonly history = new History();
  readonly reboots: Reboot[] = [];
  #crashedAt = 0;
  readonly faults: string[] = [];
  readonly #scenario: Scenario;
  readonly #disk: SimDisk;
  readonly #random: { next(): number };
  #clock = new VirtualClock();
  #engine: Engine | undefined;
  #store: ReturnType<SimDisk['open']> | undefined;
  #crashed = Promise.withResolvers<'crashed'>();
  #isCrashed = false;
  #rebootsNext = false;
  #clockIsMarked = true;
  /** A clock that has caught up since its mark may go back then, by a thousandth of the time since. */
  #clockWasSetBack = false;
  /** The first start of this boot. */
  #boot: Boot | undefined;
  readonly #callers = new Callers((call) => this.#ask(call));
  readonly #follower: EventFollower | undefined;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#random = { next: () => scenario.jitter };
    this.#follower = scenario.readsEvents ? new EventFollower() : undefined;
    const random = new SeededRandom(scenario.seed);
    this.#disk = new SimDisk({ random, clock: this.#clock.time, ...scenario.disk });
  }

  async play(): Promise<void> {
    await this.#open();
    if (this.#engine) await this.#clock.run(putAllSettings(this.#engine, this.#scenario.caps), PATIENCE_MS);
    if (this.#engine) await this.#clock.run(subscribeAll(this.#engine), PATIENCE_MS);
    await this.#follow();
    for (const action of this.#scenario.actions) {
      await this.#do(action);
      if (this.#isCrashed) await this.#reopen();
    }
    await this.#finish();
  }

  get #now(): number {
    return this.#clock.now();
  }

  async #open(): Promise<void> {
    const { cacheBytes, refillTasks, requestIdCacheBytes } = this.#scenario;
    const config: Partial<EngineConfig> = {
      cacheBytes,
      minRefillTasks: refillTasks,
      maxRefillTasks: refillTasks,
      requestIdCacheBytes,
      checkpointIntervalMs: CHECKPOINT_MS,
      emptyQueueRetentionMs: RETENTION_MS,
    };
    const store = this.#disk.open();
    this.#store = store;
    const opening = openEngine({ store, clock: this.#clock, random: this.#random, config });
    opening.catch(() => {}); // a crash leaves it pending or rejected
    const engine = await this.#clock.run(Promise.race([opening, this.#crashed.promise]), PATIENCE_MS);
    if (engine === 'crashed') return;
    this.#engine = engine;
    this.#compareClock();
    // On a full disk a start cannot store its clock's mark. The next start may then follow a system clock that was changed.
    this.#clockIsMarked = this.#disk.space !== 'none';
  }

  /**
   * In each boot the clock approaches the system clock by a thousandth of the time since the first start, at most. The time since
   * the latest start does not count: a start goes on from a mark that may be older, and takes what the clock may have caught up
   * since.
   */
  #compareClock(): void {
    const at = this.#clock.time.now();
    const aheadMs = this.#now - at;
    this.#boot ??= { at, aheadMs, starts: 0 };
    const boot = this.#boot;
    boot.starts++;
    // Each start may go on from a mark that is rounded up to a whole ms.
    const mostMs = 1 + boot.starts + (at - boot.at) / 1000;
    const jumpMs = aheadMs - boot.aheadMs;
    if (Math.abs(jumpMs) > mostMs) this.faults.push(`the clock jumped by ${jumpMs} ms within one boot`);
  }

  async #do(action: Action): Promise<void> {
    if (isCall(action)) return this.#callers.play(action);
    switch (action.do) {
      case 'pass':
        await this.#clock.advance(action.ms);
        break;
      case 'crash':
        this.#rebootsNext = action.reboot;
        if (action.steps === 0) this.#crash();
        else this.#crashAfter(action.steps);
        break;
      case 'restart':
        await this.#restart();
        break;
      case 'setClock':
        this.#clock.stepWall(action.byMs);
        this.#clockWasSetBack ||= action.byMs < 0;
        break;
      case 'space':
        this.#disk.space = action.space;
        break;
      case 'stall':
        this.#disk.stallWrite(action.ms);
        break;
      default:
        action satisfies never;
    }
  }

  /** The events are read from now on, or on from where they were read before a crash. */
  async #follow(): Promise<void> {
    if (!this.#engine || !this.#follower || this.#isCrashed) return;
    const clock = this.#clock;
    const sleepMs = (ms: number): Promise<void> => sleep(clock, ms);
    const begun = Promise.race([this.#follower.follow(this.#engine, sleepMs), this.#crashed.promise]);
    await clock.run(begun, PATIENCE_MS);
  }

  #ask(call: Call): Asked {
    const { atomicBatches } = this.#scenario.disk;
    return ask(this.#requireEngine(), call, this.history, () => this.#now, atomicBatches);
  }

  #requireEngine(): Engine {
    if (!this.#engine) throw new Error('the engine is not open');
    return this.#engine;
  }

  #crashAfter(steps: number): void {
    const last = this.#disk.steps + steps;
    this.#disk.onStep = ({ number }) => {
      if (number === last) this.#crash();
    };
  }

  #crash(): void {
    if (this.#isCrashed) return;
    this.#isCrashed = true;
    this.#crashedAt = this.#now;
    this.history.crash(this.#crashedAt);
    this.#clock.stop();
    this.#disk.onStep = undefined;
    this.#disk.crash();
    this.#crashed.resolve('crashed');
  }

  /** Restarts after a crash, repeatedly if the start crashes, too. */
  async #reopen(): Promise<void> {
    while (this.#isCrashed) {
      // Without atomic batches a start must write the rows of the log's entries.
      if (!this.#scenario.disk.atomicBatches && this.#disk.space === 'none') this.#disk.space = 'plenty';
      this.#engine = undefined;
      this.#isCrashed = false;
      this.#crashed = Promise.withResolvers();
      const isNewBoot = this.#rebootsNext || !this.#clockIsMarked;
      if (isNewBoot || this.#clockWasSetBack) {
        this.reboots.push({ seq: this.history.seq, crashedAt: this.#crashedAt });
      }
      if (isNewBoot) this.#boot = undefined;
      this.#clock = this.#rebootsNext ? this.#clock.reboot() : this.#clock.restart();
      this.#rebootsNext = false;
      await this.#open();
      await this.#follow();
    }
    if (this.#scenario.looksAfterRestart) await this.#look();
  }

  async #restart(): Promise<void> {
    const engine = this.#requireEngine();
    this.#callers.dismiss();
    await this.#unlessCrashed(engine.stop());
    // All work has ended by now; the callers still have to receive the results.
    await settle();
    const [open] = this.history.openCalls;
    if (open) this.faults.push(`a stop left a call unanswered: ${JSON.stringify(open.call)}`);
    if (this.#store && !this.#isCrashed) await this.#unlessCrashed(this.#store.close());
    if (!this.#isCrashed) this.#crash();
  }

  /** Waits for work of the engine, or for its crash. */
  async #unlessCrashed(work: Promise<void>): Promise<void> {
    const ended = work.catch((error: unknown) => {
      if (!this.#isCrashed) this.faults.push(`a stop failed: ${error}`);
    });
    await this.#clock.run(Promise.race([ended, this.#crashed.promise]), PATIENCE_MS);
  }

  /** Reads everything while no other call is in progress. */
  async #look(): Promise<void> {
    const queues = QUEUES;
    await this.#await({ kind: 'stats', queues });
    for (const queue of queues) await this.#await(this.#callers.lookAt(queue));
    for (const queue of queues) await this.#await({ kind: 'ends', queue, pids: this.#callers.pidsOf(queue) });
  }

  async #await(call: Call): Promise<Asked['ended'] extends Promise<infer O> ? O | undefined : never> {
    if (this.#isCrashed) return undefined;
    const { ended } = this.#ask(call);
    const outcome = await this.#clock.run(Promise.race([ended, this.#crashed.promise]), PATIENCE_MS);
    return outcome === 'crashed' ? undefined : outcome;
  }

  /** Waits for all calls, reads everything, crashes once more, and completes all tasks. */
  async #finish(): Promise<void> {
    this.#disk.onStep = undefined;
    this.#disk.space = 'plenty';
    await this.#quiet();
    const [open] = this.history.openCalls;
    if (open) this.faults.push(`a call is never answered: ${JSON.stringify(open.call)}`);
    await this.#look();
    await this.#checkDisk();
    const engine = this.#requireEngine();
    const resumed = this.#follower?.resumed(engine, this.#scenario.seed);
    if (resumed) this.faults.push(...(await this.#clock.run(resumed, PATIENCE_MS)));
    this.#crash();
    await this.#reopen();
    await this.#look();
    await this.#quiet();
    await this.#checkDisk();
    for (const queues of PATTERNS) {
      await this.#await({ kind: 'pause', queues, isResume: true });
      await this.#await({ kind: 'limit', queues, maxLeased: 0 });
      await this.#await({ kind: 'limit', queues, keys: EACH_KEY, maxLeased: 0 });
    }
    await this.#clock.advance(LONG_MS);
    await this.#takeOut();
    await this.#look();
    await this.#quiet();
    await this.#checkDisk();
    const ends = await this.#endCounts();
    await this.#clock.run(this.#requireEngine().stop());
    const faults = diskFaults(this.#disk, [...RECORD_COUNTS, ...ends]);
    this.faults.push(...faults);
    const wasFull = this.#scenario.actions.some((action) => action.do === 'space');
    this.faults.push(...(this.#follower?.faults(this.history.events, wasFull) ?? []));
  }

  async #quiet(): Promise<void> {
    for (let waited = 0; waited < PATIENCE_MS && (waited < 2000 || this.history.openCalls.length > 0); waited += 500) {
      await this.#clock.advance(500);
    }
  }

  async #checkDisk(): Promise<void> {
    const counts = await this.#await({ kind: 'list' });
    const ends = await this.#endCounts();
    await this.#quiet();
    const again = await this.#await({ kind: 'list' });
    if (counts?.kind !== 'counts' || again?.kind !== 'counts') return;
    // If tasks became due meanwhile, the rows do not match the counts.
    if (!isDeepStrictEqual([counts, ends], [again, await this.#endCounts()])) return;
    this.faults.push(...diskFaults(this.#disk, [...counts.queues, ...RECORD_COUNTS, ...ends]));
    this.faults.push(...(this.#follower?.differences(counts.queues) ?? []));
  }

  /** The numbers of ends that tasks have left, of keys, of pauses and of limits, which are not listed. */
  async #endCounts(): Promise<CountsReply[]> {
    if (this.#isCrashed) return [];
    const queues = ['g', ''].flatMap((group) =>
      [reservedQueues.results, reservedQueues.keys, reservedQueues.pauses, reservedQueues.limits].map((name) => ({
        group,
        name,
      })),
    );
    const counting = this.#requireEngine()
      .queueStats({ kind: 'named', queues })
      .catch((error: unknown) => {
        // A crash rejects it, perhaps later. So does a recovery after a full disk.
        if (error instanceof Refusal) return 'refused' as const;
        throw error;
      });
    const report = await this.#clock.run(Promise.race([counting, this.#crashed.promise]), PATIENCE_MS);
    if (report === 'crashed') return [];
    if (report === 'refused') {
      await this.#clock.advance(CHECKPOINT_MS);
      return this.#endCounts();
    }
    return report.queues
      .filter(({ available, delayed }) => available + delayed > 0)
      .map(({ available, leased, delayed, completed }) => ({ queue: 'ends', available, leased, delayed, completed }));
  }

  /** Leases and completes all tasks, including those that this moves to dead-letter queues. */
  async #takeOut(): Promise<void> {
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const left = await this.#await({ kind: 'list' });
      if (left?.kind !== 'counts' || left.queues.length === 0) return;
      for (const { queue } of left.queues) {
        const lease: LeaseCall = {
          kind: 'lease',
          queues: [queue],
          maxTasks: 100,
          leaseDurationMs: LONG_MS,
          maxPid: undefined,
          maxBytes: 1e6,
          waitMs: 0,
        };
        const leased = await this.#await(lease);
        if (leased?.kind !== 'leased' || leased.tasks.length === 0) continue;
        // One by one: a task with a short time limit may be gone again.
        for (const { pid, token } of leased.tasks) {
          const dequeue = [{ queue, pid, token }];
          await this.#await({ kind: 'update', enqueue: [], dequeue, renew: [], release: [], requestId: undefined });
        }
      }
    }
    this.faults.push('tasks are left that cannot be leased');
  }
}
