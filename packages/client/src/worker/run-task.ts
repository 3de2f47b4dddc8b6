import { types } from 'node:util';
import { status } from '@grpc/grpc-js';
import { LEASE, type Lease, type Leased } from '../leases/lease.ts';
import type { ClientContext } from '../tasks/context.ts';
import { giveBack } from '../tasks/lease-tasks.ts';
import { type LeasedTask, WATCH } from '../tasks/leased-task.ts';
import { NewTask } from '../tasks/new-task.ts';
import { durationMs } from '../values/duration.ts';
import { isTaskMasterError } from '../values/errors.ts';
import { callHook } from '../values/hooks.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { isInstance, textOf } from '../values/thrown.ts';
import type {
  AnyHandler,
  BatchCall,
  BatchHandler,
  Handler,
  HandlerResult,
  TaskRun,
  WorkerSettings,
} from './worker-options.ts';
import { UnrecoverableError } from './worker-options.ts';

/** Calls in the asynchronous context of a handler. */
export type Within = <A extends unknown[]>(work: (...args: A) => void, ...args: A) => void;

export interface WorkParts<T> {
  readonly context: ClientContext;
  /** Of batches, if the settings have `batch`. */
  readonly handler: AnyHandler<T>;
  readonly settings: WorkerSettings<T>;
  /** The contexts of the handlers of tasks. Undefined: no hook wants to know. */
  readonly contexts: WeakMap<object, Within> | undefined;
}

export interface RunTaskParts<T> extends WorkParts<T> {
  /** Aborted when the time of a stop is over. Later failures do not count as attempts. */
  readonly giveUp: AbortSignal;
  /** Called when the lease of a running handler has ended because it is renewed no more. */
  readonly onTooLong: (task: LeasedTask<T>) => void;
  /** Called in the turn in which the handler has ended, with an outcome for each task, before one is completed or released. */
  readonly onHandled: (tasks: readonly LeasedTask<T>[], outcomes: readonly Outcome[]) => void;
}

type TaskHooks<T> = WorkerSettings<T>['hooks'];
type TaskHook = 'onTaskCompleted' | 'onAttemptFailed' | 'onTaskCancelled' | 'onLeaseLost';

/**
 * Calls a hook about a task, in the asynchronous context of its handler. If that has not begun: in the one in which the hook was
 * given.
 */
export function callTaskHook<T, Name extends TaskHook>(
  { contexts, settings }: Pick<WorkParts<T>, 'contexts' | 'settings'>,
  name: Name,
  task: LeasedTask<T>,
  ...args: Parameters<NonNullable<TaskHooks<T>[Name]>>
): void {
  const within = contexts?.get(task);
  const call = callHook as (hooks: object, name: string, ...args: unknown[]) => void;
  if (within === undefined) call(settings.hooks, name, ...args);
  else within(call, settings.givenHooks, name, ...args);
}

/** What the handler says of one task. */
export type Outcome =
  | { readonly kind: 'returned'; readonly returned: HandlerResult | undefined }
  | { readonly kind: 'failed'; readonly error: unknown };

const returned = (value: HandlerResult | undefined): Outcome => ({ kind: 'returned', returned: value });
export const failed = (error: unknown): Outcome => ({ kind: 'failed', error });

/** Calls the handler for these tasks, then `onHandled`. Never rejects: the outcomes have the errors. */
export async function callHandler<T>(
  parts: RunTaskParts<T>,
  tasks: readonly LeasedTask<T>[],
  key: string,
): Promise<void> {
  for (const task of tasks) reportLost(parts, task);
  const watches = tasks.map((task) => task[WATCH]());
  let outcomes: readonly Outcome[];
  try {
    if (parts.settings.batch === undefined) {
      // Read first, so that a payload that cannot be read fails the attempt before the handler starts.
      for (const task of tasks) void task.data;
      // Without `batch` it is a handler of single tasks, and there is one task.
      outcomes = [returned(handlerResult(await (parts.handler as Handler<T>)(tasks[0] as LeasedTask<T>)))];
    } else {
      outcomes = await callForBatch(parts, tasks, key);
    }
  } catch (thrown) {
    outcomes = [failed(thrown)];
  }
  for (const watch of watches) watch[Symbol.dispose]();
  parts.onHandled(tasks, outcomes);
}

/** From now on a hook hears when the lease of the task is lost. */
export function reportLost<T>(parts: RunTaskParts<T>, task: LeasedTask<T>): void {
  const lease = task[LEASE];
  lease.onLost((error) => {
    if (parts.context.timing.now() >= lease.keepUntil) parts.onTooLong(task);
    callTaskHook(parts, 'onLeaseLost', task, task, error);
  });
}

async function callForBatch<T>(
  { handler, settings, giveUp }: RunTaskParts<T>,
  tasks: readonly LeasedTask<T>[],
  key: string,
): Promise<readonly Outcome[]> {
  using signals = new BatchSignal(tasks, giveUp);
  const call: BatchCall = {
    key: settings.batch?.by === undefined ? undefined : key,
    get signal() {
      return signals.signal;
    },
  };
  try {
    return batchOutcomes(tasks, await (handler as BatchHandler<T>)(tasks, call));
  } catch (thrown) {
    // An error of the whole call says nothing of tasks that the handler has settled.
    return tasks.map((task) => (isSettled(task[LEASE]) ? returned(undefined) : failed(thrown)));
  }
}

const isSettled = (lease: Lease): boolean => !lease.isHeld && lease.lostTo === undefined;

/** The outcome of each task. @throws TypeError if what the handler returns cannot be meant. */
function batchOutcomes(tasks: readonly unknown[], list: unknown): readonly Outcome[] {
  if (list === undefined || list === null) return tasks.map(() => returned(undefined));
  if (!Array.isArray(list))
    throw new TypeError('what a batch handler returns, if anything: must be a list of outcomes');
  if (list.length !== tasks.length) {
    throw new TypeError(`a batch handler has returned ${list.length} outcomes for ${tasks.length} tasks`);
  }
  return Array.from(list as unknown[], (one) => {
    if (types.isNativeError(one) || isInstance(one, Error)) return failed(one);
    try {
      return returned(handlerResult(one));
    } catch (mistake) {
      return failed(mistake);
    }
  });
}

/** Makes the signal of a batch when it is first read, because most handlers do not read it. */
class BatchSignal implements Disposable {
  readonly #tasks: readonly Leased[];
  readonly #giveUp: AbortSignal;
  #abort: AbortController | undefined;

  constructor(tasks: readonly Leased[], giveUp: AbortSignal) {
    this.#tasks = tasks;
    this.#giveUp = giveUp;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      for (const signal of this.#watched()) signal.addEventListener('abort', this.#look);
      for (const task of this.#tasks) task[LEASE].onSettled(this.#look);
      this.#look();
    }
    return this.#abort.signal;
  }

  [Symbol.dispose](): void {
    if (this.#abort === undefined) return;
    for (const signal of this.#watched()) signal.removeEventListener('abort', this.#look);
    for (const task of this.#tasks) task[LEASE].onSettled(undefined);
  }

  #watched(): AbortSignal[] {
    return [this.#giveUp, ...this.#tasks.map((task) => task[LEASE].signal)];
  }

  readonly #look = (): void => {
    const left = this.#tasks.map((task) => task[LEASE]).filter((lease) => !isSettled(lease));
    const [first] = left;
    if (this.#giveUp.aborted) this.#abort?.abort(this.#giveUp.reason);
    else if (first !== undefined && left.every(({ signal }) => signal.aborted)) this.#abort?.abort(first.signal.reason);
  };
}

/** Completes or releases a task after its handler has ended. Never rejects: hooks get the errors. */
export async function settleTask<T>(
  parts: RunTaskParts<T>,
  task: LeasedTask<T>,
  outcome: Outcome,
  durationMs: number | undefined,
): Promise<void> {
  const lease = task[LEASE];
  if (outcome.kind === 'failed') {
    const error = failureOf(lease, outcome.error);
    if (lease.cancelled !== undefined) callTaskHook(parts, 'onTaskCancelled', task, task, lease.cancelled);
    // When the time of a stop is over, the attempt does not count. So it has not failed.
    else if (!parts.giveUp.aborted) callTaskHook(parts, 'onAttemptFailed', task, error, task, taskRun(durationMs));
    await failTask(parts, task, error);
    return;
  }
  if (!lease.isHeld) {
    // The handler has settled the task, or the lease is lost and onLeaseLost was called.
    if (lease.lostTo === undefined && outcome.returned !== undefined) {
      const mistake = new TypeError('the handler has completed or released its task, so what it returns has no effect');
      callTaskHook(parts, 'onAttemptFailed', task, mistake, task, taskRun(durationMs));
    }
    return;
  }
  try {
    await task.complete({ ...parts.settings.results, ...outcome.returned });
  } catch (error) {
    if (lease.lostTo !== undefined) return;
    callTaskHook(parts, 'onAttemptFailed', task, error, task, taskRun(durationMs));
    // Tasks that cannot be enqueued are a failure of the handler. After other errors the task is available when its lease ends.
    if (isTaskMasterError(error) && error.code !== status.INVALID_ARGUMENT) lease.letGo();
    else await failTask(parts, task, error);
    return;
  }
  const { onTaskCompleted } = parts.settings.hooks;
  if (onTaskCompleted !== undefined) {
    callTaskHook(parts, 'onTaskCompleted', task, task, { durationMs: durationMs ?? 0 });
  }
}

/** What hooks hear of the run of a handler. Undefined: it has not begun. */
const taskRun = (durationMs: number | undefined): TaskRun | undefined =>
  durationMs === undefined ? undefined : { durationMs };

/** Why an attempt failed whose handler has thrown. What is thrown at the time limit is usually a consequence of it. */
const failureOf = (lease: Lease, thrown: unknown): unknown =>
  isInstance(thrown, UnrecoverableError) ? thrown : (lease.overTime ?? thrown);

const resultNames: OptionNames<HandlerResult> = { result: true, enqueue: true };

/** What the handler returns. @throws TypeError if it cannot be meant: it would be lost without a word. */
function handlerResult(returned: unknown): HandlerResult | undefined {
  if (returned === undefined || returned === null) return undefined;
  if (typeof returned !== 'object')
    throw new TypeError(`a handler returns nothing, or { result, enqueue }, and not ${textOf(returned).slice(0, 100)}`);
  assertKnown('what a handler returns', returned, resultNames);
  const { enqueue } = returned as HandlerResult;
  if (enqueue !== undefined && !(Array.isArray(enqueue) && enqueue.every((task) => task instanceof NewTask))) {
    throw new TypeError('enqueue: must be a list of tasks that queue.task() has made');
  }
  return returned as HandlerResult;
}

/** Releases a task whose attempt failed with this error. */
async function failTask<T>(parts: RunTaskParts<T>, task: LeasedTask<T>, error: unknown): Promise<void> {
  const { context } = parts;
  const lease = task[LEASE];
  if (!lease.isHeld) return;
  if (parts.giveUp.aborted) return giveBack(context, [task], true);
  // At its limit the attempt has failed at the node, too. That the lease is over then is no news for the hooks.
  if (lease.overTime !== undefined) lease.onLost(() => {});
  try {
    // The node removes a cancelled task.
    if (lease.cancelled !== undefined) await task.release();
    else if (isInstance(error, UnrecoverableError)) await task.deadLetter(error);
    else await task.release({ error: error ?? String(error), delay: delayAfter(parts, task, error) });
  } catch (problem) {
    // A lost task cannot be released. After other errors the task is available when its lease ends.
    const isLost = lease.lostTo !== undefined || (lease.overTime !== undefined && isExpiry(problem));
    if (!isLost) callTaskHook(parts, 'onAttemptFailed', task, problem, task, undefined);
    lease.letGo();
  }
}

const isExpiry = (error: unknown): boolean => isTaskMasterError(error) && error.reason === 'LEASE_EXPIRED';

/** The delay of a task whose attempt failed. Undefined: its retry policy decides. */
function delayAfter<T>(parts: RunTaskParts<T>, task: LeasedTask<T>, error: unknown): number | undefined {
  try {
    const given = parts.settings.backoffOf?.(error, task);
    return given === undefined ? undefined : durationMs(given, 'backoff');
  } catch (problem) {
    // The attempt fails as it would without the function.
    callTaskHook(parts, 'onAttemptFailed', task, problem, task, undefined);
    return undefined;
  }
}
