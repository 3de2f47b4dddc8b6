import type { Instant, Pid } from '../domain/ids.ts';
import { pidAfter } from '../domain/keys.ts';
import { LONG_AGO, NEVER } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import type { Queue } from '../queues/queue.ts';
import type { Sweep } from '../sweeper.ts';
import { readRecords } from './list-schedules.ts';
import { decodeRecord } from './record.ts';

/** Groups that one search reads, so that a start with many groups is not slowed down. */
const GROUPS_AT_ONCE = 100;
/** What one read may return. */
const PAGE = { schedules: 1000, bytes: 1024 * 1024 };
/** Time before a group is read again, of which some schedules wait. */
const AGAIN_MS = 60_000;
/** A schedule whose runs are decided by less than this ahead of the clock does not count: clocks of nodes differ. */
const MARGIN_MS = 60_000;
/** A clock that goes back by this much has been set. */
const SET_BACK_MS = 1000;

interface Seen {
  readonly at: Instant;
  /** Up to when the runs of the schedules are decided that are ahead of the clock. */
  readonly decided: readonly number[];
}

/**
 * Looks for schedules that wait for the system clock: it was wrong, runs were decided ahead of time, and it was set back. They
 * run again when the clock has passed these runs, which may be a day later. A group is read when it appears and after the clock
 * was set back.
 */
export class SchedulesAhead implements Sweep<Queue> {
  readonly everyMs = 1_000;
  #seen = new WeakMap<Queue, Seen>();
  #wall = Number.NEGATIVE_INFINITY;

  /** Number of schedules that wait for the clock. */
  waiting({ schedules, clock }: EngineState): number {
    const wall = clock.wall();
    let count = 0;
    for (const queue of schedules) {
      for (const decided of this.#seen.get(queue)?.decided ?? []) if (decided > wall + MARGIN_MS) count++;
    }
    return count;
  }

  next({ schedules }: EngineState): Instant {
    return schedules.size === 0 ? NEVER : LONG_AGO;
  }

  due({ schedules, clock }: EngineState): Queue[] {
    const wall = clock.wall();
    if (wall < this.#wall - SET_BACK_MS) this.#seen = new WeakMap();
    this.#wall = wall;
    const due: Queue[] = [];
    for (const queue of schedules) {
      if (due.length === GROUPS_AT_ONCE) break;
      if (this.#isToRead(queue, clock.now())) due.push(queue);
    }
    return due;
  }

  #isToRead(queue: Queue, now: Instant): boolean {
    if (queue.dropped) return false;
    const seen = this.#seen.get(queue);
    return seen === undefined || (seen.decided.length > 0 && now - seen.at >= AGAIN_MS);
  }

  async sweep(engineState: EngineState, queue: Queue): Promise<void> {
    const { clock } = engineState;
    const at = clock.now();
    const decided: number[] = [];
    // Set first: a group that cannot be read is not tried again and again.
    this.#seen.set(queue, { at, decided });
    for (let next: Pid | undefined = '' as Pid; next !== undefined; ) {
      const { rows, last }: Awaited<ReturnType<typeof readRecords>> = await readRecords(engineState, queue, next, PAGE);
      for (const data of rows.values()) {
        const { paused, decidedUnixMs } = decodeRecord(data);
        if (!paused && decidedUnixMs > clock.wall() + MARGIN_MS) decided.push(decidedUnixMs);
      }
      next = last === undefined ? undefined : pidAfter(last);
    }
  }
}
