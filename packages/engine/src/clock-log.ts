import type { EngineLog } from './engine-deps.ts';
import type { Clock } from './ports/clock.ts';

/** How often the two clocks are compared, in ms. */
export const CLOCK_LOOK_MS = 10_000;
/** A larger difference is logged, and so is a change by a minute, in ms. */
const REPORT_FROM_MS = 5_000;
const CHANGED_BY_MS = 60_000;
const ALIKE_BELOW_MS = 1_000;

/** Logs when the clock of the engine is far from the system clock, and when it has found its way back. */
export class ClockLog {
  readonly #clock: Clock;
  readonly #log: EngineLog;
  /** The difference at the last look after a report. It shrinks, and a jump is a change of the system clock. */
  #seen: number | undefined;

  constructor({ clock, log }: { readonly clock: Clock; readonly log: EngineLog }) {
    this.#clock = clock;
    this.#log = log;
  }

  look(): void {
    const aheadMs = Math.round(this.#clock.now() - this.#clock.wall());
    const isNews = this.#seen === undefined || Math.abs(aheadMs - this.#seen) >= CHANGED_BY_MS;
    if (Math.abs(aheadMs) >= REPORT_FROM_MS) {
      if (isNews) this.#report(aheadMs);
      this.#seen = aheadMs;
    } else if (Math.abs(aheadMs) < ALIKE_BELOW_MS && this.#seen !== undefined) {
      this.#seen = undefined;
      this.#log.info({ aheadMs }, 'the clock of the engine agrees with the system clock again');
    }
  }

  #report(aheadMs: number): void {
    const seconds = Math.round(Math.abs(aheadMs) / 1000);
    const direction = aheadMs > 0 ? 'ahead of' : 'behind';
    this.#log.warn(
      { aheadMs },
      `the clock of the engine is ${seconds} s ${direction} the system clock, and dates of tasks are off by as much: it approaches the system clock by clock.correctionMsPerSecond`,
    );
  }
}
