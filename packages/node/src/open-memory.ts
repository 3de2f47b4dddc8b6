import { type ClientOptions, type Duration, durationMs, type TaskMasterClient } from '@taskmaster/client';
import { assertKnown, type OptionNames, type Timing } from '@taskmaster/client/internal';
import { type EngineConfig, MemoryStore } from '@taskmaster/engine';
import type { Instant } from '@taskmaster/engine/domain';
import { type Clock, type Log, SystemClock } from '@taskmaster/engine/ports';
import { VirtualClock, VirtualTime } from '@taskmaster/engine/virtual-clock';
import { clientOnStore, engineNames } from './client-on-store.ts';

export interface MemoryOptions extends Partial<EngineConfig> {
  /** Time that the test advances. Default: the time of the process. */
  readonly clock?: TestClock;
  /** Options of the client. */
  readonly client?: ClientOptions;
  /** Default: a log that keeps nothing. */
  readonly log?: Log;
}

const names: OptionNames<Required<MemoryOptions>> = { ...engineNames, clock: true, client: true, log: true };

/** After this many turns of the event loop without a call that begins or ends, the client waits. A call takes a few. */
const TURNS = 10;

// Read when the module loads, so that time still runs if a test framework replaces the timers.
const nextTurn = setImmediate;

/**
 * Time of a queue in memory and of its client. It stands still until a test advances it: leases, delays, backoffs, schedules and
 * timeouts follow it.
 */
export class TestClock {
  /** The time of the engine. */
  readonly clock: Clock;
  /** The time of the client. */
  readonly timing: Timing;
  /** To be called when a call to the engine begins or ends. */
  readonly onCall = (): void => {
    this.#hasCalled = true;
  };
  readonly #time: VirtualTime;
  /** Whether a call has begun or ended lately. */
  #hasCalled = false;

  /** `start`: the first instant. Default: the start of 2026. */
  constructor(start?: Date) {
    this.#time = new VirtualTime(start?.getTime(), () => this.#settled());
    const clock = new VirtualClock({ time: this.#time });
    this.clock = clock;
    this.timing = {
      now: () => clock.now(),
      after: (delayMs, callback) => clock.at((clock.now() + Math.ceil(delayMs)) as Instant, callback),
    };
  }

  /** The present instant of this clock. */
  now(): Date {
    return new Date(this.#time.now());
  }

  /**
   * Advances the time. What is due happens in order, and what follows from it happens before time goes on, unless it waits for
   * something outside, such as a file or a timer of the process: then await that first.
   */
  advance(duration: Duration): Promise<void> {
    return this.#time.advance(durationMs(duration, 'duration'));
  }

  /**
   * Advances the time at once, as if the process had stood still: what was due meanwhile happens then, in order. It takes a
   * moment for any duration, where `advance` takes a second or more for each day. Schedules have missed their runs meanwhile, and
   * leases that were not renewed are over.
   */
  jump(duration: Duration): Promise<void> {
    return this.#time.jump(durationMs(duration, 'duration'));
  }

  /** As `advance`, to an instant. @throws TypeError for one that is past. */
  async advanceTo(instant: Date): Promise<void> {
    const ms = instant.getTime() - this.#time.now();
    if (!(ms >= 0)) throw new TypeError(`instant: ${String(instant)} is not after ${this.now().toISOString()}`);
    await this.#time.advance(ms);
  }

  /** Advances the time until the promise settles, and settles like it. Rejects if that takes longer than `within`. */
  run<T>(promise: Promise<T>, within: Duration = '24h'): Promise<T> {
    return this.#time.run(promise, durationMs(within, 'within'));
  }

  /** Resolves when client and engine wait. What the engine does by itself ends within one turn. */
  async #settled(): Promise<void> {
    let left = 1;
    while (left > 0) {
      await new Promise((resolve) => nextTurn(resolve));
      left = this.#hasCalled ? TURNS : left - 1;
      this.#hasCalled = false;
    }
  }
}

const noLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * Opens an engine over a store in memory, for tests: no files, no sockets, nothing native. It has the same rules as a node, and
 * is used through the same client. Closing the client drops the tasks. Rejects with a `TypeError` if an option does not exist.
 *
 * ```ts
 * const clock = new TestClock();
 * await using client = await openMemory({ clock });
 * await client.queue('mail').enqueue('later', { delay: '1h' });
 * await clock.advance('1h');
 * ```
 */
export async function openMemory(options: MemoryOptions = {}): Promise<TaskMasterClient> {
  assertKnown('openMemory', options, names);
  const { clock, client, log = noLog, ...config } = options;
  const { timing, onCall } = clock ?? {};
  const store = new MemoryStore();
  return clientOnStore({ store, clock: clock?.clock ?? new SystemClock(), timing, onCall, config, log, client });
}
