import { type QueueStats, TroubleSeverity } from '@taskmaster/proto/messages';
import { formatCount, formatMany } from './format.ts';

/** How urgent something is: 3 needs somebody now, 2 soon, 1 is good to know, 0 is as it should be. */
export type Urgency = 0 | 1 | 2 | 3;

export interface Trouble {
  readonly urgency: Urgency;
  /** What is wrong, in a few words. Empty: nothing. */
  readonly text: string;
  /** Since when, in ms since 1970. Undefined: it is not known, or nothing is wrong. */
  readonly since?: number;
  /** False: it may have begun earlier. */
  readonly sinceIsExact?: boolean;
}

/** What is wrong with a queue: what its node has seen, or else why it gives no tasks. */
export function troubleOf(stats: QueueStats): Trouble {
  const worst = stats.watch?.troubles[0];
  if (worst !== undefined) {
    return {
      urgency: worst.severity === TroubleSeverity.TROUBLE_SEVERITY_CRITICAL ? 3 : 2,
      text: worst.message,
      since: worst.sinceUnixMs,
      sinceIsExact: worst.sinceIsExact,
    };
  }
  const { available, pause, heldBy, heldSinceUnixMs } = stats;
  if (pause !== undefined) {
    const waiting = available > 0 ? `, ${formatMany(available, 'task waits', 'tasks wait')}` : '';
    return { urgency: 1, text: `paused${waiting}`, since: pause.sinceUnixMs, sinceIsExact: true };
  }
  if (heldBy.length > 0) {
    return {
      urgency: 1,
      text: `held back by ${heldBy.length === 1 ? 'a limit' : `${formatCount(heldBy.length)} limits`}`,
      ...(heldSinceUnixMs > 0 && { since: heldSinceUnixMs, sinceIsExact: false }),
    };
  }
  return { urgency: 0, text: '' };
}

/** By trouble and by name the server orders, by the others the page. */
export type SortKey = 'trouble' | 'name' | 'available' | 'leased' | 'delayed' | 'oldest' | 'in' | 'out';

const values: Readonly<Record<SortKey, (stats: QueueStats) => number>> = {
  trouble: () => 0,
  name: () => 0,
  available: ({ available }) => available,
  leased: ({ leased }) => leased,
  delayed: ({ delayed }) => delayed,
  oldest: ({ oldestAgeMs }) => oldestAgeMs,
  in: ({ enqueueRate }) => enqueueRate,
  out: ({ completeRate }) => completeRate,
};

/** The queues in order, the largest first. Equals stay in the order in which they are given. */
export const sortQueues = (queues: readonly QueueStats[], by: SortKey): QueueStats[] =>
  queues.toSorted((a, b) => values[by](b) - values[by](a));
