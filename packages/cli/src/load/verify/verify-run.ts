import type { Payloads } from '../workload/payloads.ts';
import { type DrainOptions, drainQueues } from './drain.ts';
import type { TaskHistory } from './task-history.ts';
import type { Verdict } from './verdict.ts';

export interface VerifyParts extends Omit<DrainOptions, 'onTask'> {
  readonly history: TaskHistory;
  readonly payloads: Payloads;
}

/**
 * Takes all tasks out of the queues of a load and compares them with its history. All calls of the load must have ended.
 * @throws DrainFailedError, TaskMasterError when the queues cannot be read.
 */
export async function verifyRun({ history, payloads, ...options }: VerifyParts): Promise<Verdict> {
  const drained = await drainQueues({
    ...options,
    onTask: ({ queue, pid, bytes }) => {
      const text = Buffer.from(pid).toString('latin1');
      const number = payloads.read(bytes);
      if (number === undefined) {
        history.report(`a task of ${queue} has a payload that no call of this run has written (PID ${text})`);
      } else history.foundAtEnd({ queue, pid: text, data: String(number) });
    },
  });
  for (const { queue, counted, found } of drained) {
    // An update with an unknown outcome may be applied between the count and the drain.
    if (Math.abs(counted - found) <= history.unknown) continue;
    history.report(`(e) wrong count: the statistics of ${queue} said ${counted} tasks, and it had ${found}`);
  }
  return history.finish();
}
