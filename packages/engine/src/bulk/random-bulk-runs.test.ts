import { BulkAction, BulkRunState, BulkTasks, parseQueueName } from '@taskmaster/proto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bulkRunOf, cancelBulk, startBulk } from '../testing/bulk-runs.ts';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

const QUEUE = 'shop#mail';
const TARGET = 'shop#later';
const HOUR = 3_600_000;
/** Longer than a run takes, with crashes. */
const A_WHILE_MS = 20_000;
const NUMBERS = 12;

type Where = 'available' | 'leased' | 'delayed';

const { BULK_ACTION_MOVE, BULK_ACTION_DELETE, BULK_ACTION_CANCEL } = BulkAction;
const { BULK_ACTION_RESCHEDULE, BULK_ACTION_PROMOTE } = BulkAction;
const { BULK_TASKS_UNSPECIFIED, BULK_TASKS_AVAILABLE, BULK_TASKS_DELAYED, BULK_TASKS_LEASED } = BulkTasks;
const { BULK_RUN_STATE_DONE, BULK_RUN_STATE_CANCELLED } = BulkRunState;

const place = fc.constantFrom<Where>('available', 'available', 'leased', 'delayed');
const run = fc.record({
  action: fc.constantFrom(
    BULK_ACTION_MOVE,
    BULK_ACTION_DELETE,
    BULK_ACTION_CANCEL,
    BULK_ACTION_RESCHEDULE,
    BULK_ACTION_PROMOTE,
  ),
  tasks: fc.constantFrom(BULK_TASKS_UNSPECIFIED, BULK_TASKS_AVAILABLE, BULK_TASKS_DELAYED, BULK_TASKS_LEASED),
  rate: fc.constantFrom(0, 5, 40),
  maxTasks: fc.constantFrom(0, 0, 3),
  crashesAfterMs: fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 3 }),
  isCancelled: fc.constantFrom(false, false, true),
});
const history = fc.record({
  tasks: fc.uniqueArray(fc.record({ at: fc.nat({ max: NUMBERS - 1 }), where: place }), {
    selector: ({ at }) => at,
    maxLength: NUMBERS,
  }),
  taken: fc.uniqueArray(fc.nat({ max: NUMBERS - 1 }), { maxLength: 3 }),
  runs: fc.array(run, { minLength: 1, maxLength: 3 }),
});
type Run = typeof run extends fc.Arbitrary<infer R> ? R : never;

const pidOf = (at: number): string => `t${String(at).padStart(2, '0')}`;

/** The tasks of both queues by the contract. */
class Model {
  readonly queue = new Map<string, Where>();
  readonly target = new Map<string, Where>();

  /** The tasks that a run may change, in the order in which it looks at them, and how many of all it leaves alone, and why. */
  plan({ action, tasks }: Run): { readonly changes: string[]; readonly skipped: Map<string, number> } {
    const changes: string[] = [];
    const skipped = new Map<string, number>();
    const skip = (reason: string): void => void skipped.set(reason, (skipped.get(reason) ?? 0) + 1);
    for (const [pid, where] of [...this.queue].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (tasks === BULK_TASKS_AVAILABLE && where !== 'available') continue;
      if (tasks === BULK_TASKS_DELAYED && where !== 'delayed') continue;
      if (tasks === BULK_TASKS_LEASED && where !== 'leased') continue;
      if (action === BULK_ACTION_PROMOTE && where !== 'delayed') continue;
      if (where === 'leased' && action !== BULK_ACTION_CANCEL) skip('TASK_LEASED');
      else if (action === BULK_ACTION_MOVE && this.target.has(pid)) skip('TASK_EXISTS');
      else changes.push(pid);
    }
    return { changes, skipped };
  }

  change({ action }: Run, pid: string): void {
    const where = this.queue.get(pid) ?? 'available';
    if (action === BULK_ACTION_RESCHEDULE) this.queue.set(pid, 'delayed');
    else if (action === BULK_ACTION_PROMOTE) this.queue.set(pid, 'available');
    // The worker of a leased task may complete it yet.
    else if (action !== BULK_ACTION_CANCEL || where !== 'leased') this.queue.delete(pid);
    if (action === BULK_ACTION_MOVE) this.target.set(pid, where);
  }
}

async function tasksOf(h: EngineHarness, name: string): Promise<Map<string, Where>> {
  const found = new Map<string, Where>();
  for (const [kind, where] of [
    ['head', 'available'],
    ['leased', 'leased'],
    ['delayed', 'delayed'],
  ] as const) {
    const peek = { queue: parseQueueName(name), kind, limit: 1000, includeData: false };
    for (const { pid } of await h.clock.run(h.engine.peekTasks(peek))) found.set(pid, where);
  }
  return found;
}

const inOrder = (tasks: ReadonlyMap<string, Where>): [string, Where][] =>
  [...tasks].sort(([a], [b]) => (a < b ? -1 : 1));

async function add(h: EngineHarness, model: Model, pid: string, where: Where): Promise<void> {
  if (model.queue.has(pid)) return;
  await h.clock.run(h.update({ enqueue: [{ queue: QUEUE, pid, delay: where === 'delayed' ? HOUR : 0 }] }));
  if (where === 'leased') {
    const all = await h.clock.run(h.lease(QUEUE, { max: 99, for: HOUR }));
    const others = all
      .filter((task) => task.pid !== pid)
      .map((task) => ({ queue: QUEUE, pid: task.pid, token: task.token }));
    if (others.length > 0) await h.clock.run(h.update({ release: others.map((one) => ({ ...one, refund: true })) }));
  }
  model.queue.set(pid, where);
}

async function play(h: EngineHarness, model: Model, one: Run, id: string): Promise<void> {
  const { changes, skipped } = model.plan(one);
  const { action, tasks, rate, maxTasks } = one;
  const spec = {
    action,
    rate,
    maxTasks,
    target: action === BULK_ACTION_MOVE ? TARGET : '',
    delayMs: action === BULK_ACTION_RESCHEDULE ? HOUR : 0,
    filter: { tasks },
  };
  await h.clock.run(startBulk(h.engine, QUEUE, spec, id));
  // Comes after the run has begun, so the run leaves it alone.
  await h.clock.advance(1);
  await add(h, model, `${id} later`, 'available');
  for (const ms of one.crashesAfterMs) {
    await h.clock.advance(ms);
    await h.crash();
  }
  if (one.isCancelled) await h.clock.run(cancelBulk(h.engine, 'shop', id));
  await h.clock.advance(A_WHILE_MS);
  const ended = await h.clock.run(bulkRunOf(h.engine, 'shop', id));
  const { changed = -1, state } = ended ?? {};
  const most = maxTasks === 0 ? changes.length : Math.min(maxTasks, changes.length);
  if (state === BULK_RUN_STATE_DONE) {
    expect(changed).toBe(most);
    if (maxTasks === 0) {
      const counts = new Map(ended?.skipped.map(({ reason, tasks: count }) => [reason, count]));
      expect(counts).toEqual(skipped);
    }
  } else {
    expect([state, one.isCancelled]).toEqual([BULK_RUN_STATE_CANCELLED, true]);
    expect(changed).toBeLessThanOrEqual(most);
  }
  // What it says that it has changed, in its order, and nothing else.
  for (const pid of changes.slice(0, changed)) model.change(one, pid);
}

test('bulk runs change what they say, once, whatever crashes and whoever cancels them', async () => {
  const property = fc.asyncProperty(history, async ({ tasks, taken, runs }) => {
    await using h = await engineHarness({ syncMs: 1 });
    const model = new Model();
    for (const { at, where } of tasks) await add(h, model, pidOf(at), where);
    for (const at of taken) {
      await h.clock.run(h.enqueue(TARGET, [pidOf(at)]));
      model.target.set(pidOf(at), 'available');
    }
    for (const [at, one] of runs.entries()) {
      await play(h, model, one, `run ${at}`);
      expect(inOrder(await tasksOf(h, QUEUE))).toEqual(inOrder(model.queue));
      expect(inOrder(await tasksOf(h, TARGET))).toEqual(inOrder(model.target));
    }
  });
  await fc.assert(property, {
    seed: Number(process.env.BULK_SEED ?? 1),
    numRuns: Number(process.env.BULK_RUNS ?? 40),
  });
});
