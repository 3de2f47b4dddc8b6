import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Members } from './members.ts';

/** A larger difference of clocks is logged, in ms. A round trip takes two seconds at most. */
const REPORT_FROM_MS = 60_000;
const ALIKE_BELOW_MS = 30_000;

export interface ClockWatchDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly members: () => Members;
}

/**
 * Logs when the clock of another member is far from the clock of this one. Leases do not depend on it, because instants travel as
 * remaining time. But tasks and logs show times to people.
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
