import type { TaskEngine } from '@taskmaster/engine';
import { BATCH_START, type EngineFigures, type EngineHealth, Refusal } from '@taskmaster/engine/domain';
import type { QueueName } from '@taskmaster/proto';

const NO_FIGURES: EngineFigures = {
  queues: 0,
  schedules: 0,
  schedulesAhead: 0,
  waiters: 0,
  taskWaits: 0,
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
  clockAheadMs: 0,
  tasksEnqueued: 0,
  tasksLeased: 0,
  tasksCompleted: 0,
  leasesExpired: 0,
  tasksDeadLettered: 0,
  attemptsFailed: 0,
  waited: { bounds: [100], counts: [0, 0], sumMs: 0 },
  worked: { bounds: [100], counts: [0, 0], sumMs: 0 },
  backedUpAt: undefined,
  resultsEvicted: 0,
  refused: 0,
  runsEnqueued: 0,
  runsMissed: 0,
  runsSkipped: 0,
  runsTriggered: 0,
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
    queuesWithTasks: does.queuesWithTasks ?? (() => []),
    waitForTasks: ask('waitForTasks', does.waitForTasks),
    listQueues: ask('listQueues', does.listQueues),
    queueStats: ask('queueStats', does.queueStats),
    peekTasks: ask('peekTasks', does.peekTasks),
    getTasks: ask('getTasks', does.getTasks),
    deleteQueue: ask('deleteQueue', does.deleteQueue),
    resetLeases: ask('resetLeases', does.resetLeases),
    schedules: does.schedules ?? {
      put: ask('schedules.put', undefined),
      list: ask('schedules.list', undefined),
      delete: ask('schedules.delete', undefined),
      pause: (schedule) => ask<QueueName, never>('schedules.pause', undefined)(schedule),
      trigger: ask('schedules.trigger', undefined),
    },
    settings: {
      put: ask('settings.put', undefined),
      delete: ask('settings.delete', undefined),
      list: ask('settings.list', undefined),
    },
    topics: {
      subscribe: ask('subscribe', does.topics?.subscribe),
      unsubscribe: ask('unsubscribe', does.topics?.unsubscribe),
      list: ask('list', does.topics?.list),
      countOf: () => 0,
    },
    figures: does.figures ?? (() => NO_FIGURES),
    stop: does.stop ?? (async () => {}),
  };
}

/** Updates a batch one by one. */
const eachOf =
  (updateTasks: TaskEngine['updateTasks']): TaskEngine['updateBatch'] =>
  async (batch) => {
    const refusals = new Map<number, Refusal>();
    const outcomes = batch.updates.map(async (end, index) => {
      const start = batch.updates[index - 1] ?? BATCH_START;
      try {
        return await updateTasks({
          ...batch,
          enqueue: batch.enqueue.slice(start.enqueue, end.enqueue),
          dequeue: batch.dequeue.slice(start.dequeue, end.dequeue),
          renew: batch.renew.slice(start.renew, end.renew),
          release: batch.release.slice(start.release, end.release),
        });
      } catch (thrown) {
        if (!(thrown instanceof Refusal)) throw thrown;
        refusals.set(index, thrown);
        return { enqueued: [], renewed: [], released: [] };
      }
    });
    const applied = await Promise.all(outcomes);
    return {
      enqueued: applied.flatMap(({ enqueued }) => enqueued),
      renewed: applied.flatMap(({ renewed }) => renewed),
      released: applied.flatMap(({ released }) => released),
      refusals,
    };
  };
