import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock, ClockMark } from './clock.ts';

/** Maximum of setTimeout, in ms. A longer timeout would fire immediately. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** The time sources of a clock, in ms. Tests pass their own. */
export interface ClockSources {
  /** The system clock, since 1970. Jumps when it is set. */
  wall(): number;
  /** Time since a fixed moment. Never jumps. */
  monotonic(): number;
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

/**
 * The time of the machine: the system clock at the start, plus the time since then by the monotonic clock. So setting the system
 * clock neither expires nor extends a lease.
 */
export class SystemClock implements Clock {
  readonly #sources: ClockSources;
  readonly #bootId: string | undefined;
  /** Difference of `now` and the monotonic clock, in ms. */
  #aheadMs: number;

  constructor(sources: ClockSources = machine) {
    this.#sources = sources;
    this.#bootId = sources.bootId();
    this.#aheadMs = sources.wall() - sources.monotonic();
  }

  now(): Instant {
    return Math.floor(this.#exact()) as Instant;
  }

  wall(): number {
    return this.#sources.wall();
  }

  at(instant: Instant, callback: () => void): CancelTimer {
    let timeout: NodeJS.Timeout;
    const arm = () => {
      const delay = Math.ceil(instant - this.#exact());
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
    return { instant: this.now(), bootId: this.#bootId, uptimeMs: this.#sources.uptime() };
  }

  resume(mark: ClockMark): void {
    const passed = this.#sources.uptime() - mark.uptimeMs;
    // A negative time means: a container that shows its own uptime was restarted on the same boot of its host.
    const sameBoot = mark.bootId !== undefined && mark.bootId === this.#bootId && passed >= 0;
    const now = sameBoot ? mark.instant + passed : Math.max(this.#sources.wall(), mark.instant);
    this.#aheadMs = now - this.#sources.monotonic();
  }

  #exact(): number {
    return this.#sources.monotonic() + this.#aheadMs;
  }
}
