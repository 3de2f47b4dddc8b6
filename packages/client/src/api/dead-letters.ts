import { limits } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import type { TaskSummary } from '../tasks/task-info.ts';
import { Update } from '../tasks/update.ts';
import { isTaskMasterError, type TaskMasterError } from '../values/errors.ts';
import { callHook } from '../values/hooks.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';
import type { Pid } from '../values/pid.ts';
import type { Queue } from './queue.ts';

/** Which tasks of a dead-letter queue. */
export interface DeadLetterOptions extends CallOptions {
  /** Default: all tasks. */
  readonly where?: ((task: TaskSummary) => boolean) | undefined;
  /** Largest number of tasks. Default: no limit. */
  readonly limit?: number | undefined;
}

export interface SettleDeadLettersOptions extends DeadLetterOptions {
  /** Called after each update with the outcome so far. */
  readonly onProgress?: ((outcome: DeadLettersOutcome) => void) | undefined;
}

export interface DeadLettersOutcome {
  /** Tasks that were put back or dropped. */
  readonly settled: number;
  /** Tasks that stay, because their PID is in the other queue again, or that another call took meanwhile. */
  readonly skipped: number;
}

const listNames: OptionNames<DeadLetterOptions> = { ...callNames, where: true, limit: true };
const settleNames: OptionNames<SettleDeadLettersOptions> = { ...listNames, onProgress: true };

/**
 * The tasks that wait in a dead-letter queue and came there from another queue. `client.deadLetters(queue)` makes one. Tasks that
 * were enqueued there, and tasks that a worker has leased, are left alone.
 */
export class DeadLetters {
  readonly #context: ClientContext;
  readonly #queues: () => Promise<readonly Queue<unknown>[]>;

  /** Internal: use `client.deadLetters()`. */
  constructor(context: ClientContext, queues: () => Promise<readonly Queue<unknown>[]>) {
    this.#context = context;
    this.#queues = queues;
  }

  /** The tasks in order of their PIDs, with their failures and without their data. Those of a sharded queue by shard. */
  async *list({ limit, ...options }: DeadLetterOptions = {}): AsyncGenerator<TaskSummary, void> {
    assertKnown('list', options, listNames);
    let left = limit ?? Number.POSITIVE_INFINITY;
    for (const queue of await this.#queues()) {
      for await (const task of listOf(queue, { ...options, limit: left })) {
        left--;
        yield task;
      }
    }
  }

  /**
   * Puts tasks back into the queues that they came from, as waiting tasks with no attempts, in updates of up to 1,000 tasks. Each
   * update is atomic; the whole call is not.
   */
  retry(options: SettleDeadLettersOptions = {}): Promise<DeadLettersOutcome> {
    return this.#settle(options, (update, queue, pid) => update.requeue(queue, pid));
  }

  /** Removes tasks for ever, in updates of up to 1,000 tasks. */
  drop(options: SettleDeadLettersOptions = {}): Promise<DeadLettersOutcome> {
    return this.#settle(options, (update, queue, pid) => update.dequeue(queue, pid));
  }

  async #settle(
    options: SettleDeadLettersOptions,
    add: (update: Update, queue: string, pid: Pid) => void,
  ): Promise<DeadLettersOutcome> {
    assertKnown('dead letters', options, settleNames);
    const { onProgress: _, where, limit, ...call } = options;
    const outcome = { settled: 0, skipped: 0 };
    let pids: Pid[] = [];
    let queue = '';
    const send = async (): Promise<void> => {
      const { settled, skipped } = await this.#commit(pids, (update, pid) => add(update, queue, pid), call);
      outcome.settled += settled;
      outcome.skipped += skipped;
      pids = [];
      callHook(options, 'onProgress', { ...outcome });
    };
    for await (const task of this.list({ ...call, where, limit })) {
      if (task.queue !== queue && pids.length > 0) await send();
      queue = task.queue;
      pids.push(task.pid);
      if (pids.length === UPDATE_TASKS) await send();
    }
    if (pids.length > 0) await send();
    return outcome;
  }

  /** One update. Without the tasks that the node refuses; in halves if it would move too much payload at once. */
  async #commit(
    pids: readonly Pid[],
    add: (update: Update, pid: Pid) => void,
    call: CallOptions,
  ): Promise<DeadLettersOutcome> {
    if (pids.length === 0) return { settled: 0, skipped: 0 };
    const update = new Update(this.#context);
    for (const pid of pids) add(update, pid);
    try {
      await update.commit(call);
      return { settled: pids.length, skipped: 0 };
    } catch (error) {
      if (!isTaskMasterError(error)) throw error;
      const [first, second] = partsAfter(error, pids);
      const done = await this.#commit(first, add, call);
      const rest = await this.#commit(second, add, call);
      const settled = done.settled + rest.settled;
      return { settled, skipped: pids.length - settled };
    }
  }
}

/** The dead letters of one queue. */
async function* listOf(
  queue: Queue<unknown>,
  { where = () => true, limit = Number.POSITIVE_INFINITY, ...call }: DeadLetterOptions,
): AsyncGenerator<TaskSummary, void> {
  let after: Pid | undefined;
  let left = limit;
  while (left > 0) {
    const page = await queue.peek({ ...call, after, limit: limits.peekTasks, data: false });
    for (const task of page) {
      if (left === 0) return;
      if (task.deadLetterFrom === undefined || !where(task)) continue;
      left--;
      yield task;
    }
    after = page.at(-1)?.pid;
    if (after === undefined) return;
  }
}

/** Tasks in one update. */
const UPDATE_TASKS = 1_000;
/** Reasons for which the node refuses single tasks. */
const OF_TASKS: ReadonlySet<string> = new Set(['TASK_NOT_FOUND', 'TASK_EXISTS', 'NOT_DEAD_LETTERED']);

/** What to try after a refusal: the tasks that were not at fault, or two halves. @throws the error if neither can help. */
function partsAfter(error: TaskMasterError, pids: readonly Pid[]): readonly [readonly Pid[], readonly Pid[]] {
  if (error.items.length > 0 && error.items.every(({ reason }) => OF_TASKS.has(reason))) {
    const atFault = new Set(error.items.map(({ pid }) => Buffer.from(pid).toString('latin1')));
    return [pids.filter((pid) => !atFault.has(Buffer.from(pid).toString('latin1'))), []];
  }
  if (error.reason !== 'REQUEST_TOO_LARGE' || pids.length < 2) throw error;
  const half = Math.ceil(pids.length / 2);
  return [pids.slice(0, half), pids.slice(half)];
}
