import { createHash } from 'node:crypto';
import { limits, parseQueueName } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { failurePolicy, type ParentTask, type SignalWait } from '../tasks/links.ts';
import { NewTask, newTask, type QueueRef, queueRef, type TaskOptions, taskNames } from '../tasks/new-task.ts';
import { type EnqueueOutcome, Update } from '../tasks/update.ts';
import { type TaskEnd, type WaitForOptions, waitForEnd } from '../tasks/wait-for.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import type { Duration } from '../values/duration.ts';
import { InvalidRequestError } from '../values/errors.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { UpdateOptions } from '../values/options.ts';
import { type PidLike, pidFromText, pidText } from '../values/pid.ts';
import { stepData, stepQueue } from './flow-step.ts';

/** How a task of a flow is enqueued. */
export interface FlowTaskOptions extends Omit<TaskOptions, 'waitsFor' | 'parent' | 'mode'> {
  /** Names of the tasks of the flow that must end before it begins. Default: none. */
  readonly after?: string | readonly string[] | undefined;
  /** Signals from elsewhere for which it waits, beside the tasks of `after`. Default 0. */
  readonly signals?: number | undefined;
  /** How long it waits for them. Default: for as long as it takes. */
  readonly timeout?: Duration | undefined;
  /** As in `SignalWait`. */
  readonly onTimeout?: SignalWait['onTimeout'];
  /** Whether it gets the results of the tasks of `after`, with `task.signals()`. Default false. */
  readonly collect?: boolean | undefined;
  /** What happens to the tasks that wait for it if it is not completed, as in `ParentTask`. Default `fail`. */
  readonly onFailure?: ParentTask['onFailure'];
}

/** The tasks of a flow that was enqueued. It is plain data, so that another process can wait for the flow. */
export interface FlowHandle {
  readonly tasks: readonly FlowTask[];
}

export interface FlowTask {
  /** Its name in the flow. */
  readonly name: string;
  /** `group#name`. */
  readonly queue: string;
  /** The text form of its PID. */
  readonly pid: string;
  readonly result: EnqueueOutcome['result'];
  /** Whether no other task of the flow waits for it. The flow has ended when all of these have. */
  readonly isLast: boolean;
}

/** How the last tasks of a flow have ended, by their names. */
export type FlowEnds<R = unknown> = ReadonlyMap<string, TaskEnd<R>>;

const { waitsFor: _waitsFor, parent: _parent, mode: _mode, ...plainNames } = taskNames;
const flowNames: OptionNames<FlowTaskOptions> = {
  ...plainNames,
  after: true,
  signals: true,
  timeout: true,
  onTimeout: true,
  collect: true,
  onFailure: true,
};

interface Added {
  readonly name: string;
  readonly queue: QueueRef;
  readonly data: unknown;
  readonly options: FlowTaskOptions;
  /** The tasks before it. */
  readonly after: readonly string[];
  /** Set: it is a step into another group, which sends this. */
  readonly send?: readonly NewTask[];
}

/**
 * Tasks that wait for each other: a tree or a graph, in queues of one group. They are enqueued in one update, all or none.
 *
 *     const flow = await client.flow()
 *       .add('cut', cuts, { video: 7 })
 *       .add('sound', sounds, { video: 7 })
 *       .add('publish', films, { video: 7 }, { after: ['cut', 'sound'], collect: true })
 *       .commit();
 *     const ends = await client.waitForFlow(flow);
 */
export class Flow {
  readonly #context: ClientContext;
  readonly #tasks = new Map<string, Added>();
  /** Sorts as the PIDs of the node do. */
  readonly #id: string;
  #committed = false;

  /** Internal: use `client.flow()`. */
  constructor(context: ClientContext) {
    this.#context = context;
    this.#id = newId(context);
  }

  /**
   * Adds a task under a name that is unique in the flow. `after` may name tasks that are added later.
   * @throws TypeError if the name is taken or an option is wrong.
   */
  add<T, In>(name: string, queue: QueueRef<T, In>, data: NoInfer<In>, options?: FlowTaskOptions): this;
  add(name: string, queue: string, data: unknown, options?: FlowTaskOptions): this;
  add(name: string, queue: string | QueueRef, data: unknown, options: FlowTaskOptions = {}): this {
    assertKnown('flow', options, flowNames);
    if (this.#tasks.has(name)) throw new TypeError(`flow: two tasks have the name '${name}'`);
    const { signals = 0, onFailure } = options;
    if (!Number.isInteger(signals) || signals < 0)
      throw new TypeError(`flow: '${name}': signals: ${String(signals)} is not a whole number from 0`);
    if (onFailure !== undefined) failurePolicy(onFailure, `flow: '${name}': onFailure`);
    const after = [...new Set([options.after ?? []].flat())];
    this.#tasks.set(name, { name, queue: queueRef(queue), data, options, after });
    return this;
  }

  /**
   * Adds a step into another group: a task of `queue` that sends tasks (`queue.task`) and signals (`queue.signalFor`) of one
   * other group when the tasks of `after` have ended. A worker with `client.stepHandler()` sends them, in one update, and
   * completes it:
   *
   *     const steps = client.queue('film#steps', { codec: bytesCodec });
   *     flow.step('ship', steps, [boxes.task({ video: 7 })], { after: 'film' });
   *     client.worker(steps, client.stepHandler());
   *
   * The update has a request id that is a part of the step. So a run after a crash, or after a lost lease, does nothing if an
   * earlier one has sent it. What this loses: sending and completing are two updates in two groups, so there is a moment in which
   * the other group has the tasks and the step is not completed. If the worker is down for longer than the window of request ids
   * just then, the next run enqueues again what has left its queue meanwhile; signals still count once. And what is sent does not
   * tell the flow how it ends: to wait for it, give a task of the flow `signals`, and signal it from the other group.
   * @throws TypeError as `add`, and `commit` if nothing is sent; `commit` rejects with InvalidRequestError (MIXED_GROUPS) if the
   * tasks and signals are of several groups.
   */
  step(name: string, queue: string | QueueRef, send: readonly NewTask[], options: FlowTaskOptions = {}): this {
    this.add(name, stepQueue(queueRef(queue).name), new Uint8Array(0), options);
    const added = this.#tasks.get(name);
    if (added !== undefined) this.#tasks.set(name, { ...added, send });
    return this;
  }

  /**
   * Enqueues the tasks. Resolves when they are on disk. With the same PIDs and keys it can be repeated: a task that is in its
   * queue already stays.
   * @throws TypeError if a task waits for one that is not in the flow, tasks wait for each other in a circle, more than 100 wait
   * for one, or the flow is empty or committed already; InvalidRequestError (MIXED_GROUPS) if the queues are not of one group;
   * TaskExistsError if a task that others wait for is in its queue, but not of this flow; otherwise as `Update.commit`.
   */
  async commit(options: UpdateOptions = {}): Promise<FlowHandle> {
    if (this.#committed) throw new TypeError('the flow is already committed');
    this.#assertSound();
    this.#committed = true;
    const waiting = this.#parentsByTask();
    const names = new Map([...this.#tasks.values()].map((task) => [task.name, this.#nameOf(task)]));
    // Tasks that wait come first: a task before them may be kept out, and then counts at once.
    const [later, first] = [true, false].map((waits) =>
      [...this.#tasks.values()].filter(({ after, options: { signals = 0 } }) => after.length + signals > 0 === waits),
    );
    const ordered = [...(later ?? []), ...(first ?? [])];
    const update = new Update(this.#context);
    for (const task of ordered) {
      const parent = (waiting.get(task.name) ?? []).map(
        ({ name, queue }): ParentTask => ({
          queue,
          task: names.get(name) ?? name,
          onFailure: task.options.onFailure,
        }),
      );
      const identity = task.options.key === undefined ? { pid: names.get(task.name) as PidLike | undefined } : {};
      const data = task.send === undefined ? task.data : await stepData(task.send, `${this.#id}-${hashOf(task.name)}`);
      const prepare: NewTask['prepare'] = () =>
        newTask(task.queue, data, { ...plainOptions(task), ...identity, parent }).prepare();
      update.enqueue(new NewTask(task.queue.name, () => inTask(task.name, prepare)));
    }
    const { enqueued } = await update.commit(options);
    return {
      tasks: ordered.map(({ name, queue }, at) => {
        const outcome = enqueued[at];
        if (outcome === undefined) throw brokenReply('left out the outcome of an enqueue');
        const isLast = !waiting.has(name);
        return { name, queue: queue.name, pid: pidText(outcome.pid), result: outcome.result, isLast };
      }),
    };
  }

  /**
   * What names a task for those before it. Without a PID and a key one that waits gets a PID that sorts as those of the node
   * do.
   */
  #nameOf({ options: { pid, key }, after }: Added): ParentTask['task'] | undefined {
    if (key !== undefined) return { key };
    if (pid !== undefined || after.length === 0) return pid;
    return newId(this.#context);
  }

  /** By the name of a task: those that wait for it. */
  #parentsByTask(): ReadonlyMap<string, readonly Added[]> {
    const parents = new Map<string, Added[]>();
    for (const task of this.#tasks.values()) {
      for (const name of task.after) {
        const known = parents.get(name);
        if (known === undefined) parents.set(name, [task]);
        else known.push(task);
      }
    }
    return parents;
  }

  #assertSound(): void {
    const tasks = [...this.#tasks.values()];
    if (tasks.length === 0) throw new TypeError('the flow has no tasks');
    for (const { name, after } of tasks) {
      for (const earlier of after) {
        if (!this.#tasks.has(earlier))
          throw new TypeError(`flow: '${name}' waits for '${earlier}', which is not in it`);
      }
    }
    for (const [name, { length }] of this.#parentsByTask()) {
      if (length <= limits.parents) continue;
      throw new TypeError(
        `flow: ${length} tasks wait for '${name}': at most ${limits.parents}. Let its handler return them in 'enqueue'`,
      );
    }
    const circle = this.#circle();
    if (circle !== undefined) throw new TypeError(`flow: tasks wait for each other: ${circle.join(' after ')}`);
    const [first, ...rest] = tasks.map(({ queue }) => parseQueueName(queue.name).group);
    const other = rest.find((group) => group !== first);
    if (other === undefined) return;
    throw new InvalidRequestError(
      `all queues of a flow must be of one group; this one has queues of '${first}' and of '${other}'. Flow.step sends tasks and signals to another group`,
      { reason: 'MIXED_GROUPS', metadata: { groups: `${first},${other}` } },
    );
  }

  /** Names of tasks of which each waits for the next one, and the last one is the first one. Undefined: there is no circle. */
  #circle(): readonly string[] | undefined {
    const done = new Set<string>();
    for (const start of this.#tasks.keys()) {
      // A stack of its own: a chain may have 10,000 tasks.
      const path: { readonly name: string; next: number }[] = [{ name: start, next: 0 }];
      const onPath = new Set([start]);
      for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
        const earlier = this.#tasks.get(top.name)?.after[top.next++];
        if (earlier === undefined) {
          done.add(top.name);
          onPath.delete(top.name);
          path.pop();
        } else if (onPath.has(earlier)) {
          const names = path.map(({ name }) => name);
          return [...names.slice(names.indexOf(earlier)), earlier];
        } else if (!done.has(earlier)) {
          path.push({ name: earlier, next: 0 });
          onPath.add(earlier);
        }
      }
    }
    return undefined;
  }
}

function newId({ random }: ClientContext): string {
  const micros = BigInt(Date.now()) * 1000n;
  const digits = Math.floor(random() * 2 ** 48).toString(16);
  return `${micros.toString(16).padStart(16, '0')}-${digits.padStart(12, '0')}`;
}

/** Names of tasks are of any length. */
const hashOf = (name: string): string => createHash('sha256').update(name).digest('hex').slice(0, 16);

/** Names the task in an error about its options. */
function inTask<T>(name: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new TypeError(`flow: '${name}': ${error.message}`, { cause: error });
  }
}

function plainOptions({ after, options }: Added): TaskOptions {
  const { after: _after, signals: extra = 0, timeout, onTimeout, collect, onFailure: _onFailure, ...plain } = options;
  const signals = after.length + extra;
  if (signals === 0) {
    if (timeout !== undefined || onTimeout !== undefined || collect !== undefined) {
      throw new TypeError('timeout, onTimeout and collect go with after or signals');
    }
    return plain;
  }
  if (signals > limits.signals) throw new TypeError(`it waits for ${signals} others: at most ${limits.signals}`);
  return { ...plain, waitsFor: { signals, timeout, onTimeout, collect } };
}

/** See `TaskMasterClient.waitForFlow`. */
export async function waitForFlow<R>(
  context: ClientContext,
  { tasks }: FlowHandle,
  options: WaitForOptions<R>,
): Promise<FlowEnds<R>> {
  const last = tasks.filter(({ isLast }) => isLast);
  const ends = await Promise.all(
    last.map(
      async ({ name, queue, pid }): Promise<[string, TaskEnd<R>]> => [
        name,
        await waitForEnd(context, queue, pidFromText(pid), options),
      ],
    ),
  );
  return new Map(ends);
}
