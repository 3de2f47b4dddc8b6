import type { Command } from 'commander';
import type { QueueFilterOptions } from '../../tasks/introspection.ts';
import { UsageError } from '../output/cli-errors.ts';
import { anyWholeNumber } from './arguments.ts';

/** Options that choose queues by what they are like; named as the client's filter. */
export type FilterFlags = QueueFilterOptions;

export function addFilterFlags(command: Command): void {
  command
    .option('--regex <re2>', 'the expression is found anywhere in group#name; ^ and $ anchor it')
    .option('--group <group>', "of this group; '' is the default group")
    .option('--min-available <n>', 'with at least so many tasks to lease', anyWholeNumber)
    .option('--max-available <n>', 'with at most so many tasks to lease', anyWholeNumber)
    .option('--min-leased <n>', 'with at least so many leased tasks', anyWholeNumber)
    .option('--max-leased <n>', 'with at most so many leased tasks', anyWholeNumber)
    .option('--min-delayed <n>', 'with at least so many delayed tasks', anyWholeNumber)
    .option('--max-delayed <n>', 'with at most so many delayed tasks', anyWholeNumber);
}

/** The filter that was given; undefined: none was. */
export function filterOf(flags: FilterFlags): QueueFilterOptions | undefined {
  const { regex, group, minAvailable, maxAvailable, minLeased, maxLeased, minDelayed, maxDelayed } = flags;
  const filter = { regex, group, minAvailable, maxAvailable, minLeased, maxLeased, minDelayed, maxDelayed };
  return Object.values(filter).some((value) => value !== undefined) ? filter : undefined;
}

/** @throws UsageError when queues are both named and described. */
export function assertNamesOrFilter(names: readonly string[], flags: FilterFlags): void {
  if (names.length > 0 && filterOf(flags) !== undefined) throw new UsageError('name queues or give filters, not both');
}
