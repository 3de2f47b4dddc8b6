import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock, ClockMark } from './clock.ts';

/** What setTimeout can wait at most; anything longer would fire at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** What a clock is made of; handed in by tests. All in ms. */
export interface ClockSources {
  /** The system's clock, since 1970. Jumps when it is set. */
  wall(): number;
  /** Since any fixed moment. Never jumps. */
  monotonic(): number;
  /** Since the machine's boot. */
  uptime(): number;
  /** Names the boot of the machine; undefined where it cannot be told. */
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
      return undefined; // not Linux, or hidden by the container: the system's clock is all there is
    }
  },
};

/**
 * The machine's time: the system's clock as it was at the start plus what has passed since on the monotonic clock, so
 * that setting the system's clock neither expires nor extends a lease.
 */
export class SystemClock implements Clock {
  readonly #sources: ClockSources;
  readonly #bootId: string | undefined;
  /** What `now` is ahead of the monotonic clock. */
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
    // Timeouts may come a millisecond early, and long waits take several of them.
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
    // Less than nothing passed: a container that shows its own uptime was restarted on the same boot of its host.
    const sameBoot = mark.bootId !== undefined && mark.bootId === this.#bootId && passed >= 0;
    const now = sameBoot ? mark.instant + passed : Math.max(this.#sources.wall(), mark.instant);
    this.#aheadMs = now - this.#sources.monotonic();
  }

  #exact(): number {
    return this.#sources.monotonic() + this.#aheadMs;
  }
}
