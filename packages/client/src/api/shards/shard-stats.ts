import type { KindStats, QueueKinds, QueueStats } from '@taskmaster/proto';
import { shardIn } from '../../tasks/shard-names.ts';

/**
 * Statistics of a sharded queue: sums over its shards. `meanLeaseMs` is weighted, `oldestAgeMs` is the largest, `heldSinceUnixMs`
 * the earliest, and `pause` and `heldBy` are those of the first shard that has one.
 */
export interface ShardedQueueStats extends QueueStats {
  /** Statistics of the shards that hold tasks, are paused, or that enqueues use. */
  readonly shards: readonly QueueStats[];
}

/** Adds the statistics of the shards of one queue. */
export function addShards(name: string, shards: readonly QueueStats[]): ShardedQueueStats {
  const sum = (
    field: Exclude<keyof QueueStats, 'queue' | 'pause' | 'heldBy' | 'kinds' | 'heldSinceUnixMs' | 'watch'>,
  ): number => shards.reduce((total, stats) => total + stats[field], 0);
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
    heldBy: shards.find(({ heldBy }) => heldBy.length > 0)?.heldBy ?? [],
    kinds: addKinds(shards.flatMap(({ kinds }) => kinds ?? [])),
    heldKeys: sum('heldKeys'),
    heldTasks: sum('heldTasks'),
    heldSinceUnixMs: earliest(shards.map(({ heldSinceUnixMs }) => heldSinceUnixMs)),
    shards,
  };
}

/** 0: none of them is set. */
function earliest(instants: readonly number[]): number {
  const set = instants.filter((at) => at > 0);
  return set.length === 0 ? 0 : Math.min(...set);
}

/** Sums by kind. A kind is unclaimed since it was in the first shard in which it is. */
function addKinds(ofShards: readonly QueueKinds[]): QueueKinds | undefined {
  const [first, ...others] = ofShards;
  if (first === undefined || others.length === 0) return first;
  const most = new Map<string, KindStats>();
  for (const stats of ofShards.flatMap((kinds) => kinds.most)) {
    const sum = most.get(stats.kind);
    const since = [sum?.unclaimedSinceUnixMs, stats.unclaimedSinceUnixMs].filter((at) => at !== undefined);
    most.set(stats.kind, {
      kind: stats.kind,
      available: (sum?.available ?? 0) + stats.available,
      leased: (sum?.leased ?? 0) + stats.leased,
      delayed: (sum?.delayed ?? 0) + stats.delayed,
      unclaimedSinceUnixMs: since.length === 0 ? undefined : Math.min(...since),
    });
  }
  return {
    unclaimed: ofShards.reduce((sum, { unclaimed }) => sum + unclaimed, 0),
    count: Math.max(most.size, ...ofShards.map(({ count }) => count)),
    most: [...most.values()],
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
