import { BulkAction, type BulkFilter, type BulkRun, type BulkSpec, BulkTasks, parseQueueName } from '@taskmaster/proto';
import type { Engine } from '../engine.ts';

/** What a run does. Default: it deletes all tasks. */
export const aBulkSpec = ({
  filter,
  ...change
}: Partial<Omit<BulkSpec, 'filter'>> & { readonly filter?: Partial<BulkFilter> } = {}): BulkSpec => ({
  action: BulkAction.BULK_ACTION_DELETE,
  filter: filter && {
    tasks: BulkTasks.BULK_TASKS_UNSPECIFIED,
    minAgeMs: 0,
    maxAgeMs: 0,
    errorContains: '',
    headers: undefined,
    keyPrefix: '',
    ...filter,
  },
  target: '',
  cancelReason: '',
  delayMs: 0,
  runAtUnixMs: 0,
  rate: 0,
  maxTasks: 0,
  ...change,
});

/** Starts a run on the queues `group#pattern`. Resolves with whether it was started. */
export async function startBulk(
  engine: Engine,
  queues: string,
  spec: Parameters<typeof aBulkSpec>[0] = {},
  id = 'run',
): Promise<boolean> {
  const command = { queues: parseQueueName(queues), spec: aBulkSpec(spec), id, by: 'ann' };
  return (await engine.bulkRuns.start(command)).started;
}

/** A run as callers see it. Undefined: there is none. */
export async function bulkRunOf(engine: Engine, group: string, id = 'run'): Promise<BulkRun | undefined> {
  return (await engine.bulkRuns.list(group)).find(({ run }) => run.id === id)?.run;
}

/** Ends a run. Resolves with whether it went on. */
export const cancelBulk = async (engine: Engine, group: string, id = 'run'): Promise<boolean> =>
  (await engine.bulkRuns.cancel(group, id)).cancelled;
