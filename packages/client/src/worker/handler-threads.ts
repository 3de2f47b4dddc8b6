import { type ResourceLimits, Worker as Thread } from 'node:worker_threads';
import type { LeasedTask } from '../tasks/leased-task.ts';
import type { LoggedTask } from '../tasks/logged-task.ts';
import { newTask, queueRef, type TaskOptions, taskNames } from '../tasks/new-task.ts';
import type { Timing } from '../transport/timing.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { receiveError, type SentError, sendError } from '../values/sent-error.ts';
import { fileBeside } from '../values/thread-file.ts';
import { type HandlerResult, UnrecoverableError } from './worker-options.ts';

/** What a task is in another thread, without its methods. */
export interface SentTask<T = unknown>
  extends Pick<
    LeasedTask<T>,
    | 'queue'
    | 'id'
    | 'pid'
    | 'key'
    | 'kind'
    | 'limitKey'
    | 'orderKey'
    | 'data'
    | 'headers'
    | 'attempt'
    | 'maxAttempts'
    | 'previousProgress'
    | 'previousCheckpoint'
    | 'leaseToken'
  > {}

/** A task as a handler in another thread gets it. Its lease stays in the thread of the worker. */
export interface ThreadTask<T = unknown> extends SentTask<T> {
  /** As that of a `LeasedTask`. Its reason is an `Error` with the `name` of the one there, such as `TaskCancelledError`. */
  readonly signal: AbortSignal;
  /** See `LeasedTask.reportProgress`. */
  reportProgress(progress: string): Promise<void>;
  /** See `LeasedTask.checkpoint`. */
  checkpoint(data: Uint8Array): Promise<void>;
  /** See `LeasedTask.toJSON`. */
  toJSON(): LoggedTask;
}

/** A task to enqueue, as a handler in another thread names it: plain values. */
export interface ThreadEnqueue extends TaskOptions {
  /** `group#name`, of the group of the task. */
  readonly queue: string;
  /** In JSON. */
  readonly data: unknown;
}

/** As `HandlerResult`. All of it must be values that threads can send each other. */
export interface ThreadResult<R = unknown> {
  readonly result?: R;
  readonly enqueue?: readonly ThreadEnqueue[] | undefined;
}

/**
 * The default export of a module that is the handler of a worker:
 * `client.worker(queue, new URL('./resize.js', import.meta.url))`. Each call is the only one in its thread. An error whose `name`
 * is `UnrecoverableError` ends the attempts, as in the worker.
 */
export type ThreadHandler<T = unknown, R = unknown> = (
  task: ThreadTask<T>,
  // biome-ignore lint/suspicious/noConfusingVoidType: most handlers are async functions that return nothing.
) => void | undefined | ThreadResult<R> | Promise<void | undefined | ThreadResult<R>>;

/** Data of a thread at its start. */
export interface HandlerThreadData {
  /** URL of the module. */
  readonly handler: string;
}

/** Message to a thread. */
export type ThreadRequest =
  | { readonly kind: 'run'; readonly task: SentTask }
  | { readonly kind: 'abort'; readonly reason: SentError }
  /** The answer to a call. */
  | { readonly kind: 'called'; readonly id: number; readonly error: SentError | undefined };

/** Message from a thread. */
export type ThreadReport =
  | { readonly kind: 'returned'; readonly returned: unknown }
  /** `isLoaded`: the module was loaded, so the handler has failed. */
  | { readonly kind: 'failed'; readonly error: SentError; readonly isLoaded: boolean }
  | {
      readonly kind: 'call';
      readonly id: number;
      readonly name: 'reportProgress' | 'checkpoint';
      readonly value: string | Uint8Array;
    };

/** How long a handler may go on after its signal was aborted, in ms. Then its thread is ended. */
const KILL_AFTER_MS = 5_000;

/**
 * Runs the handlers of a worker in threads of their own.
 *  T1  A thread runs one task at a time. If it dies, this task alone fails.
 *  T2  A thread is started when a task finds none that is free. So there are as many as handlers ran at once.
 *  T3  Free threads do not keep the process alive, busy ones do.
 */
export class HandlerThreads {
  readonly #url: URL;
  readonly #resourceLimits: ResourceLimits | undefined;
  readonly #timing: Timing;
  readonly #free: Thread[] = [];
  readonly #all = new Set<Thread>();

  constructor(url: URL, resourceLimits: ResourceLimits | undefined, timing: Timing) {
    this.#url = url;
    this.#resourceLimits = resourceLimits;
    this.#timing = timing;
  }

  /** The handler of the worker. */
  async handle(task: LeasedTask<unknown>): Promise<HandlerResult | undefined> {
    const sent = sendTask(task);
    const thread = this.#free.pop() ?? this.#start();
    thread.ref();
    let isUsable = false;
    try {
      const report = await this.#runIn(thread, task, sent);
      isUsable = report.kind === 'returned' || report.isLoaded;
      if (report.kind === 'failed') throw received(report.error);
      return resultOf(report.returned);
    } finally {
      thread.unref();
      if (isUsable && this.#all.has(thread)) this.#free.push(thread);
      else void this.#end(thread);
    }
  }

  /** Ends all threads, also those whose handlers run. Later tasks start new ones. */
  async close(): Promise<void> {
    this.#free.length = 0;
    await Promise.all([...this.#all].map((thread) => this.#end(thread)));
  }

  #start(): Thread {
    const data: HandlerThreadData = { handler: this.#url.href };
    const thread = new Thread(fileBeside(import.meta.url, 'handler-thread'), {
      workerData: data,
      name: 'taskmaster-handler',
      ...(this.#resourceLimits === undefined ? {} : { resourceLimits: this.#resourceLimits }),
    });
    this.#all.add(thread);
    // A free thread has no other listeners, and an error that nobody hears would end the process.
    thread.on('error', () => this.#forget(thread));
    thread.on('exit', () => this.#forget(thread));
    return thread;
  }

  #forget(thread: Thread): void {
    this.#all.delete(thread);
    const at = this.#free.indexOf(thread);
    if (at >= 0) this.#free.splice(at, 1);
  }

  async #end(thread: Thread): Promise<void> {
    this.#forget(thread);
    await thread.terminate();
  }

  /** How the handler has ended. Rejects if its thread has died, or was ended because the handler went on after an abort. */
  async #runIn(
    thread: Thread,
    task: LeasedTask<unknown>,
    sent: SentTask,
  ): Promise<Exclude<ThreadReport, { kind: 'call' }>> {
    const ended = Promise.withResolvers<Exclude<ThreadReport, { kind: 'call' }>>();
    const { signal } = task;
    let cancelKill = (): void => {};
    const onMessage = (report: ThreadReport): void => {
      if (report.kind === 'call') void answer(thread, task, report);
      else ended.resolve(report);
    };
    const onError = (error: unknown): void => ended.reject(died(error));
    const onExit = (code: number): void => ended.reject(died(undefined, code));
    const onAbort = (): void => {
      thread.postMessage({ kind: 'abort', reason: sendError(signal.reason) } satisfies ThreadRequest);
      cancelKill = this.#timing.after(KILL_AFTER_MS, () => {
        ended.reject(signal.reason);
        void this.#end(thread);
      });
    };
    thread.on('message', onMessage).on('error', onError).on('exit', onExit);
    try {
      thread.postMessage({ kind: 'run', task: sent } satisfies ThreadRequest);
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
      return await ended.promise;
    } finally {
      cancelKill();
      signal.removeEventListener('abort', onAbort);
      thread.off('message', onMessage).off('error', onError).off('exit', onExit);
    }
  }
}

function sendTask(task: LeasedTask<unknown>): SentTask {
  const { queue, id, pid, key, kind, limitKey, orderKey, data, headers, attempt, maxAttempts } = task;
  const { previousProgress, previousCheckpoint, leaseToken } = task;
  // The PID and the checkpoint are views: what is sent must not be the whole message.
  const bytes = {
    pid: Uint8Array.from(pid),
    previousCheckpoint: previousCheckpoint && Uint8Array.from(previousCheckpoint),
  };
  const names = { queue, id, key, kind, limitKey, orderKey, data, headers };
  return { ...names, ...bytes, attempt, maxAttempts, previousProgress, leaseToken };
}

async function answer(
  thread: Thread,
  task: LeasedTask<unknown>,
  { id, name, value }: Extract<ThreadReport, { kind: 'call' }>,
): Promise<void> {
  let error: SentError | undefined;
  try {
    if (name === 'reportProgress') await task.reportProgress(value as string);
    else await task.checkpoint(value as Uint8Array);
  } catch (thrown) {
    error = sendError(thrown);
  }
  thread.postMessage({ kind: 'called', id, error } satisfies ThreadRequest);
}

const received = (sent: SentError): Error =>
  receiveError(sent, (message) =>
    sent.name === 'UnrecoverableError' ? new UnrecoverableError(message) : new Error(message),
  );

function died(cause: unknown, code?: number): Error {
  const why = cause === undefined ? `with code ${code}` : sendError(cause).message;
  return new Error(`the thread of the handler has ended: ${why}`, cause === undefined ? {} : { cause });
}

const enqueueNames: OptionNames<ThreadEnqueue> = { ...taskNames, queue: true, data: true };

/** What the handler returns, with its plain tasks as tasks to enqueue. @throws TypeError */
function resultOf(returned: unknown): HandlerResult | undefined {
  if (typeof returned !== 'object' || returned === null || !('enqueue' in returned)) {
    return returned as HandlerResult | undefined;
  }
  const { enqueue } = returned;
  if (!Array.isArray(enqueue)) return returned as HandlerResult;
  const tasks = (enqueue as readonly ThreadEnqueue[]).map((one) => {
    assertKnown('enqueue', one, enqueueNames);
    const { queue, data, ...options } = one;
    return newTask(queueRef(queue), data, options);
  });
  return { ...returned, enqueue: tasks };
}
