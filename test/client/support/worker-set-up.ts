import type { LeasedTask, Queue, WorkerOptions } from '@taskmaster/client';
import { type ClientSetUp, clientSetUp } from './client-set-up.ts';

export interface WorkerSetUp extends ClientSetUp {
  readonly queue: Queue<string>;
  /** Calls of hooks, in order. */
  readonly heard: string[];
  readonly hooks: Pick<WorkerOptions<string>, 'onTaskCompleted' | 'onAttemptFailed' | 'onLeaseLost'>;
}

/** A client, a queue of texts, and hooks that record their calls. */
export function workerSetUp(): WorkerSetUp {
  const made = clientSetUp();
  const heard: string[] = [];
  return {
    ...made,
    queue: made.client.queue<string>('g#q'),
    heard,
    hooks: {
      onTaskCompleted: (task) => heard.push(`complete ${task.data}`),
      onAttemptFailed: (error, task) =>
        heard.push(`error ${(error as Error | undefined)?.message}${task === undefined ? '' : ' in a task'}`),
      onLeaseLost: (task, { reason }) => heard.push(`lost ${task.data}: ${reason}`),
    },
  };
}

/** A handler that ends when the test says so. */
export function gatedHandler() {
  const begun: string[] = [];
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const handler = (task: LeasedTask<string>): Promise<void> => {
    begun.push(task.data);
    const gate = Promise.withResolvers<void>();
    gates.set(task.data, gate);
    return gate.promise;
  };
  return { begun, handler, finish: (data: string) => gates.get(data)?.resolve() };
}

/** Tasks with their data as PIDs. */
export const named = (...data: string[]): { data: string; pid: string }[] =>
  data.map((one) => ({ data: one, pid: one }));
