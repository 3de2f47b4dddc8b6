import { EnqueueMode } from '@taskmaster/proto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { UpdateOutcome } from '../domain/commands.ts';
import { Refusal, UpdateRefusal } from '../domain/refusal.ts';
import { type EngineHarness, engineHarness, type UpdateSpec } from '../testing/engine-harness.ts';

const { ENQUEUE_MODE_COLLAPSE, ENQUEUE_MODE_FAIL, ENQUEUE_MODE_REPLACE } = EnqueueMode;

const enqueue = (queue: string, pid?: string, more: object = {}): UpdateSpec => ({
  enqueue: [{ queue, ...(pid !== undefined && { pid }), data: 'hello', ...more }],
});
const dequeue = (queue: string, pid: string, token?: number): UpdateSpec => ({ dequeue: [{ queue, pid, token }] });

type Result = UpdateOutcome | Refusal;

/** A result as text. */
const told = (result: Result): string => {
  if (!(result instanceof Refusal)) return JSON.stringify(result);
  const items = result instanceof UpdateRefusal ? result.items : [];
  return `${result.reason}: ${result.message} ${JSON.stringify(items)}`;
};
const toldAll = (results: readonly Result[]): string[] => results.map(told);
const kinds = (results: readonly Result[]): string[] =>
  results.map((result) => (result instanceof Refusal ? result.reason : 'done'));

describe('the updates of a batch', () => {
  test('see the effects of those before them, and share one atom', async () => {
    await using h = await engineHarness();
    const before = h.engine.figures().atoms;
    const results = await h.batch([
      enqueue('mail', 'a'),
      enqueue('mail', 'a', { mode: ENQUEUE_MODE_FAIL }),
      { ...dequeue('mail', 'a'), ...enqueue('sent', 'a') },
      enqueue('mail', 'a', { mode: ENQUEUE_MODE_FAIL }),
      dequeue('sent', 'a'),
      dequeue('sent', 'a'),
    ]);
    expect(kinds(results)).toEqual(['done', 'TASK_EXISTS', 'done', 'done', 'done', 'TASK_NOT_FOUND']);
    expect(h.engine.figures().atoms - before).toBe(1);
    expect(await h.counts('mail')).toMatchObject({ available: 1 });
    expect(await h.counts('sent')).toMatchObject({ available: 0 });
  });

  test('that are refused leave neither queues nor places in the order behind', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    const results = await h.batch([
      {
        enqueue: [
          { queue: 'new', pid: 'x' },
          { queue: 'mail', pid: 'zzz' },
        ],
        ...dequeue('mail', 'missing'),
      },
      enqueue('mail', 'b'),
      enqueue('mail', 'b', { mode: ENQUEUE_MODE_FAIL }),
      enqueue('other', 'x'),
    ]);
    expect(kinds(results)).toEqual(['TASK_NOT_FOUND', 'done', 'TASK_EXISTS', 'done']);
    expect(h.engine.figures().queues).toBe(2);
    const tasks = await h.lease('mail', { max: 9 });
    expect(tasks.map(({ pid }) => pid)).toEqual(['a', 'b']);
    await h.crash();
    expect(h.engine.figures().queues).toBe(2);
  });

  test('end as they would one after the other', async () => {
    const queues = fc.constantFrom('a', 'b');
    const pids = fc.constantFrom('x', 'y', 'z');
    const item = fc.record({ queue: queues, pid: pids, token: fc.constantFrom(undefined, 1, 2, 3) });
    const modes = fc.constantFrom(ENQUEUE_MODE_COLLAPSE, ENQUEUE_MODE_FAIL, ENQUEUE_MODE_REPLACE);
    const retry = fc.constantFrom(undefined, { maxAttempts: 1, deadLetterQueue: 'b' });
    const added = fc.record({
      queue: queues,
      pid: fc.option(pids, { nil: undefined }),
      mode: modes,
      retry,
      data: fc.string({ maxLength: 5 }),
      delay: fc.constantFrom(0, 1000),
    });
    /** Dequeues, renewals and releases name different tasks. */
    const settled = fc.uniqueArray(item, { maxLength: 3, selector: ({ queue, pid }) => queue + pid });
    const update = fc
      .record({
        items: settled,
        kinds: fc.array(fc.nat(2), { minLength: 3, maxLength: 3 }),
        enqueue: fc.array(added, { maxLength: 3 }),
      })
      .map(({ items, kinds: kindsOf, enqueue: adds }): UpdateSpec => {
        const of = (kind: number) => items.filter((_, index) => kindsOf[index] === kind);
        return {
          enqueue: adds,
          dequeue: of(0),
          renew: of(1).map((one) => ({ ...one, for: 5000 })),
          release: of(2).map((one) => ({ ...one, delay: 1000 })),
        };
      });
    const start = async (first: readonly UpdateSpec[]): Promise<EngineHarness> => {
      const h = await engineHarness({ config: { cacheBytes: 1 } });
      for (const spec of first) await h.clock.run(h.update(spec).catch(() => {}));
      await h.clock.run(h.lease(['a', 'b'], { max: 2 }));
      return h;
    };
    const tasksOf = async (h: EngineHarness) => {
      const shown = [];
      for (const name of ['a', 'b']) {
        for (const kind of ['head', 'leased', 'delayed'] as const) {
          const command = { queue: { group: '', name }, kind, limit: 100, includeData: true };
          const tasks = await h.clock.run(h.engine.peekTasks(command));
          // An empty payload may be undefined.
          shown.push(tasks.map((task) => ({ ...task, data: Buffer.from(task.data ?? []) })));
        }
      }
      return shown;
    };
    const specs = fc.array(update, { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(specs, specs, async (first, then) => {
        await using together = await start(first);
        await using apart = await start(first);
        const results = await together.clock.run(together.batch(then));
        const single: Result[] = [];
        for (const spec of then) single.push(...(await apart.clock.run(apart.batch([spec]))));
        expect(toldAll(results)).toEqual(toldAll(single));
        expect(await tasksOf(together)).toEqual(await tasksOf(apart));
        await together.crash();
        expect(await tasksOf(together)).toEqual(await tasksOf(apart));
      }),
      { numRuns: 60 },
    );
  });
});

describe('a repeated batch', () => {
  const specs = [enqueue('mail', 'a'), enqueue('mail', 'there', { mode: ENQUEUE_MODE_FAIL }), enqueue('mail')];

  test.each([
    ['that memory remembers', {}],
    ['that memory has forgotten', { requestIdCacheBytes: 1 }],
  ])('%s has the same results, also the refusals, and is not applied again', async (_which, config) => {
    await using h = await engineHarness({ config });
    await h.enqueue('mail', ['there']);
    const first = toldAll(await h.batch(specs, 'once'));
    expect(first[1]).toContain('TASK_EXISTS');
    await h.update(dequeue('mail', 'there'));
    expect(toldAll(await h.batch(specs, 'once'))).toEqual(first);
    await h.crash();
    expect(toldAll(await h.batch(specs, 'once'))).toEqual(first);
    expect(await h.counts('mail')).toMatchObject({ available: 2 });
  });

  test('of refused updates only has the same refusals', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ tasks: 0 }) });
    const all = [enqueue('mail', 'a'), dequeue('mail', 'b')];
    const first = await h.batch(all, 'once');
    expect(kinds(first)).toEqual(['QUOTA_EXCEEDED', 'TASK_NOT_FOUND']);
    await h.crash();
    const again = await h.batch(all, 'once');
    expect(again).toEqual(first);
  });

  test('with other updates is refused', async () => {
    await using h = await engineHarness();
    await h.batch(specs, 'once');
    const reused = { reason: 'REQUEST_ID_REUSED' };
    await expect(h.batch(specs.slice(0, 2), 'once')).rejects.toMatchObject(reused);
    await expect(h.batch(specs.toReversed(), 'once')).rejects.toMatchObject(reused);
    await expect(h.update({ ...enqueue('mail', 'a'), id: 'once' })).rejects.toMatchObject(reused);
  });
});

describe('a batch of completions and new tasks', () => {
  test('completes on a full disk', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    h.disk.space = 'short';
    await h.clock.run(h.enqueue('mail', ['b']).catch(() => {}));
    expect(kinds(await h.clock.run(h.batch([enqueue('mail', 'c'), dequeue('mail', 'a')])))).toEqual([
      'DISK_FULL',
      'done',
    ]);
    await expect(h.batch([enqueue('mail', 'c'), enqueue('mail', 'd')])).rejects.toMatchObject({ reason: 'DISK_FULL' });
  });

  test('completes although there is too much work for new tasks', async () => {
    await using h = await engineHarness({ config: { maxInFlightRequests: 5 }, syncMs: 5 });
    await h.clock.run(h.enqueue('mail', ['a']));
    const others = Promise.all(['1', '2', '3', '4'].map((pid) => h.enqueue('mail', [pid])));
    const batch = h.batch([enqueue('mail', 'c'), dequeue('mail', 'a')]);
    expect(kinds(await h.clock.run(batch))).toEqual(['OVERLOADED', 'done']);
    await h.clock.run(others);
  });

  test('takes what a quota permits', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ tasks: 2 }) });
    const two = { enqueue: ['x', 'y'].map((pid) => ({ queue: 'mail', pid })) };
    const results = await h.batch([
      enqueue('mail', 'a'),
      two,
      enqueue('mail', 'b'),
      enqueue('mail', 'c'),
      { ...dequeue('mail', 'a'), ...enqueue('mail', 'd') },
    ]);
    expect(kinds(results)).toEqual(['done', 'QUOTA_EXCEEDED', 'done', 'QUOTA_EXCEEDED', 'done']);
    expect(await h.counts('mail')).toMatchObject({ available: 2 });
  });
});
