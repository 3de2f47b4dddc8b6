import type { Clock, Log } from '@taskmaster/engine/ports';
import type { Members } from './members.ts';

/** A larger difference of clocks is logged, and so is a change by as much, in ms. A round trip takes two seconds at most. */
const REPORT_FROM_MS = 60_000;
const ALIKE_BELOW_MS = 30_000;
/** A release that tells no system clock refuses forwarded calls of a member whose system clock differs by more, in ms. */
const EARLIER_REFUSES_FROM_MS = 5 * 60_000;

export interface ClockWatchDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly members: () => Members;
}

/** The clocks of a member, by its own account, in ms since 1970. */
export interface ToldClocks {
  /** The clock of its engine. */
  readonly nowMs: number;
  /** Its system clock. 0: its release does not tell it. */
  readonly wallMs: number;
}

/** How far the system clock of another member is ahead of the system clock of this process. */
export interface ClockDifference {
  readonly nodeId: string;
  /** Name of the member. */
  readonly member: string;
  readonly aheadMs: number;
}

interface Known {
  readonly aheadMs: number;
  readonly tellsWall: boolean;
}

/**
 * Compares the system clocks of other members with the one of this process, and logs each large difference once. Leases do not
 * depend on it, because instants travel as remaining time. But schedules run by the system clock, and people see times.
 */
export class ClockWatch {
  readonly #deps: ClockWatchDeps;
  /** By node id. */
  readonly #known = new Map<string, Known>();
  /** The differences that were logged last, by node id. */
  readonly #reported = new Map<string, number>();

  constructor(deps: ClockWatchDeps) {
    this.#deps = deps;
  }

  /** `askedAt`: the system clock of this process when it asked for the answer. */
  heard(nodeId: string, { nowMs, wallMs }: ToldClocks, askedAt: number): void {
    const tellsWall = wallMs > 0;
    // The answer was on its way for about half of the time.
    const aheadMs = (tellsWall ? wallMs : nowMs) - (askedAt + this.#deps.clock.wall()) / 2;
    this.#known.set(nodeId, { aheadMs, tellsWall });
    this.#report(nodeId, Math.round(aheadMs));
  }

  /** The differences of the present members. */
  get differences(): readonly ClockDifference[] {
    const members = this.#deps.members();
    return [...this.#known].flatMap(([nodeId, { aheadMs }]) => {
      const member = members.get(nodeId);
      return member === undefined || member.state === 'left' ? [] : [{ nodeId, member: member.name, aheadMs }];
    });
  }

  /**
   * Why most of the other members refuse the calls that this process forwards to them; undefined if they do not. Only members of
   * an earlier release do.
   */
  get refusal(): string | undefined {
    const differences = this.differences;
    const refusing = differences.filter(({ nodeId, aheadMs }) => {
      return !this.#known.get(nodeId)?.tellsWall && Math.abs(aheadMs) >= EARLIER_REFUSES_FROM_MS;
    });
    if (refusing.length === 0 || refusing.length * 2 <= differences.length) return undefined;
    const names = refusing.map(({ member }) => member).join(', ');
    return `its system clock is more than five minutes off the clocks of ${names}: set the wrong clock right, as with NTP`;
  }

  #report(nodeId: string, aheadMs: number): void {
    const { log, members } = this.#deps;
    const reported = this.#reported.get(nodeId);
    const isFar = Math.abs(aheadMs) >= REPORT_FROM_MS;
    const member = members().get(nodeId)?.name ?? nodeId;
    if (isFar && (reported === undefined || Math.abs(aheadMs - reported) >= REPORT_FROM_MS)) {
      this.#reported.set(nodeId, aheadMs);
      const seconds = Math.round(Math.abs(aheadMs) / 1000);
      const direction = aheadMs > 0 ? 'ahead of' : 'behind';
      log.warn(
        { member, aheadMs },
        `the system clock of member ${member} is ${seconds} s ${direction} this one: set the wrong one right, as with NTP`,
      );
    } else if (Math.abs(aheadMs) < ALIKE_BELOW_MS && this.#reported.delete(nodeId)) {
      log.info({ member, aheadMs }, `the system clock of member ${member} agrees with this one again`);
    }
  }
}
