import type { TaskInfo } from '@taskmaster/proto/messages';

/** A worker with tasks that it has leased. */
export interface WorkerTasks {
  /** Empty: it has none. */
  readonly label: string;
  /** It has a connection to each node that holds tasks for it. */
  readonly addresses: readonly string[];
  readonly tasks: readonly TaskInfo[];
}

/** The name of a worker: its label, or its address if it has none. */
export const workerName = ({ label, addresses }: Pick<WorkerTasks, 'label' | 'addresses'>): string =>
  label || (addresses[0] ?? '');

/** The workers of leased tasks, those with the most tasks first. Workers with the same label are one. */
export function groupByWorker(tasks: readonly TaskInfo[]): WorkerTasks[] {
  const groups = Map.groupBy(tasks, ({ workerLabel, workerAddress }) => workerLabel || workerAddress);
  return [...groups.values()]
    .map((held) => ({
      label: held[0]?.workerLabel ?? '',
      addresses: [...new Set(held.map(({ workerAddress }) => workerAddress))].sort(),
      tasks: held,
    }))
    .sort((a, b) => b.tasks.length - a.tasks.length || (workerName(a) < workerName(b) ? -1 : 1));
}

/** An attempt that has ended. `at`: by the clock of the browser. */
export interface Ended {
  readonly at: number;
  readonly label: string;
  readonly isFailure: boolean;
}

/** How many attempts have ended, by the label of the worker. There may be thousands of workers, and many more attempts. */
export function endsByLabel(
  ended: readonly Ended[],
): ReadonlyMap<string, { readonly completed: number; readonly failed: number }> {
  const counts = new Map<string, { completed: number; failed: number }>();
  for (const { label, isFailure } of ended) {
    const count = counts.get(label) ?? { completed: 0, failed: 0 };
    counts.set(label, count);
    if (isFailure) count.failed++;
    else count.completed++;
  }
  return counts;
}
