import type { QueueStats } from '@taskmaster/proto';
import { shardIn } from '../../tasks/shard-names.ts';

/**
 * Statistics of a sharded queue: sums over its shards. `meanLeaseMs` is weighted, `oldestAgeMs` is the largest, and `pause`
 * and `heldBy` are those of the first shard that has one.
 */
export interface ShardedQueueStats extends QueueStats {
  /** Statistics of the shards that hold tasks, are paused, or that enqueues use. */
  readonly shards: readonly QueueStats[];
}

/** Adds the statistics of the shards of one queue. */
export function addShards(name: string, shards: readonly QueueStats[]): ShardedQueueStats {
  const sum = (field: Exclude<keyof QueueStats, 'queue' | 'pause' | 'heldBy'>): number =>
    shards.reduce((total, stats) => total + stats[field], 0);
  const completed = sum('completed');
  const leaseMs = shards.reduce((total, stats) => total + stats.meanLeaseMs * stats.completed, 0);
  return {
    queue: name,
    available: sum('available'),
    leased: sum('leased'),
    delayed: sum('delayed'),
    waiting: sum('waiting'),
    completed,
    enqueueRate: sum('enqueueRate'),
    leaseRate: sum('leaseRate'),
    completeRate: sum('completeRate'),
    meanLeaseMs: completed === 0 ? 0 : leaseMs / completed,
    oldestAgeMs: Math.max(0, ...shards.map(({ oldestAgeMs }) => oldestAgeMs)),
    pause: shards.find(({ pause }) => pause !== undefined)?.pause,
    heldBy: shards.find(({ heldBy }) => heldBy !== undefined)?.heldBy,
    shards,
  };
}

/** Puts the shards of each sharded queue into one entry, at the place of its first shard. Other queues stay as they are. */
export function foldShards(queues: Iterable<QueueStats>): (QueueStats | ShardedQueueStats)[] {
  const byName = new Map<string, QueueStats[] | QueueStats>();
  for (const stats of queues) {
    const whole = shardIn(stats.queue)?.name;
    if (whole === undefined) {
      byName.set(` ${stats.queue}`, stats);
      continue;
    }
    const shards = byName.get(whole);
    if (Array.isArray(shards)) shards.push(stats);
    else byName.set(whole, [stats]);
  }
  return [...byName].map(([name, found]) => (Array.isArray(found) ? addShards(name, found) : found));
}
