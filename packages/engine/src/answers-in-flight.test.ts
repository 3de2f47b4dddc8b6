import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { Family, type Store } from './ports/store.ts';
import { type EngineHarness, engineHarness, pidsOf } from './testing/engine-harness.ts';

const MIB = 1024 * 1024;
const PAYLOAD_BYTES = 100 * 1024; // Too large for refills to read ahead: every one is read for its answer.
const PAYLOAD = 'x'.repeat(PAYLOAD_BYTES);
const mail = { group: '', name: 'mail' };

/** A restarted engine with `count` tasks of 100 KiB in the queue and a limit of 4 MiB in flight. */
async function withTasks(count: number): Promise<{ h: EngineHarness; pids: string[]; read: PayloadReads }> {
  const h = await engineHarness({ readMs: 10, syncMs: 1, config: { maxInFlightBytes: 4 * MIB, cacheBytes: MIB } });
  const pids = Array.from({ length: count }, (_, i) => String(i).padStart(4, '0'));
  for (const pid of pids) await h.clock.run(h.update({ enqueue: [{ queue: 'mail', pid, data: PAYLOAD }] }));
  await h.crash();
  return { h, pids, read: watchPayloads(h.store) };
}

/** `peak`: the most payload bytes that were being read from the store at once. */
interface PayloadReads {
  peak: number;
}

function watchPayloads(store: Store | undefined): PayloadReads {
  if (!store) throw new Error('the store is not open');
  const reads = { peak: 0 };
  let bytes = 0;
  const get = store.get.bind(store);
  store.get = async (family, keys) => {
    if (family !== Family.data) return get(family, keys);
    const reading = keys.length * PAYLOAD_BYTES;
    bytes += reading;
    reads.peak = Math.max(reads.peak, bytes);
    const rows = await get(family, keys);
    bytes -= reading;
    return rows;
  };
  return reads;
}

describe('payloads that are being read for answers', () => {
  test('are bounded with many concurrent callers, and every caller gets its answer', async () => {
    const { h, pids, read } = await withTasks(200);
    await using _ = h;
    let peak = 0;
    const callers = Array.from({ length: 40 }, async (_, i) => {
      const tasks = await h.lease('mail', { max: 5, wait: i % 2 ? 60_000 : 0 });
      peak = Math.max(peak, h.engine.figures().inFlightBytes);
      return pidsOf(tasks);
    });
    const leased = (await h.clock.run(Promise.all(callers), 60_000)).flat();
    expect(leased.sort()).toEqual(pids);
    expect(read.peak).toBeLessThanOrEqual(2 * MIB);
    expect(read.peak).toBeGreaterThan(MIB);
    expect(peak).toBeLessThanOrEqual(4 * MIB);
    expect(h.engine.figures().inFlightBytes).toBe(0);
  });

  test('are bounded for a single caller, too: it gets the first tasks that fit', async () => {
    const { h, pids, read } = await withTasks(100);
    await using _ = h;
    const leased = pidsOf(await h.clock.run(h.lease('mail', { max: 1000 }), 60_000));
    expect(leased.length).toBeGreaterThan(10);
    expect(leased).toEqual(pids.slice(0, leased.length));
    expect(read.peak).toBeLessThanOrEqual(2 * MIB);
    expect(await h.clock.run(h.counts('mail'))).toMatchObject({ leased: leased.length });
  });

  test('are bounded for get and peek, and each call is answered', async () => {
    const { h, pids, read } = await withTasks(20);
    await using _ = h;
    const get = { queue: mail, pids: pids.slice(0, 10) as never[], includeData: true };
    const looks = Array.from({ length: 20 }, () => h.engine.getTasks(get));
    for (const tasks of await h.clock.run(Promise.all(looks), 60_000)) {
      expect(tasks.every(({ data }) => data?.length === PAYLOAD_BYTES)).toBe(true);
    }
    expect(read.peak).toBeLessThanOrEqual(2 * MIB);
  });

  test('take turns: a get does not wait for all leases', async () => {
    const { h, pids } = await withTasks(100);
    await using _ = h;
    const callers = Array.from({ length: 20 }, () => h.lease('mail', { max: 5 }));
    let answered = 0;
    for (const caller of callers) caller.then(() => answered++);
    const get = { queue: mail, pids: pids.slice(0, 5) as never[], includeData: true };
    await h.clock.run(h.engine.getTasks(get));
    expect(answered).toBeLessThan(10);
    await h.clock.run(Promise.all(callers), 60_000);
  });

  test('do not prevent renewals and completions', async () => {
    const { h } = await withTasks(100);
    await using _ = h;
    const [a, b] = await h.clock.run(h.lease('mail', { max: 2 }));
    const callers = Array.from({ length: 20 }, () => h.lease('mail', { max: 5 }));
    const began = h.clock.now();
    await h.clock.run(h.update({ renew: [{ queue: 'mail', pid: a?.pid ?? '', token: a?.token, for: 30_000 }] }));
    await h.clock.run(h.update({ dequeue: [{ queue: 'mail', pid: b?.pid ?? '', token: b?.token }] }));
    expect(h.clock.now() - began, 'ms; the first read takes 10').toBeLessThan(30);
    await h.clock.run(Promise.all(callers), 60_000);
  });

  test('leave room for enqueues, and enqueues leave room for them', async () => {
    const { h } = await withTasks(100);
    await using _ = h;
    const callers = Array.from({ length: 20 }, () => h.lease('mail', { max: 5 }));
    await h.clock.advance(15);
    const enqueued = h.update({ enqueue: [{ queue: 'other', pid: 'a', data: 'x'.repeat(1.5 * MIB) }] });
    await h.clock.run(enqueued);
    await h.clock.run(Promise.all(callers), 60_000);
  });

  test('include those of tasks that move to dead-letter queues; too many at once are refused', async () => {
    const { h, pids } = await withTasks(40);
    await using _ = h;
    const retry = { maxAttempts: 1, deadLetterQueue: 'dead' };
    const mode = EnqueueMode.ENQUEUE_MODE_REPLACE;
    for (const pid of pids) {
      await h.clock.run(h.update({ enqueue: [{ queue: 'last', pid, data: PAYLOAD, mode, retry }] }));
    }
    await h.crash();
    const read = watchPayloads(h.store);
    const leased = [];
    while (leased.length < 40) leased.push(...(await h.clock.run(h.lease('last', { max: 10 }))));
    const release = leased.map(({ pid, token }) => ({ queue: 'last', pid, token }));
    await expect(h.clock.run(h.update({ release }))).rejects.toMatchObject({ reason: 'REQUEST_TOO_LARGE' });
    expect(await h.clock.run(h.counts('last'))).toMatchObject({ leased: 40 });
    read.peak = 0;
    const parts = [0, 10, 20, 30].map((from) => h.update({ release: release.slice(from, from + 10) }));
    await h.clock.run(Promise.all(parts), 60_000);
    expect(await h.clock.run(h.counts('dead'))).toMatchObject({ available: 40 });
    expect(read.peak).toBeLessThanOrEqual(2 * MIB);
    expect(h.engine.figures().inFlightBytes).toBe(0);
  });

  test('are not read for a caller that disconnected while it waited', async () => {
    const { h, pids } = await withTasks(60);
    await using _ = h;
    const first = h.lease('mail', { max: 14 });
    const abort = new AbortController();
    const gone = h.lease('mail', { max: 14, wait: 60_000, signal: abort.signal });
    const behind = h.lease('mail', { max: 14, wait: 60_000 });
    await h.clock.advance(15);
    abort.abort();
    await expect(gone).rejects.toMatchObject({ reason: 'CANCELLED' });
    expect(pidsOf(await h.clock.run(first, 60_000))).toEqual(pids.slice(0, 14));
    expect(pidsOf(await h.clock.run(behind, 60_000))).toEqual(pids.slice(14, 28));
    expect(await h.clock.run(h.counts('mail'))).toMatchObject({ leased: 28 });
  });
});

describe('room for payloads is not kept in a wait for more, so that no one waits for ever', () => {
  const QUEUE = 'shop#orders';
  const shop = parseQueueName(QUEUE);
  const pidAt = (at: number): string => String(at).padStart(4_000, 'p');

  /** An engine that reads all pointers of keys from disk: tasks with long PIDs and keys, and the least room there can be. */
  async function withKeys(count: number, dataBytes: number): Promise<EngineHarness> {
    const config = { cacheBytes: 1, checkpointIntervalMs: 10, maxInFlightBytes: 8 * MIB };
    const h = await engineHarness({ config, readMs: 1 });
    for (let at = 0; at < count; at++) {
      const task = { queue: QUEUE, pid: pidAt(at), key: `k${at}`, data: 'x'.repeat(dataBytes) };
      await h.clock.run(h.update({ enqueue: [task] }));
    }
    await h.clock.advance(1_000);
    return h;
  }
  const keysOf = (count: number) => Array.from({ length: count }, (_, at) => `k${at}`);

  test.each([
    ['one caller whose payloads and pointers are more than there is room', 34, 100_000, 1],
    ['many callers with long PIDs', 100, 12_000, 6],
  ])('%s', async (_who, count, dataBytes, callers) => {
    await using h = await withKeys(count, dataBytes);
    const get = { queue: shop, pids: [], keys: keysOf(count), includeData: true };
    const getting = Promise.all(Array.from({ length: callers }, () => h.engine.getTasks(get)));
    const found = await h.clock.run(getting, 60_000);
    expect(found.map((tasks) => tasks.filter(({ state }) => state !== undefined).length)).toEqual(
      new Array(callers).fill(count),
    );
    expect(h.engine.figures().inFlightBytes).toBe(0);
  });

  test('an update by key that finds a task whose last attempt is over', async () => {
    await using h = await withKeys(70, 1);
    const dead = { queue: QUEUE, pid: 'a', data: 'x'.repeat(3 * MIB), retry: { maxAttempts: 1 } };
    await h.clock.run(h.update({ enqueue: [dead] }));
    await h.clock.run(h.lease(QUEUE, { for: 10_000 }));
    await h.clock.advance(9_997);
    const dequeue = [...keysOf(70).map((key) => ({ queue: QUEUE, key })), { queue: QUEUE, pid: 'a' }];
    const removing = h.clock.run(h.update({ dequeue }), 60_000);
    await expect(removing).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND', items: [{ pid: 'a' }] });
    expect(await h.counts(`${QUEUE}.dead`)).toMatchObject({ available: 1 });
    expect(h.engine.figures().inFlightBytes).toBe(0);
  });
});
