import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock, ClockMark } from './clock.ts';
import { CorrectedTime, type TimeSources } from './corrected-time.ts';

/** Longest timeout, in ms. The clock may be corrected meanwhile. (setTimeout would fire at once for more than 2^31 ms.) */
const LONGEST_TIMEOUT_MS = 60_000;

/** The time sources of a clock, in ms. Tests pass their own. */
export interface ClockSources extends TimeSources {
  /** Time since the boot of the machine. */
  uptime(): number;
  /** Id of the boot of the machine. Undefined if it is unknown. */
  bootId(): string | undefined;
}

const machine: ClockSources = {
  wall: () => Date.now(),
  monotonic: () => performance.now(),
  uptime: () => uptime() * 1000,
  bootId: () => {
    try {
      return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    } catch {
      return undefined; // not Linux, or hidden by the container: only the system clock is left
    }
  },
};

export interface SystemClockOptions {
  /** How far the clock moves towards the system clock in each ms, in ms. 0: never. Default: a thousandth. */
  readonly correction?: number | undefined;
  /** True: a clock that is behind the system clock when it is resumed continues at the system clock. Default: false. */
  readonly catchesUp?: boolean | undefined;
  /** Takes the place of the system clock, for example the time of a database that several machines use. In ms since 1970. */
  readonly wall?: (() => number) | undefined;
}

/**
 * The time of the machine: the system clock at the start, plus the time since then by the monotonic clock. So setting the system
 * clock neither expires nor extends a lease. The clock then approaches the system clock slowly.
 */
export class SystemClock implements Clock {
  readonly #sources: ClockSources;
  readonly #bootId: string | undefined;
  readonly #time: CorrectedTime;
  readonly #catchesUp: boolean;

  constructor(options: SystemClockOptions = {}, ofMachine: ClockSources = machine) {
    const sources = options.wall === undefined ? ofMachine : { ...ofMachine, wall: options.wall };
    this.#sources = sources;
    this.#bootId = sources.bootId();
    this.#time = new CorrectedTime(sources, options.correction);
    this.#catchesUp = options.catchesUp ?? false;
  }

  now(): Instant {
    return Math.floor(this.#time.now()) as Instant;
  }

  wall(): number {
    return Math.floor(this.#sources.wall());
  }

  at(instant: Instant, callback: () => void): CancelTimer {
    let timeout: NodeJS.Timeout;
    const arm = () => {
      const delay = Math.ceil(this.#time.until(instant));
      timeout = setTimeout(fire, Math.min(Math.max(delay, 0), LONGEST_TIMEOUT_MS));
    };
    // A timeout may fire a millisecond early, and a long wait needs several timeouts.
    const fire = () => {
      if (this.now() >= instant) callback();
      else arm();
    };
    arm();
    return () => clearTimeout(timeout);
  }

  mark(): ClockMark {
    return { instant: Math.ceil(this.#time.now()) as Instant, bootId: this.#bootId, uptimeMs: this.#sources.uptime() };
  }

  resume(mark: ClockMark): void {
    const passed = this.#sources.uptime() - mark.uptimeMs;
    // A negative time means: a container that shows its own uptime was restarted on the same boot of its host.
    const sameBoot = mark.bootId !== undefined && mark.bootId === this.#bootId && passed >= 0;
    const wall = this.#sources.wall();
    if (sameBoot) this.#time.resume(mark.instant, passed);
    else this.#time.set(Math.max(wall, mark.instant));
    if (this.#catchesUp && wall > this.#time.now()) this.#time.set(wall);
  }
}
