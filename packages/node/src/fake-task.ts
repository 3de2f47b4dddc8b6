import type { Codec, LeasedTask, TaskMasterClient, TaskOptions } from '@taskmaster/client';
import { assertKnown, LEASE, type OptionNames, taskNames } from '@taskmaster/client/internal';
import { openMemory, TestClock } from './open-memory.ts';

/** What a task of a test is like. It is leased at once. */
export interface FakeTaskOptions
  extends Omit<TaskOptions, 'delay' | 'runAt' | 'startBy' | 'startWithin' | 'waitsFor' | 'parent' | 'mode'> {
  /** Default `test#tasks`. */
  readonly queue?: string | undefined;
  /** Number of the attempt, from 1. Default 1. Attempts before it have failed. */
  readonly attempt?: number | undefined;
  /** What the attempt before has reported: `task.previousProgress`. Default: nothing. */
  readonly progress?: string | undefined;
  /** What the attempt before has left: `task.previousCheckpoint`. Default: nothing. */
  readonly checkpoint?: Uint8Array | undefined;
}

/** A leased task in a queue in memory of its own. */
export type FakeTask<T> = LeasedTask<T> & {
  /** A client of this queue, to see what a handler did: what it has enqueued, whether the task is still there, and so on. */
  readonly client: TaskMasterClient;
};

const { delay, runAt, startBy, startWithin, waitsFor, parent, mode, ...kept } = taskNames;
const names: OptionNames<FakeTaskOptions> = { ...kept, queue: true, attempt: true, progress: true, checkpoint: true };

const NO_BYTES = new Uint8Array(0);

/**
 * A leased task with this data, to call a handler with. It is a task of a real queue in memory, whose time stands still: it can
 * be completed, released, renewed and so on, and nothing has to be closed. The data is passed on as it is, whatever codec or
 * schema the queue of the program has.
 *
 *     const outcome = await sendMail(await fakeTask({ to: 'ann@example.com' }));
 *
 * @throws TypeError for wrong options, and for an attempt beyond those that `retry` allows.
 */
export async function fakeTask<T>(data: T, options: FakeTaskOptions = {}): Promise<FakeTask<T>> {
  assertKnown('fakeTask', options, names);
  const { queue: name = 'test#tasks', attempt = 1, progress, checkpoint, ...taskOptions } = options;
  if (!Number.isInteger(attempt) || attempt < 1)
    throw new TypeError(`attempt: ${attempt} is not a whole number from 1`);
  const client = await openMemory({ clock: new TestClock() });
  const codec: Codec<T> = { encode: () => NO_BYTES, decode: () => data };
  const queue = client.queue<T>(name, { codec });
  await queue.enqueue(data, taskOptions);
  const lease = async (): Promise<LeasedTask<T>> => {
    const [task] = await queue.lease({ leaseDuration: '1d' });
    if (task === undefined) throw new TypeError(`attempt: ${attempt} is more than the task has, see retry.maxAttempts`);
    return task;
  };
  if (progress !== undefined || checkpoint !== undefined) {
    const before = await lease();
    if (progress !== undefined) await before.reportProgress(progress);
    if (checkpoint !== undefined) await before.checkpoint(checkpoint);
    await before.release({ refundAttempt: true, delay: 0 });
  }
  for (let failed = 1; failed < attempt; failed++) {
    await (await lease()).release({ error: 'an attempt before', delay: 0 });
  }
  return Object.assign(await lease(), { client });
}

/** Aborts the signal of a task as if it were cancelled, to see how its handler stops. */
export function cancelTask(task: LeasedTask<unknown>, reason = ''): void {
  task[LEASE].cancel(reason);
}
