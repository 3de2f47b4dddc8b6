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
