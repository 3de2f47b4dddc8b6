import type { QueueStats } from '@taskmaster/proto/messages';

/** In a queue with at most so many tasks, the list of a tab shows all that it is about. */
const SMALL = 1_000;

type Count = 'available' | 'leased' | 'delayed';

/**
 * Statistics with the number of tasks that a list shows. The two come from two calls, between which tasks come and go, and
 * numbers beside each other must agree. `limit`: of the list. Statistics of a list that may be incomplete stay as they are.
 */
export function agreedStats(stats: QueueStats, count: Count, listed: number, limit: number): QueueStats {
  const { available, leased, delayed } = stats;
  const isWhole = listed < limit && available + leased + delayed <= SMALL;
  if (!isWhole) return stats;
  const agreed = { ...stats, [count]: listed };
  return agreed.available + agreed.leased > 0 ? agreed : { ...agreed, oldestAgeMs: 0 };
}
