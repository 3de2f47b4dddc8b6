import { describe, expect, test } from 'vitest';
import { engineHarness, pidsOf } from './testing/engine-harness.ts';

const cold = { config: { cacheBytes: 1, minRefillTasks: 1 }, readMs: 20, syncMs: 5 };

describe('a stop', () => {
  test('answers waiting requests and refuses new ones; several calls share one stop', async () => {
    await using h = await engineHarness({ syncMs: 5 });
    const waiting = h.lease('mail', { wait: 60_000 });
    const updating = h.enqueue('mail', ['a']);
    const [first, second] = [h.engine.stop(), h.engine.stop()];
    await expect(h.enqueue('mail', ['b'])).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
    await h.clock.run(first);
    expect(await h.clock.run(second)).toBeUndefined();
    expect((await updating).enqueued).toHaveLength(1);
    expect(pidsOf(await waiting)).toEqual(['a']);
  });

  test('waits until the tasks of a long poll are read', async () => {
    await using h = await engineHarness(cold);
    await h.clock.run(h.enqueue('mail', ['a']));
    await h.crash();
    const waiting = h.lease('mail', { wait: 60_000 });
    await h.clock.advance(50);
    await h.clock.run(h.engine.stop());
    if (h.store) await h.clock.run(h.store.close());
    expect(pidsOf(await waiting)).toEqual(['a']);
  });

  test('ends on a full disk, without its last checkpoint', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    h.disk.space = 'none';
    await h.engine.stop();
    h.disk.space = 'plenty';
    await h.crash();
    expect(pidsOf(await h.lease('mail'))).toEqual(['a']);
  });

  test('ends the retries after a full disk', async () => {
    await using h = await engineHarness({ atomicBatches: false });
    await h.enqueue('mail', ['a']);
    h.disk.space = 'none';
    await expect(h.enqueue('mail', ['b'])).rejects.toMatchObject({ reason: 'DISK_FULL' });
    await h.clock.advance(5000);
    await h.engine.stop();
    expect(h.clock.time.pending).toBe(0);
  });
});

describe('a caller that disconnects', () => {
  test('receives no lease, even if its tasks were already picked', async () => {
    await using h = await engineHarness({ syncMs: 5 });
    await h.clock.run(h.enqueue('mail', ['a']));
    const abort = new AbortController();
    const lease = h.lease('mail', { signal: abort.signal });
    abort.abort();
    await expect(h.clock.run(lease)).rejects.toMatchObject({ reason: 'CANCELLED' });
    expect(await h.clock.run(h.lease('mail'))).toMatchObject([{ pid: 'a', attempt: 1 }]);
  });

  test('releases its other tasks if one of them was taken meanwhile', async () => {
    await using h = await engineHarness({ syncMs: 5 });
    await h.clock.run(h.enqueue('mail', ['a', 'b', 'c']));
    const abort = new AbortController();
    const lease = h.lease('mail', { max: 3, signal: abort.signal });
    const taken = h.update({ dequeue: [{ queue: 'mail', pid: 'b' }] });
    abort.abort();
    await expect(h.clock.run(lease)).rejects.toMatchObject({ reason: 'CANCELLED' });
    await h.clock.run(taken);
    expect(pidsOf(await h.clock.run(h.lease('mail', { max: 3 })))).toEqual(['a', 'c']);
  });

  test('receives no lease after a full disk', async () => {
    await using h = await engineHarness({ syncMs: 5 });
    const abort = new AbortController();
    const lease = h.lease('mail', { wait: 60_000, signal: abort.signal });
    h.disk.space = 'none';
    await expect(h.clock.run(h.enqueue('mail', ['a']))).rejects.toMatchObject({ reason: 'DISK_FULL' });
    h.disk.space = 'plenty';
    await h.clock.advance(10);
    const enqueued = h.enqueue('mail', ['a']);
    abort.abort();
    await expect(h.clock.run(lease)).rejects.toMatchObject({ reason: 'CANCELLED' });
    await h.clock.run(enqueued);
    expect(pidsOf(await h.clock.run(h.lease('mail')))).toEqual(['a']);
  });
});

describe('the rows of a deleted queue', () => {
  test('are deleted when there is space again', async () => {
    await using h = await engineHarness({ writeMs: 1 });
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.clock.run(h.engine.deleteQueue({ group: '', name: 'mail' }));
    h.disk.space = 'none';
    await h.clock.advance(100);
    expect(h.taskRows()).toBe(2);
    h.disk.space = 'plenty';
    await h.clock.run(h.enqueue('other', ['x']));
    await h.clock.advance(2000);
    expect(h.taskRows()).toBe(1);
  });
});
