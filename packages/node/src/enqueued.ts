import { AssertionError } from 'node:assert';
import { inspect, isDeepStrictEqual } from 'node:util';
import { comparePids, type Queue, type TaskInfo } from '@taskmaster/client';
import { assertKnown } from '@taskmaster/client/internal';

/** A queue, as far as it is looked at. */
type Shown<T> = Pick<Queue<T, never>, 'name' | 'peek'>;

/** What a task must be like besides its data: some fields of a `TaskInfo`. */
export type AboutTask = Partial<Omit<TaskInfo<unknown>, 'data' | 'bytes'>>;

/** Most tasks of each state. */
const LIMIT = 1_000;

/**
 * The tasks of a queue that wait, in the order of their PIDs: available, delayed, and those that wait for signals. At most 1,000
 * of each. Tasks that a worker has leased are not among them.
 */
export async function enqueued<T>(queue: Shown<T>): Promise<TaskInfo<T>[]> {
  if (typeof queue?.peek !== 'function') throw new TypeError('enqueued: must be a queue of a client');
  const kinds = ['head', 'delayed', 'waiting'] as const;
  const found = await Promise.all(kinds.map((kind) => queue.peek({ kind, limit: LIMIT })));
  return found.flat().toSorted((a, b) => comparePids(a.pid, b.pid));
}

/**
 * Asserts that a task with this data waits in the queue, for `node:test` and others without matchers.
 * @param about further fields of the task, for example `{ key: 'order-17' }`.
 * @throws AssertionError that shows what is there.
 */
export async function assertEnqueued<T>(queue: Shown<T>, data: NoInfer<T>, about: AboutTask = {}): Promise<void> {
  const tasks = await enqueued(queue);
  assertFields(about, tasks);
  if (tasks.some((task) => isLike(task, data, about, isDeepStrictEqual))) return;
  throw new AssertionError({
    message: `${queue.name} has no such task${aboutText(about)}`,
    actual: tasks.map((task) => task.data),
    expected: [data],
    operator: 'assertEnqueued',
    stackStartFn: assertEnqueued,
  });
}

/** What vitest and jest give their matchers. */
interface MatcherContext {
  readonly isNot?: boolean;
  equals(a: unknown, b: unknown): boolean;
}

/**
 * Matchers for `expect.extend(enqueuedMatchers)` of vitest and jest. `await expect(queue).toHaveEnqueued(data, about)`: a task
 * with this data waits in the queue, and `about` are further fields of it. Without data: any task, and with `undefined` one that
 * has the fields. Data may have asymmetric matchers, such as `expect.any(Number)`.
 */
export const enqueuedMatchers = {
  async toHaveEnqueued(
    this: MatcherContext,
    queue: Shown<unknown>,
    ...given: [data?: unknown, about?: AboutTask]
  ): Promise<{ readonly pass: boolean; readonly message: () => string }> {
    const [data, about = {}] = given;
    // A value that is undefined by mistake is not any data.
    const isAny = given.length === 0 || (data === undefined && given[1] !== undefined);
    const tasks = await enqueued(queue);
    assertFields(about, tasks);
    const equals = (a: unknown, b: unknown): boolean => this.equals(a, b);
    const pass = tasks.some((task) => isLike(task, isAny ? task.data : data, about, equals));
    const wanted = isAny ? 'a task' : `a task with ${inspect(data)}`;
    const message = (): string =>
      `expected ${queue.name} ${this.isNot ? 'not ' : ''}to have ${wanted}${aboutText(about)}; it has ` +
      `${tasks.length === 0 ? 'none' : inspect(tasks.map((task) => task.data))}`;
    return { pass, message };
  },
};

/** A field that no task has matches none, so `not` would pass whatever is there. @throws TypeError for such a field. */
function assertFields(about: AboutTask, [task]: readonly TaskInfo<unknown>[]): void {
  if (task === undefined) return;
  assertKnown('about', about, Object.fromEntries(Object.keys(task).map((name) => [name, true])));
}

function isLike(
  task: TaskInfo<unknown>,
  data: unknown,
  about: AboutTask,
  equals: (a: unknown, b: unknown) => boolean,
): boolean {
  const fields = Object.entries(about).every(([name, value]) => equals(task[name as keyof AboutTask], value));
  return fields && equals(task.data, data);
}

const aboutText = (about: AboutTask): string => (Object.keys(about).length === 0 ? '' : ` and ${inspect(about)}`);
