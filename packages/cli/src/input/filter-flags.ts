import type { QueueFilterOptions } from '@taskmaster/client';
import type { Command } from 'commander';
import { UsageError } from '../views/cli-errors.ts';
import { anyWholeNumber } from './arguments.ts';

/** Options that filter queues, named like the client's filter. */
export interface FilterFlags extends QueueFilterOptions {
  /** Whether the shards of a queue are shown as one queue. */
  readonly sharded?: true;
}

export function addFilterFlags(command: Command): void {
  command
    .option('--regex <re2>', 'match queues by group#name; the expression may match any part, ^ and $ anchor it')
    .option('--group <group>', "queues of this group; '' is the default group")
    .option('--min-available <n>', 'queues with at least n available tasks', anyWholeNumber)
    .option('--max-available <n>', 'queues with at most n available tasks', anyWholeNumber)
    .option('--min-leased <n>', 'queues with at least n leased tasks', anyWholeNumber)
    .option('--max-leased <n>', 'queues with at most n leased tasks', anyWholeNumber)
    .option('--min-delayed <n>', 'queues with at least n delayed tasks', anyWholeNumber)
    .option('--max-delayed <n>', 'queues with at most n delayed tasks', anyWholeNumber)
    .option('--sharded', 'add the shards of a sharded queue up; filters apply to each shard');
}

/** The filter of the flags. Undefined: no filter was given. */
export function filterOf(flags: FilterFlags): QueueFilterOptions | undefined {
  const { regex, group, minAvailable, maxAvailable, minLeased, maxLeased, minDelayed, maxDelayed } = flags;
  const filter = { regex, group, minAvailable, maxAvailable, minLeased, maxLeased, minDelayed, maxDelayed };
  return Object.values(filter).some((value) => value !== undefined) ? filter : undefined;
}

/** @throws UsageError when both names and filters are given. */
export function assertNamesOrFilter(names: readonly string[], flags: FilterFlags): void {
  if (names.length > 0 && filterOf(flags) !== undefined) throw new UsageError('name queues or give filters, not both');
}
