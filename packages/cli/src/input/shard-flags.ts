import { MAX_SHARDS, ShardNames } from '@taskmaster/client/internal';
import { UsageError } from '../views/cli-errors.ts';
import { wholeNumber } from './arguments.ts';

/** Parses `--shards`. */
export const shardCount = wholeNumber(1, MAX_SHARDS);

/** Names of the first shards of a queue, by default of all possible shards. @throws UsageError if it cannot have shards. */
export function shardsOf(queue: string, shards: number = MAX_SHARDS): string[] {
  const names = shardNames(queue);
  return Array.from({ length: shards }, (_, shard) => names.of(shard));
}

/** @throws UsageError if the queue cannot have shards, or its dead-letter queue is not in its group. */
export function assertShardable(queue: string, deadLetterQueue: string | undefined): void {
  const names = shardNames(queue);
  if (deadLetterQueue !== undefined) asUsage(() => names.besides(deadLetterQueue, 0));
}

const shardNames = (queue: string): ShardNames => asUsage(() => new ShardNames(queue));

function asUsage<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
