import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { DEFAULT_ENGINE_CONFIG } from '../config.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import { Family } from '../ports/store.ts';
import { engineHarness } from '../testing/engine-harness.ts';
import { SeededRandom } from '../testing/seeded-random.ts';
import { SimDisk } from '../testing/sim-store.ts';
import { RequestIds } from './request-ids.ts';

const P = 0 as PartitionId;
const NOTHING_PENDING = { last: 0, applied: 0 };

/** With this configuration memory forgets an id as soon as I2 permits. */
const FORGETFUL = { requestIdCacheBytes: 1 };
const mail = { enqueue: [{ queue: 'mail', data: 'hello' }], id: 'once' };

describe('a repeated request', () => {
  test.each([
    ['in the same turn', { config: FORGETFUL }],
    ['in the same turn, on a slow disk', { config: FORGETFUL, writeMs: 5, syncMs: 5, readMs: 1 }],
    ['in the same turn, without atomic batches', { config: FORGETFUL, writeMs: 5, syncMs: 5, atomicBatches: false }],
    ['with everything in memory', {}],
  ])('%s gets the first outcome and is not applied again', async (_how, options) => {
    await using h = await engineHarness(options);
    const calls = [h.update(mail), h.update(mail), h.update(mail)];
    const [first, ...others] = await h.clock.run(Promise.all(calls));
    for (const other of others) expect(other).toEqual(first);
    expect(await h.clock.run(h.update(mail))).toEqual(first);
    expect(await h.clock.run(h.counts('mail'))).toMatchObject({ available: 1 });
  });

  test.each([true, false])('across a crash gets the first outcome (memory forgets: %s)', async (forgets) => {
    await using h = await engineHarness({ config: forgets ? FORGETFUL : {} });
    const first = await h.update(mail);
    const [task] = await h.lease('mail');
    await h.update({ dequeue: [{ queue: 'mail', pid: task?.pid ?? '', token: task?.token }] });
    await h.crash();
    expect(await h.update(mail)).toEqual(first);
    expect(await h.lease('mail')).toEqual([]);
  });

  test.each([true, false])(
    'reports whether the task was leased at the first request (memory forgets: %s)',
    async (forgets) => {
      await using h = await engineHarness({ config: forgets ? FORGETFUL : {} });
      await h.enqueue('mail', ['a', 'b']);
      const [task] = await h.lease('mail');
      const meet = { enqueue: ['a', 'b'].map((pid) => ({ queue: 'mail', pid, data: 'again' })), id: 'once' };
      const first = await h.update(meet);
      expect(first.enqueued.map(({ leased }) => leased)).toEqual([true, false]);
      await h.update({ release: [{ queue: 'mail', pid: 'a', token: task?.token }] });
      expect(await h.update(meet)).toEqual(first);
      await h.crash();
      expect(await h.update(meet)).toEqual(first);
    },
  );

  test('gets the first outcome while another request with its id starts and ends', async () => {
    await using h = await engineHarness({ config: { ...FORGETFUL, cacheBytes: 1 }, readMs: 20 });
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.crash();
    const replaceA = {
      enqueue: [
        { queue: 'mail', pid: 'a' },
        { queue: 'mail', data: 'new' },
      ],
      id: 'once',
    };
    const slow = h.update(replaceA);
    await h.clock.advance(30);
    const quick = h.update(replaceA);
    expect(await h.clock.run(quick)).toEqual(await h.clock.run(slow));
    expect(await h.clock.run(h.counts('mail'))).toMatchObject({ available: 3 });
  });

  test('counts as a new request after its window', async () => {
    await using h = await engineHarness({ config: { requestIdWindowMs: 1000 } });
    await h.update(mail);
    await h.clock.advance(2001);
    await h.update(mail);
    expect(await h.counts('mail')).toMatchObject({ available: 2 });
  });

  // How many ids evict exactly these two depends on the memory of an id.
  test.each([9, 10, 11, 12, 13])(
    'is known within its window, although an older id is forgotten after it (%i)',
    async (n) => {
      const config = { requestIdCacheBytes: 3000, requestIdWindowMs: 10_000 };
      await using h = await engineHarness({ config });
      // Rows are loaded partition by partition, so here the younger id comes first.
      const [low = '', high = ''] = ['g', 'h'].sort((a, b) => partitionOf(a, 1024) - partitionOf(b, 1024));
      await h.update({ enqueue: [{ queue: `${high}#mail`, pid: 'a' }], id: 'older' });
      await h.clock.advance(19_000);
      const younger = { enqueue: [{ queue: `${low}#mail`, data: 'hello' }], id: 'younger' };
      const first = await h.update(younger);
      await h.crash();
      for (let i = 0; i < n; i++) await h.update({ enqueue: [{ queue: 'other', pid: `${i}` }], id: `${i}` });
      await h.clock.advance(1001);
      expect(await h.update(younger)).toEqual(first);
      expect(await h.counts(`${low}#mail`)).toMatchObject({ available: 1 });
    },
  );
});

describe('request ids that arrived with a partition', () => {
  const at = (ms: number) => ms as Instant;
  const arrived = (ms: number, outcome: string, ...ids: readonly string[]) =>
    new Map(ids.map((id) => [id, { id, at: at(ms), outcome }]));
  const store = () => new SimDisk({ random: new SeededRandom(1) }).open();
  const open = () => new RequestIds(store(), DEFAULT_ENGINE_CONFIG, NOTHING_PENDING, at(0));

  test('are known at once and during their merge with later requests', () => {
    const requests = open();
    const ids = Array.from({ length: 700 }, (_, i) => `id ${i}`);
    requests.adopt(P, arrived(500, 'came along', ...ids), true, at(1000));
    requests.adopt(P, arrived(500, 'came along', 'another'), true, at(1000));
    for (let i = 0; i < 20; i++) {
      for (const id of [...ids, 'another']) {
        expect(requests.lookUp(P, id, at(1000))).toEqual({ kind: 'seen', outcome: 'came along' });
      }
      requests.remember(`new ${i}`, at(1000), 'new');
    }
  });

  test('replace an earlier request with the same id, and not a later one', () => {
    const requests = open();
    requests.remember('id', at(10), 'earlier');
    requests.adopt(P, arrived(20, 'came along', 'id'), true, at(20));
    expect(requests.lookUp(P, 'id', at(20))).toMatchObject({ outcome: 'came along' });
    requests.remember('id', at(30), 'later');
    for (let i = 0; i < 3; i++) {
      expect(requests.lookUp(P, 'id', at(30))).toMatchObject({ outcome: 'later' });
      requests.remember(`new ${i}`, at(30), 'new');
    }
  });
});

describe('request ids that arrived with a partition and find no room in memory', () => {
  test('are looked up in the store', async () => {
    const disk = new SimDisk({ random: new SeededRandom(1) });
    const config = { ...DEFAULT_ENGINE_CONFIG, requestIdCacheBytes: 10_000 };
    const requests = new RequestIds(disk.open(), config, NOTHING_PENDING, 0 as Instant);
    await requests.load(0 as Instant);
    const now = (config.requestIdWindowMs + 1) as Instant;
    expect(requests.lookUp(P, 'id', now)).toEqual({ kind: 'new' });
    const ids = Array.from({ length: 1_000 }, (_, i) => `id ${i}`);
    requests.adopt(P, new Map(ids.map((id) => [id, { id, at: now, outcome: '' }])), true, now);
    for (const id of ids) expect(requests.lookUp(P, id, now)).toEqual({ kind: 'unknown' });
  });
});

describe('request ids that memory has forgotten', () => {
  test('are the only ids that are looked up in the store', async () => {
    await using h = await engineHarness({ config: FORGETFUL, readMs: 100 });
    const enqueue = (id: string) => h.update({ enqueue: [{ queue: 'mail', pid: id }], id });
    const timed = async (id: string) => {
      const began = h.clock.now();
      await h.clock.run(enqueue(id));
      return h.clock.now() - began;
    };
    const ids = Array.from({ length: 20 }, (_, i) => `${i}`);
    for (const id of ids) expect(await timed(id), `${id} comes for the first time: ms; a read takes 100`).toBe(0);
    for (const id of ids.slice(0, -1)) expect(await timed(id), `${id} comes again`).toBe(100);
  });
});

describe('the rows of request ids', () => {
  const WINDOW_MS = 1000;
  /** Groups of five different partitions. */
  const groups = ['a', 'b', 'c', 'd', 'e'];

  /** An engine with `count` recorded requests in each group and room in memory for a few of them. */
  async function withRequests(count: number) {
    const h = await engineHarness({ config: { requestIdWindowMs: WINDOW_MS, requestIdCacheBytes: 3000 } });
    for (const group of groups) {
      const ids = Array.from({ length: count }, (_, i) => `${i}`);
      await Promise.all(ids.map((id) => h.update({ enqueue: [{ queue: `${group}#mail`, pid: 'a' }], id })));
    }
    return h;
  }

  test.each([
    ['that are too old', 10 * WINDOW_MS],
    ['for which memory has no room', 0],
  ])('%s are not read at the start', async (_which, laterMs) => {
    await using h = await withRequests(1000);
    await h.clock.run(h.engine.stop());
    await h.clock.advance(laterMs);
    let rows = 0;
    const open = h.disk.open.bind(h.disk);
    h.disk.open = () => {
      const store = open();
      const scan = store.scan.bind(store);
      store.scan = async (family, ...args) => {
        const found = await scan(family, ...args);
        if (family === Family.requests) rows += found.length;
        return found;
      };
      return store;
    };
    await h.crash();
    expect(rows).toBeLessThan(100);
    expect(rows).toBeGreaterThan(0);
  });

  test('are deleted after their window, even if memory had no room for them after a restart', async () => {
    await using h = await withRequests(50);
    await h.crash();
    expect(h.disk.rowsOf(Family.requests).length).toBe(5 * 50);
    await h.clock.advance(4 * WINDOW_MS);
    expect(h.disk.rowsOf(Family.requests)).toEqual([]);
  });

  test('are all loaded if memory has room: a new id needs no read', async () => {
    await using h = await engineHarness({ config: { requestIdWindowMs: WINDOW_MS }, readMs: 100 });
    // In every partition, some ids of two windows ago, which are skipped, and some current ids.
    const enqueueAll = (id: string) =>
      Promise.all(groups.map((group) => h.update({ enqueue: [{ queue: `${group}#mail`, pid: 'a' }], id })));
    await h.clock.run(enqueueAll('old'));
    await h.clock.advance(2 * WINDOW_MS);
    const outcomes = await h.clock.run(enqueueAll('now'));
    await h.crash();
    const began = h.clock.now();
    expect(await h.clock.run(enqueueAll('now'))).toEqual(outcomes);
    await h.clock.run(h.update({ enqueue: [{ queue: 'f#mail', pid: 'a' }], id: 'new' }));
    expect(h.clock.now() - began, 'ms; a read takes 100').toBeLessThan(100);
  });
});
