import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Members } from './members.ts';

/** Clocks that differ by more are reported, in ms. A round trip takes two seconds at most. */
const REPORT_FROM_MS = 60_000;
const ALIKE_BELOW_MS = 30_000;

export interface ClockWatchDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly members: () => Members;
}

/**
 * Says when another member's clock is far from this one's. Nothing depends on that, since instants travel as the time
 * that is left, but tasks and logs carry times for people.
 */
export class ClockWatch {
  readonly #deps: ClockWatchDeps;
  readonly #reported = new Set<string>();

  constructor(deps: ClockWatchDeps) {
    this.#deps = deps;
  }

  heard(nodeId: string, nowMs: number): void {
    const { clock, log, members } = this.#deps;
    const aheadMs = nowMs - clock.now();
    const member = members().get(nodeId)?.name ?? nodeId;
    if (Math.abs(aheadMs) >= REPORT_FROM_MS && !this.#reported.has(nodeId)) {
      this.#reported.add(nodeId);
      const seconds = Math.round(Math.abs(aheadMs) / 1000);
      const direction = aheadMs > 0 ? 'ahead of' : 'behind';
      log.warn(
        { member, aheadMs },
        `the clock of member ${member} is ${seconds} s ${direction} this one: set one of them`,
      );
    } else if (Math.abs(aheadMs) < ALIKE_BELOW_MS && this.#reported.delete(nodeId)) {
      log.info({ member, aheadMs }, `the clock of member ${member} agrees with this one again`);
    }
  }
}
