import { OLDEST_READER_FORMAT, partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Instant, PartitionId } from '../../domain/ids.ts';
import { Family } from '../../ports/store.ts';
import { BackupCopy, backupRequest } from '../../testing/backup-copy.ts';
import { EngineHarness, type HarnessOptions, pidsOf } from '../../testing/engine-harness.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 4) as PartitionId;
const ALL = [0, 1, 2, 3].map((id) => ({ id: id as PartitionId, epoch: 1 }));

async function open(options: HarnessOptions = {}): Promise<EngineHarness> {
  const config = { partitions: 4, cacheBytes: 1, maxBackupBytesPerSecond: 0, ...options.config };
  const h = new EngineHarness({ clustered: true, writeMs: 1, syncMs: 2, readMs: 1, ...options, config });
  await h.open();
  await h.clock.run(h.engine.partitions.claim(ALL));
  h.engine.backups.identify({ clusterId: 'c', nodeId: 'a' });
  return h;
}

/** An engine that holds nothing. */
async function openEmpty(): Promise<EngineHarness> {
  const h = new EngineHarness({ clustered: true, config: { partitions: 4 } });
  await h.open();
  return h;
}

const backup = (h: EngineHarness, change = {}) => h.engine.backups.backup(backupRequest(P, change));
const readAll = (h: EngineHarness, change = {}): Promise<BackupCopy> => h.clock.run(BackupCopy.read(backup(h, change)));
const wait = (h: EngineHarness, ms: number): Promise<void> =>
  new Promise((resolve) => void h.clock.at((h.clock.now() + ms) as Instant, resolve));
const pidsFrom = (count: number): string[] => Array.from({ length: count }, (_, i) => `${i}`.padStart(6, '0'));

async function restored(copy: BackupCopy): Promise<EngineHarness> {
  const h = await openEmpty();
  await h.clock.run(copy.restoreTo(h, 2));
  return h;
}

describe('a backup of a partition', () => {
  test('begins with a header that names its origin and ends with its counts', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2', '3']));
    await h.clock.run(h.enqueue('orders#other', ['1']));
    const copy = await readAll(h);
    expect(copy.header).toMatchObject({ clusterId: 'c', nodeId: 'a', partition: P, partitions: 4, epoch: 1, tasks: 4 });
    expect(copy.header).toMatchObject({
      formatVersion: OLDEST_READER_FORMAT,
      unchanged: false,
      requestWindowMs: 120_000,
    });
    expect(copy.end).toEqual({ lastTicket: copy.header.ticket, tasks: 4, queues: 2 });
    expect(h.engine.figures()).toMatchObject({ runningBackups: 0, backupBytes: copy.bytes });
  });

  test('tells when all partitions here were sent whole', async () => {
    const h = await open();
    const ids = ALL.map(({ id }) => id);
    const last = ids.at(-1);
    const begun = h.clock.now();
    for (const partition of ids) {
      expect(h.engine.figures().backedUpAt).toBe(undefined);
      const parts = h.engine.backups.backup(backupRequest(partition));
      if (partition === last) {
        // A reader that gives up has no backup.
        await h.clock.run(parts.next());
        await h.clock.run(Promise.resolve(parts.return?.()));
        expect(h.engine.figures().backedUpAt).toBe(undefined);
        await h.clock.advance(5_000);
      }
      await h.clock.run(BackupCopy.read(h.engine.backups.backup(backupRequest(partition))));
    }
    const { backedUpAt = 0 } = h.engine.figures();
    expect(backedUpAt).toBeGreaterThanOrEqual(begun);
    expect(backedUpAt).toBeLessThan(begun + 5_000);
  });

  test('that failed is told until the partition was sent whole, and not by a later holder', async () => {
    const h = await open();
    const begun = h.clock.now();
    const told = backup(h, { failure: `no space ${'x'.repeat(600)}` });
    const { value } = await h.clock.run(told.next());
    expect(value).toMatchObject({ part: { $case: 'end' } });
    expect((await h.clock.run(told.next())).done).toBe(true);
    const { backupFailure, backupsFailed, runningBackups } = h.engine.figures();
    expect({ backupsFailed, runningBackups }).toEqual({ backupsFailed: 1, runningBackups: 0 });
    expect(backupFailure?.at).toBeGreaterThanOrEqual(begun);
    expect(backupFailure?.problem).toMatch(/^no space x{491}$/);
    const given = backup(h);
    await h.clock.run(given.next());
    await h.clock.run(Promise.resolve(given.return?.()));
    expect(h.engine.figures().backupFailure).toBeDefined();
    await readAll(h);
    expect(h.engine.figures()).toMatchObject({ backupFailure: undefined, backupsFailed: 1 });
    await h.clock.run(backup(h, { failure: 'later' }).next());
    // A backup that was continued is whole without sending the partition again.
    await h.clock.run(backup(h, { failure: '' }).next());
    expect(h.engine.figures()).toMatchObject({ backupFailure: undefined, backupsFailed: 2 });
    await h.clock.run(backup(h, { failure: 'again' }).next());
    await h.clock.run(h.engine.partitions.release(P, 'b', 2));
    expect(h.engine.figures()).toMatchObject({ backupFailure: undefined, backupsFailed: 3 });
    await expect(h.clock.run(backup(h, { failure: 'not here' }).next())).rejects.toMatchObject({
      reason: 'NOT_HOLDER',
    });
  });

  test('has everything: payloads, leases, delays, request ids, the FIFO position', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2', '3']));
    await h.clock.run(h.update({ enqueue: [{ queue: QUEUE, pid: '4', delay: 60_000 }] }));
    const [first] = await h.clock.run(h.lease(QUEUE, { for: 30_000 }));
    const fifo = { enqueue: [{ queue: 'orders#fifo', data: 'x' }], id: 'request-1' };
    const before = await h.clock.run(h.update(fifo));
    const copy = await readAll(h);
    const to = await restored(copy);
    expect(await to.clock.run(to.counts(QUEUE))).toEqual({ available: 2, leased: 1, delayed: 1 });
    expect(await to.clock.run(to.update(fifo))).toEqual(before);
    await to.clock.run(to.update({ dequeue: [{ queue: QUEUE, pid: '1', token: first?.token }] }));
    const [leased] = await to.clock.run(to.lease(QUEUE));
    expect(Buffer.from(leased?.data ?? []).toString()).toBe('data of 2');
  });

  test.each(Array.from({ length: 20 }, (_, seed) => [seed + 1, seed % 2 === 0] as const))(
    'has every update acknowledged before it, each completely or not at all, while callers change tasks: seed %d, atomic %s',
    async (seed, atomicBatches) => {
      const h = await open({ seed, atomicBatches, config: { checkpointIntervalMs: 20 } });
      const pids = pidsFrom(2_500);
      for (let at = 0; at < pids.length; at += 500) await h.clock.run(h.enqueue('orders#a', pids.slice(at, at + 500)));
      const acknowledged = new Set<string>();
      const begun = new Set<string>();
      let moving = true;
      // Each update moves a task to two queues.
      const move = async (offset: number): Promise<void> => {
        for (let i = offset; moving && i < pids.length; i += 4) {
          const pid = pids[(i * 7919) % pids.length] ?? '';
          begun.add(pid);
          const both = ['orders#b', 'orders#c'].map((queue) => ({ queue, pid, data: `moved ${pid}` }));
          await h.update({ dequeue: [{ queue: 'orders#a', pid }], enqueue: both });
          acknowledged.add(pid);
          await wait(h, h.random.int(4));
          if (h.random.chance(0.05)) await h.lease('orders#b', { max: 3, for: 5 });
        }
      };
      const movers = [0, 1, 2, 3].map(move);
      await h.clock.advance(h.random.int(60));
      const before = new Set(acknowledged);
      const copy = await h.clock.run(BackupCopy.read(backup(h), () => wait(h, h.random.int(20))));
      const begunBefore = new Set(begun);
      moving = false;
      await h.clock.run(Promise.all(movers));
      expect(copy.kinds.filter((kind) => kind === 'atoms').length).toBeGreaterThan(0);

      const to = await restored(copy);
      const held = async (queue: string): Promise<Set<string>> => {
        await to.clock.advance(100);
        return new Set(pidsOf(await to.clock.run(to.lease(queue, { max: 10_000, for: 1 }))));
      };
      const [a, b, c] = [await held('orders#a'), await held('orders#b'), await held('orders#c')];
      expect(c).toEqual(b);
      for (const pid of pids) expect(a.has(pid), pid).toBe(!b.has(pid));
      for (const pid of before) expect(b.has(pid), pid).toBe(true);
      for (const pid of b) expect(begunBefore.has(pid), pid).toBe(true);
    },
  );

  test('ends although the partition never stops changing', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(3_000)));
    let changing = true;
    const change = async (): Promise<void> => {
      for (let i = 0; changing; i++) await h.enqueue('orders#more', [`${i}`]);
    };
    const changed = change();
    const copy = await readAll(h);
    changing = false;
    await h.clock.run(changed);
    expect(copy.end.tasks).toBeGreaterThan(3_000);
    await restored(copy);
  });

  test('has a change that is larger than a message', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1']));
    const large = { queue: QUEUE, pid: '2', data: 'x'.repeat(3 * 1024 * 1024) };
    const reading = BackupCopy.read(backup(h), async ({ part }) => {
      if (part?.$case === 'header') await h.update({ enqueue: [large] });
    });
    const to = await restored(await h.clock.run(reading));
    const leased = await to.clock.run(to.lease(QUEUE, { max: 2 }));
    expect(leased.map(({ data }) => data.length)).toEqual([9, 3 * 1024 * 1024]);
  });

  test.each(['synced', 'relaxed'] as const)(
    'ends with a ticket that a power loss does not take back: %s durability',
    async (kind) => {
      for (let seed = 1; seed <= 20; seed++) {
        const durability = kind === 'synced' ? { kind } : { kind, flushIntervalMs: 10_000 };
        const h = await open({ seed, syncMs: 5, config: { durability, checkpointIntervalMs: 60_000 } });
        let changing = true;
        const change = async (): Promise<void> => {
          for (let i = 0; changing; i++) await h.enqueue(QUEUE, [`${i}`]).catch(() => {});
        };
        void change();
        await h.clock.advance(20);
        const copy = await h.clock.run(BackupCopy.read(backup(h), () => wait(h, h.random.int(10))));
        changing = false;
        await h.crash();
        const last = h.engine.partitions.ticketsOf(P)?.lastTicket;
        expect(copy.end.lastTicket).toBeGreaterThan(copy.header.ticket);
        expect(last).toBeGreaterThanOrEqual(copy.end.lastTicket);
      }
    },
  );
});

describe('a backup of a partition that may be unchanged', () => {
  const pointOf = ({ header, end }: BackupCopy) => {
    const { clusterId, nodeId, epoch } = header;
    return { clusterId, nodeId, epoch, ticket: end.lastTicket };
  };

  test('has no rows if nothing has changed, also after a crash', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2']));
    const first = await readAll(h);
    await h.clock.advance(70_000);
    await h.crash();
    h.engine.backups.identify({ clusterId: 'c', nodeId: 'a' });
    const again = await readAll(h, { unchangedSince: pointOf(first) });
    expect(again.kinds).toEqual(['header', 'end']);
    expect(again.header).toMatchObject({ unchanged: true, nowMs: h.clock.now() });
    expect(again.end).toEqual(first.end);
  });

  test('has all rows after any change', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2']));
    const unchangedSince = pointOf(await readAll(h));
    await h.clock.run(h.lease(QUEUE));
    const again = await readAll(h, { unchangedSince });
    expect(again.header.unchanged).toBe(false);
    expect(again.kinds).toContain('rows');
  });

  test.each([
    ['another cluster', { clusterId: 'd' }],
    ['another node', { nodeId: 'b' }],
    ['another epoch', { epoch: 2 }],
    ['another ticket', { ticket: 1 }],
  ])('has all rows if the earlier backup is of %s', async (_, change) => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2']));
    const unchangedSince = { ...pointOf(await readAll(h)), ...change };
    expect((await readAll(h, { unchangedSince })).kinds).toContain('rows');
  });

  test('has all rows after a restart without a cluster, whose node has another id', async () => {
    const h = new EngineHarness({ config: { partitions: 4 } });
    await h.open();
    await h.clock.run(h.enqueue(QUEUE, ['1']));
    const first = await readAll(h);
    expect(first.header).toMatchObject({ clusterId: '', epoch: 0, nodeId: expect.stringMatching(/^[0-9a-f]{16}$/) });
    expect((await readAll(h, { unchangedSince: pointOf(first) })).header.unchanged).toBe(true);
    await h.crash();
    expect((await readAll(h, { unchangedSince: pointOf(first) })).header.unchanged).toBe(false);
  });
});

describe('a backup is refused', () => {
  test.each([4, -1, 0.5, Number.NaN])('if there is no partition %d', async (partition) => {
    const h = await open();
    const parts = h.engine.backups.backup(backupRequest(partition));
    await expect(h.clock.run(parts.next())).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
      metadata: { field: 'partition', max: '3' },
    });
  });

  test('if another node holds the partition, with the address of the holder', async () => {
    const h = await open();
    h.engine.partitions.locate(() => ({ nodeId: 'b', address: 'host-b:1', epoch: 2 }));
    await h.clock.run(h.engine.partitions.release(P, 'b', 2));
    await expect(h.clock.run(backup(h).next())).rejects.toMatchObject({
      reason: 'NOT_HOLDER',
      metadata: { holder: 'host-b:1' },
    });
  });

  test('if too many run already, until one of them has ended', async () => {
    const h = await open({ config: { maxConcurrentBackups: 2 } });
    const running = [backup(h), backup(h)];
    for (const parts of running) await h.clock.run(parts.next());
    expect(h.engine.figures().runningBackups).toBe(2);
    await expect(h.clock.run(backup(h).next())).rejects.toMatchObject({
      reason: 'TOO_MANY_BACKUPS',
      metadata: { limit: '2' },
      retryDelayMs: 1_000,
    });
    await running[0]?.return?.();
    expect((await readAll(h)).end.tasks).toBe(0);
    expect(h.engine.figures().runningBackups).toBe(1);
  });

  test('if its caller is gone', async () => {
    const h = await open();
    const parts = h.engine.backups.backup(backupRequest(P), AbortSignal.abort());
    await expect(h.clock.run(parts.next())).rejects.toMatchObject({ reason: 'CANCELLED' });
  });
});

describe('a backup whose partition changes its state', () => {
  test('waits for the end of a freeze before it begins', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1']));
    h.engine.partitions.freeze(P);
    const reading = BackupCopy.read(backup(h));
    await h.clock.advance(500);
    await h.clock.run(h.engine.partitions.thaw(P));
    expect((await h.clock.run(reading)).end.tasks).toBe(1);
  });

  test('goes on while the partition is frozen', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1']));
    const parts = backup(h);
    await h.clock.run(parts.next());
    h.engine.partitions.freeze(P);
    expect((await h.clock.run(BackupCopy.read(parts))).end.tasks).toBe(1);
  });

  test.each(Array.from({ length: 40 }, (_, i) => i * 3))(
    'is complete or ends with BACKUP_BROKEN if the partition is given up %d ms after it began',
    async (ms) => {
      const h = await open({ config: { checkpointIntervalMs: 20 } });
      for (const queue of ['1', '2', '3']) await h.clock.run(h.enqueue(`orders#${queue}`, pidsFrom(2_500)));
      const reading = BackupCopy.read(backup(h), () => wait(h, 5)).catch((error: unknown) => error);
      await h.clock.advance(ms);
      await h.clock.run(h.engine.partitions.release(P, 'b', 2));
      const read = await h.clock.run(reading);
      if (read instanceof BackupCopy) await restored(read);
      else expect(read).toMatchObject({ reason: 'BACKUP_BROKEN', metadata: { partition: String(P) } });
      expect(h.engine.figures().runningBackups).toBe(0);
    },
  );

  test('ends with BACKUP_BROKEN if the partition left and came back', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(2_500)));
    const parts = backup(h);
    await h.clock.run(parts.next());
    await h.clock.run(h.engine.partitions.release(P, 'b', 2));
    await h.clock.run(h.engine.partitions.claim([{ id: P, epoch: 3 }]));
    await expect(h.clock.run(parts.next())).rejects.toMatchObject({ reason: 'BACKUP_BROKEN' });
  });
});

describe('a backup that is read slowly', () => {
  const big = (pid: string) => ({ queue: QUEUE, pid, data: 'x'.repeat(3 * 1024 * 1024) });

  test('ends with BACKUP_TOO_SLOW when too much of the log waits, and keeps none of it', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(2_500)));
    const parts = backup(h);
    await h.clock.run(parts.next());
    await h.clock.run(parts.next());
    for (let i = 0; i < 11; i++) await h.clock.run(h.update({ enqueue: [big(`x${i}`)] }));
    await h.clock.advance(1_000);
    await expect(h.clock.run(parts.next())).rejects.toMatchObject({ reason: 'BACKUP_TOO_SLOW' });
    expect(h.engine.figures().runningBackups).toBe(0);
    await restored(await readAll(h));
  });

  test('is given up with return: nothing of it is left', async () => {
    const h = await open();
    const parts = backup(h);
    await h.clock.run(parts.next());
    await parts.return?.();
    expect(h.engine.figures().runningBackups).toBe(0);
    expect(await parts.next()).toEqual({ done: true, value: undefined });
  });

  test('is given up by its signal while the limit of bytes delays it', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(2_500)));
    const giveUp = new AbortController();
    const request = backupRequest(P, { maxBytesPerSecond: 10 });
    const reading = BackupCopy.read(h.engine.backups.backup(request, giveUp.signal));
    reading.catch(() => {});
    await h.clock.advance(5_000);
    giveUp.abort();
    await expect(h.clock.run(reading)).rejects.toMatchObject({ reason: 'CANCELLED' });
    expect(h.engine.figures().runningBackups).toBe(0);
  });
});

describe('the limit of bytes per second', () => {
  test.each([
    ['the request', { maxBytesPerSecond: 10_000 }, 0],
    ['the node', {}, 10_000],
    ['the node, if the request asks for more', { maxBytesPerSecond: 1_000_000 }, 10_000],
    ['the request, if the node allows more', { maxBytesPerSecond: 10_000 }, 1_000_000],
  ])('is that of %s', async (_, change, maxBackupBytesPerSecond) => {
    const h = await open({ config: { maxBackupBytesPerSecond } });
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(800)));
    const from = h.clock.now();
    const copy = await readAll(h, change);
    const tookMs = h.clock.now() - from;
    expect(tookMs / 1_000).toBeGreaterThan(copy.bytes / 10_000 - 0.1);
    expect(tookMs / 1_000).toBeLessThan(copy.bytes / 10_000 + 1);
  });

  test('is shared by all backups of the node', async () => {
    const h = await open({ config: { maxBackupBytesPerSecond: 10_000 } });
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(800)));
    const from = h.clock.now();
    const [a, b] = await h.clock.run(Promise.all([BackupCopy.read(backup(h)), BackupCopy.read(backup(h))]));
    expect(h.clock.now() - from).toBeGreaterThan((a.bytes + b.bytes) / 10 - 100);
  });

  test('does not stop the backup of a partition whose log grows faster', async () => {
    const h = await open({ config: { maxBackupBytesPerSecond: 20_000 } });
    const add = (pid: string) => h.update({ enqueue: [{ queue: QUEUE, pid, data: 'x'.repeat(10_000) }] });
    for (let i = 0; i < 60; i++) await h.clock.run(add(`${i}`));
    let adding = true;
    const added = (async (): Promise<void> => {
      for (let i = 0; adding; i++) {
        await add(`x${i}`);
        await wait(h, 200);
      }
    })();
    const copy = await readAll(h);
    adding = false;
    await h.clock.run(added);
    expect(copy.end.tasks).toBeGreaterThan(60);
    await restored(copy);
  });
});

describe('a backup of a node that cannot go on', () => {
  test('ends with SHUTTING_DOWN when the node stops, and the stop does not wait for its reader', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(2_500)));
    const suspended = backup(h);
    await h.clock.run(suspended.next());
    const delayed = BackupCopy.read(backup(h, { maxBytesPerSecond: 1 }));
    delayed.catch(() => {});
    await h.clock.advance(1_000);
    await h.clock.run(h.engine.stop());
    await expect(h.clock.run(delayed)).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
    await expect(h.clock.run(suspended.next())).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
    await expect(h.clock.run(backup(h).next())).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  });

  test('reads the store no more once the node has stopped', async () => {
    const h = await open({ readMs: 50 });
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(2_500)));
    const reading = BackupCopy.read(backup(h));
    reading.catch(() => {});
    await h.clock.advance(20);
    await h.clock.run(h.close());
    await expect(reading).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  });

  test.each(Array.from({ length: 12 }, (_, i) => i + 1))('ends with a reason when fsync %d fails', async (nth) => {
    const h = await open({ config: { checkpointIntervalMs: 20 } });
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(2_500)));
    const change = async (): Promise<void> => {
      for (let i = 0; i < 50; i++) await h.enqueue(QUEUE, [`x${i}`]);
    };
    const changed = change().catch(() => {});
    const reading = BackupCopy.read(backup(h), () => wait(h, 10)).catch((error: unknown) => error);
    h.disk.failSync(nth);
    const read = await h.clock.run(reading);
    await h.clock.run(changed);
    if (read instanceof BackupCopy) await restored(read);
    else expect(['BACKUP_BROKEN', 'STORE_FAILED']).toContain((read as { reason: string }).reason);
  });

  test('ends with DISK_FULL after a full disk, and can begin again', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(2_500)));
    const parts = backup(h);
    await h.clock.run(parts.next());
    h.disk.space = 'none';
    await expect(h.clock.run(h.lease(QUEUE))).rejects.toMatchObject({ reason: 'DISK_FULL' });
    h.disk.space = 'plenty';
    await h.clock.advance(2_000);
    await expect(h.clock.run(BackupCopy.read(parts))).rejects.toMatchObject({ reason: 'DISK_FULL' });
    expect((await readAll(h)).end.tasks).toBe(2_500);
  });

  test('ends with CORRUPT_DATA if a row is damaged', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, pidsFrom(10)));
    const row = h.disk.rowsOf(Family.data)[5];
    if (row) h.disk.corrupt(Family.data, row.key);
    await expect(readAll(h)).rejects.toMatchObject({ reason: 'CORRUPT_DATA' });
  });
});
