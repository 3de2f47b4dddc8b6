import type { EngineFigures, EngineHealth, TaskEngine } from '../../domain/commands.ts';
import { Refusal } from '../../domain/refusal.ts';

const NO_FIGURES: EngineFigures = {
  queues: 0,
  waiters: 0,
  inFlightRequests: 0,
  inFlightBytes: 0,
  cacheBytes: 0,
  refills: 0,
  coldReads: 0,
  commits: 0,
  commitBytes: 0,
  atoms: 0,
  runningBackups: 0,
  backupBytes: 0,
  tasksEnqueued: 0,
  tasksLeased: 0,
  tasksCompleted: 0,
  leasesExpired: 0,
  tasksDeadLettered: 0,
  refused: 0,
};

/** An engine whose answers a test chooses. It records every command. */
export interface FakeEngine extends TaskEngine {
  readonly asked: { readonly operation: string; readonly command: unknown }[];
  health: EngineHealth;
}

export function fakeEngine(does: Partial<TaskEngine> = {}): FakeEngine {
  const asked: FakeEngine['asked'] = [];
  const ask =
    <C, R>(operation: string, answer: ((command: C, context?: never) => Promise<R>) | undefined) =>
    async (command: C, context?: never): Promise<R> => {
      asked.push({ operation, command });
      if (answer === undefined) throw new TypeError(`the test did not expect ${operation}`);
      return answer(command, context);
    };
  return {
    asked,
    health: { kind: 'serving' },
    updateTasks: ask('updateTasks', does.updateTasks),
    updateBatch: ask('updateBatch', does.updateBatch ?? (does.updateTasks && eachOf(does.updateTasks))),
    leaseTasks: ask('leaseTasks', does.leaseTasks),
    listQueues: ask('listQueues', does.listQueues),
    queueStats: ask('queueStats', does.queueStats),
    peekTasks: ask('peekTasks', does.peekTasks),
    getTasks: ask('getTasks', does.getTasks),
    deleteQueue: ask('deleteQueue', does.deleteQueue),
    resetLeases: ask('resetLeases', does.resetLeases),
    figures: does.figures ?? (() => NO_FIGURES),
    stop: does.stop ?? (async () => {}),
  };
}

/** Updates a batch one by one. */
const eachOf =
  (updateTasks: TaskEngine['updateTasks']): TaskEngine['updateBatch'] =>
  ({ updates }) =>
    Promise.all(
      updates.map(async (command) => {
        try {
          return { kind: 'done' as const, outcome: await updateTasks(command) };
        } catch (thrown) {
          if (thrown instanceof Refusal) return { kind: 'refused' as const, refusal: thrown };
          throw thrown;
        }
      }),
    );
