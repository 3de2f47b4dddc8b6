import { EnqueueMode } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import { Family } from '../ports/store.ts';
import { type EngineHarness, engineHarness, pidsOf } from '../testing/engine-harness.ts';

const CHECKPOINT_MS = 500;
const NEVER_MS = 3_600_000;

/** Number of rows of available tasks, of hidden tasks, and in the index of due times. */
const rowsOf = ({ disk }: EngineHarness): number[] =>
  [Family.ready, Family.hidden, Family.due].map((family) => disk.rowsOf(family).length);

const name = (i: number): string => `p${String(i).padStart(6, '0')}`;

describe('the rows of tasks that changed', () => {
  const disk = { config: { checkpointIntervalMs: CHECKPOINT_MS } };

  test('are written by the next checkpoint, with the state at that time', async () => {
    await using h = await engineHarness(disk);
    await h.enqueue('mail', ['a', 'b', 'c']);
    const [a] = await h.lease('mail', { max: 2 });
    await h.update({ dequeue: [{ queue: 'mail', pid: 'a', token: a?.token }] });
    expect(rowsOf(h)).toEqual([3, 0, 0]);
    await h.clock.advance(CHECKPOINT_MS);
    expect(rowsOf(h)).toEqual([1, 1, 1]);
  });

  test('are recovered after a crash before the checkpoint', async () => {
    await using h = await engineHarness(disk);
    await h.enqueue('mail', ['a', 'b', 'c']);
    const [a] = await h.lease('mail', { max: 2, for: NEVER_MS });
    await h.update({ dequeue: [{ queue: 'mail', pid: 'a', token: a?.token }] });
    await h.crash();
    expect(await h.counts('mail')).toEqual({ available: 1, leased: 1, delayed: 0 });
    expect(pidsOf(await h.lease('mail', { max: 3 }))).toEqual(['c']);
    await h.clock.advance(CHECKPOINT_MS);
    expect(rowsOf(h)).toEqual([0, 2, 2]);
  });

  test.each([true, false])(
    'are in one family only, after a crash at any step of a checkpoint (atomic batches: %s)',
    async (atomicBatches) => {
      for (let step = 1; step <= 8; step++) {
        await using h = await engineHarness({ ...disk, atomicBatches });
        await h.enqueue('mail', ['a']);
        await h.clock.advance(CHECKPOINT_MS);
        await h.lease('mail', { for: 10 });
        h.disk.crashAt(h.disk.steps + step);
        await h.clock.advance(CHECKPOINT_MS);
        await h.crash();
        expect(pidsOf(await h.lease('mail', { for: NEVER_MS }))).toEqual(['a']);
        await h.clock.advance(CHECKPOINT_MS);
        expect(rowsOf(h), `a crash at step ${step}`).toEqual([0, 1, 1]);
      }
    },
  );

  test('have the last of two states that one update gave a task', async () => {
    const config = { ...disk.config, cacheBytes: 1 };
    await using h = await engineHarness({ ...disk, config });
    const mode = EnqueueMode.ENQUEUE_MODE_REPLACE;
    await h.enqueue('mail', ['a', 'b']);
    const enqueue = [
      { queue: 'mail', pid: 'c', data: '' },
      { queue: 'mail', pid: 'c', data: 'second', mode },
    ];
    await h.update({ enqueue });
    for (const pid of ['a', 'b', 'c']) {
      const [task] = await h.lease('mail');
      expect(task?.pid).toBe(pid);
      if (pid === 'c') expect(Buffer.from(task?.data ?? []).toString()).toBe('second');
    }
  });

  test('are deleted before their queue ends', async () => {
    const config = { ...disk.config, emptyQueueRetentionMs: 1 };
    await using h = await engineHarness({ ...disk, config });
    await h.enqueue('mail', ['a']);
    await h.clock.advance(CHECKPOINT_MS - 10);
    await h.update({ dequeue: [{ queue: 'mail', pid: 'a' }] });
    await h.clock.advance(3 * CHECKPOINT_MS);
    expect(h.engine.figures().queues).toBe(0);
    expect(rowsOf(h)).toEqual([0, 0, 0]);
  });
});

/** Lets the queue flow: a task of it was leased right after its enqueue. Its first row stays until the checkpoint. */
async function flow(h: EngineHarness, queue: string): Promise<void> {
  await h.enqueue(queue, ['0']);
  const [first] = await h.lease(queue);
  await h.update({ dequeue: [{ queue, pid: '0', token: first?.token }] });
}

describe('the rows of new tasks in a queue whose tasks are leased soon', () => {
  const disk = { config: { checkpointIntervalMs: CHECKPOINT_MS } };

  test('are written by the next checkpoint', async () => {
    await using h = await engineHarness(disk);
    await flow(h, 'mail');
    await h.clock.advance(CHECKPOINT_MS - 10);
    await h.update({ enqueue: [{ queue: 'mail', pid: 'a' }] });
    await h.update({ enqueue: [{ queue: 'mail', pid: 'b', delay: NEVER_MS }] });
    expect(rowsOf(h)).toEqual([1, 0, 0]);
    expect(h.taskRows()).toBe(2);
    await h.clock.advance(10);
    expect(rowsOf(h)).toEqual([1, 1, 1]);
  });

  test('are written with the enqueue if its tasks wait longer, or none was leased for a while', async () => {
    await using h = await engineHarness({ config: { checkpointIntervalMs: NEVER_MS } });
    await flow(h, 'mail');
    await h.clock.advance(500);
    await h.enqueue('mail', ['a']);
    expect(rowsOf(h)).toEqual([2, 0, 0]);
    await h.clock.advance(100);
    expect(pidsOf(await h.lease('mail'))).toEqual(['a']);
    await h.enqueue('mail', ['b']);
    expect(rowsOf(h)).toEqual([3, 0, 0]);
  });

  test('are never written if the tasks go before', async () => {
    await using h = await engineHarness(disk);
    await h.clock.advance(CHECKPOINT_MS - 10);
    await flow(h, 'mail');
    await h.clock.advance(10);
    const families: Family[] = [];
    const { store } = h;
    if (store === undefined) throw new Error('the store is not open');
    const write = store.write.bind(store);
    vi.spyOn(store, 'write').mockImplementation((batch, options) => {
      const note = (family: Family): unknown => families.push(family);
      batch.visit({ put: note, delete: note });
      return write(batch, options);
    });
    await h.enqueue('mail', ['a', 'b']);
    const leased = await h.lease('mail', { max: 2 });
    await h.update({ dequeue: leased.map(({ pid, token }) => ({ queue: 'mail', pid, token })) });
    await h.clock.advance(CHECKPOINT_MS);
    const ofStates: Family[] = [Family.ready, Family.hidden, Family.due];
    expect(families.filter((family) => ofStates.includes(family))).toEqual([]);
    expect(families.filter((family) => family === Family.data)).toHaveLength(4);
    expect(h.taskRows()).toBe(0);
  });

  test.each([true, false])(
    'are recovered after a crash before the checkpoint (atomic batches: %s)',
    async (atomicBatches) => {
      await using h = await engineHarness({ ...disk, atomicBatches, config: { ...disk.config, cacheBytes: 1 } });
      await flow(h, 'mail');
      await h.enqueue('mail', ['a', 'b', 'c', 'd']);
      const [a] = await h.lease('mail', { max: 2, for: NEVER_MS });
      await h.crash();
      expect(await h.counts('mail')).toEqual({ available: 2, leased: 2, delayed: 0 });
      await h.update({ dequeue: [{ queue: 'mail', pid: 'a', token: a?.token }] });
      await h.crash();
      const [c, ...others] = await h.lease('mail', { max: 1, for: NEVER_MS });
      expect([c?.pid, Buffer.from(c?.data ?? []).toString(), others]).toEqual(['c', 'data of c', []]);
      await h.clock.advance(CHECKPOINT_MS);
      expect(rowsOf(h)).toEqual([1, 2, 2]);
      await h.crash();
      expect(await h.counts('mail')).toEqual({ available: 1, leased: 2, delayed: 0 });
      expect(h.taskRows()).toBe(3);
    },
  );

  test('are gone with their queue if it is deleted', async () => {
    await using h = await engineHarness(disk);
    await flow(h, 'mail');
    await h.enqueue('mail', ['a', 'b']);
    await h.engine.deleteQueue({ group: '', name: 'mail' });
    await h.crash();
    await h.enqueue('mail', ['c']);
    await h.clock.advance(3 * CHECKPOINT_MS);
    expect(rowsOf(h)).toEqual([1, 0, 0]);
    expect(h.taskRows()).toBe(1);
  });

  test('are found before they are written when their tasks are due', async () => {
    await using h = await engineHarness({ config: { checkpointIntervalMs: NEVER_MS, cacheBytes: 1 } });
    await flow(h, 'mail');
    await h.update({ enqueue: [{ queue: 'mail', pid: 'a', delay: 50 }] });
    await h.update({ enqueue: [{ queue: 'mail', pid: 'b', delay: 100 }] });
    await h.update({ enqueue: [{ queue: 'mail', pid: 'c' }] });
    expect(pidsOf(await h.lease('mail', { for: 150 }))).toEqual(['c']);
    for (const pid of ['a', 'b', 'c']) {
      expect(await h.lease('mail')).toEqual([]);
      await h.clock.advance(50);
      expect(pidsOf(await h.lease('mail', { for: NEVER_MS }))).toEqual([pid]);
    }
    expect(await h.engine.resetLeases({ group: '', name: 'mail' })).toBe(3);
    expect(await h.counts('mail')).toEqual({ available: 3, leased: 0, delayed: 0 });
    expect(rowsOf(h)).toEqual([1, 0, 0]);
  });

  test('are seen by every read before they are written, with the payloads', async () => {
    await using h = await engineHarness({ config: { checkpointIntervalMs: NEVER_MS, cacheBytes: 1 } });
    await flow(h, 'mail');
    const pids = Array.from({ length: 20 }, (_, i) => name(i));
    await h.enqueue('mail', pids);
    await h.enqueue('other', ['x']);
    const queue = { group: '', name: 'mail' };
    const head = await h.engine.peekTasks({ kind: 'head', queue, limit: 30, includeData: true });
    expect(head.map(({ pid, data }) => [pid, Buffer.from(data ?? []).toString()])).toEqual(
      pids.map((pid) => [pid, `data of ${pid}`]),
    );
    const leased = await h.lease('mail', { max: 30 });
    expect(leased.map(({ data }) => Buffer.from(data).toString())).toEqual(pids.map((pid) => `data of ${pid}`));
    expect(rowsOf(h)).toEqual([2, 0, 0]);
  });
});

test.each([
  ['with their task', false],
  ['by a checkpoint', true],
])('rows that are written %s are deleted although the task was completed meanwhile', async (_when, flows) => {
  await using h = await engineHarness({ writeMs: 1, config: { checkpointIntervalMs: CHECKPOINT_MS } });
  await h.clock.run(flow(h, 'mail'));
  if (!flows) await h.clock.advance(2 * CHECKPOINT_MS);
  h.disk.stallWrite(flows ? 0 : CHECKPOINT_MS);
  const enqueued = h.enqueue('mail', ['a']);
  if (flows) {
    await h.clock.run(enqueued);
    h.disk.stallWrite(CHECKPOINT_MS);
    await h.clock.advance(CHECKPOINT_MS);
  }
  await h.clock.run(Promise.all([enqueued, h.update({ dequeue: [{ queue: 'mail', pid: 'a' }] })]));
  await h.clock.advance(3 * CHECKPOINT_MS);
  expect([...rowsOf(h), h.taskRows()]).toEqual([0, 0, 0, 0]);
});

test('the number of tasks that wait for a checkpoint is limited', async () => {
  const TASKS = 10_000;
  await using h = await engineHarness({ config: { checkpointIntervalMs: NEVER_MS } });
  for (let at = 0; at < TASKS; at += 1000) {
    await h.enqueue(
      'mail',
      Array.from({ length: 1000 }, (_, i) => name(at + i)),
    );
  }
  for (let at = 0; at < TASKS; at += 1000) await h.lease('mail', { max: 1000 });
  const [, hidden = 0] = rowsOf(h);
  expect(hidden).toBeGreaterThan(TASKS / 10);
  expect(hidden).toBeLessThan(TASKS);
});

test('the payload bytes that wait for a checkpoint are limited', async () => {
  await using h = await engineHarness({ config: { checkpointIntervalMs: NEVER_MS } });
  const data = 'x'.repeat(1_000_000);
  for (let i = 0; i < 16; i++) await h.update({ enqueue: [{ queue: 'mail', pid: name(i), data }] });
  for (let i = 0; i < 16; i++) await h.lease('mail', { maxBytes: 1 });
  const [, hidden = 0] = rowsOf(h);
  expect(hidden).toBeGreaterThan(4);
  expect(hidden).toBeLessThan(16);
});

test('a peek finds leased tasks although rows of other tasks are stale', async () => {
  await using h = await engineHarness({ config: { checkpointIntervalMs: CHECKPOINT_MS } });
  await h.enqueue(
    'mail',
    Array.from({ length: 250 }, (_, i) => name(i)),
  );
  const first = await h.lease('mail', { max: 200 });
  await h.clock.advance(CHECKPOINT_MS);
  await h.update({ dequeue: first.map(({ pid, token }) => ({ queue: 'mail', pid, token })) });
  const second = await h.lease('mail', { max: 50 });
  const seen = await h.engine.peekTasks({
    kind: 'leased',
    queue: { group: '', name: 'mail' },
    limit: 10,
    includeData: false,
  });
  expect(seen).toHaveLength(10);
  expect(pidsOf(second)).toEqual(expect.arrayContaining(pidsOf(seen)));
});

test('a peek at leased tasks shows those first whose leases end first, although rows of other tasks are stale', async () => {
  await using h = await engineHarness({ config: { checkpointIntervalMs: CHECKPOINT_MS } });
  const pids = Array.from({ length: 130 }, (_, i) => name(i));
  await h.enqueue('mail', pids);
  await h.lease('mail', { max: 120, for: NEVER_MS });
  await h.clock.advance(CHECKPOINT_MS);
  const soon = await h.lease('mail', { max: 5, for: 1000 });
  const queue = { group: '', name: 'mail' };
  const seen = await h.engine.peekTasks({ kind: 'leased', queue, limit: 5, includeData: false });
  expect(pidsOf(seen)).toEqual(pidsOf(soon));
});

test('a peek at the head finds the tasks behind those whose rows a checkpoint is deleting', async () => {
  await using h = await engineHarness({ writeMs: 1, config: { checkpointIntervalMs: CHECKPOINT_MS, cacheBytes: 1 } });
  const pids = Array.from({ length: 20 }, (_, i) => name(i));
  await h.clock.run(h.enqueue('mail', pids));
  await h.clock.advance(1.5 * CHECKPOINT_MS);
  await h.clock.run(h.update({ dequeue: pids.slice(0, 10).map((pid) => ({ queue: 'mail', pid })) }));
  h.disk.stallWrite(10 * CHECKPOINT_MS);
  await h.clock.advance(CHECKPOINT_MS);
  const queue = { group: '', name: 'mail' };
  const seen = await h.clock.run(h.engine.peekTasks({ kind: 'head', queue, limit: 5, includeData: false }));
  expect(pidsOf(seen)).toEqual(pids.slice(10, 15));
});
