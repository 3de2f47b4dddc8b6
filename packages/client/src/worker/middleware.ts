import { LEASE, type Leased } from '../leases/lease.ts';
import type { HandlerResult } from './worker-options.ts';

/**
 * Runs around the handler of a worker: `worker.use(async (task, next) => …)`. `next()` calls the rest of the middleware, then the
 * handler, and resolves with what the handler returns, or rejects with what it throws. `Given` is the task, or with `batch` the
 * list of tasks.
 *
 * What the handler returns counts, unless the middleware returns something. An error that the middleware catches and does not
 * throw again has not happened: the task is completed. Middleware that does not call `next` must return a result (`{}` completes
 * the task without one), throw, or settle the task itself. Otherwise the attempt fails, so that no task is completed unseen.
 */
export type Middleware<Given> = (
  task: Given,
  next: () => Promise<unknown>,
  // biome-ignore lint/suspicious/noConfusingVoidType: most middleware returns nothing.
) => Promise<HandlerResult | void | undefined>;

/** Any handler, of single tasks or of batches. */
export type AnyCall<Given, Call> = (given: Given, call: Call) => unknown;

/** A handler with middleware around it. */
export function around<Given, Call>(middleware: Middleware<Given>, inner: AnyCall<Given, Call>): AnyCall<Given, Call> {
  return async (given, call) => {
    let running: Promise<unknown> | undefined;
    let hasEnded = false;
    const next = (): Promise<unknown> => {
      if (running !== undefined) throw new TypeError('middleware has called next twice');
      running = (async () => inner(given, call))();
      const ended = (): void => {
        hasEnded = true;
      };
      running.then(ended, ended);
      return running;
    };
    const own: unknown = await middleware(given, next);
    if (running === undefined) {
      if (own === undefined && !isSettled(given)) {
        throw new TypeError('middleware must call next, return a result, throw, or settle the task');
      }
      return own;
    }
    // The handler must not go on when its task has ended. If the middleware has not waited for it, its error is the outcome, too.
    const outcome = hasEnded ? await running.catch(() => undefined) : await running;
    return own ?? outcome;
  };
}

function isSettled(given: unknown): boolean {
  const tasks = (Array.isArray(given) ? given : [given]) as readonly Leased[];
  return tasks.every((task) => !task[LEASE].isHeld);
}
