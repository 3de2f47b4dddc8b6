import { MemoryStore } from '@taskmaster/backup/testing';
import { EventKind, MissedRuns, partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { formatPosition } from '../../domain/events.ts';
import type { LeaseToken } from '../../domain/ids.ts';
import { StoreFullError } from '../../ports/store.ts';
import { VirtualClock } from '../../ports/virtual-clock.ts';
import { putSchedule, runPids, scheduleOf, waitingIn } from '../../schedules/test-support.ts';
import { backupOf, restoreTo } from '../../testing/backup-of-engine.ts';
import { EngineHarness, type HarnessOptions, pidsOf } from '../../testing/engine-harness.ts';
import { pauseQueues } from '../../testing/pause-queues.ts';
import { restoreBackup } from './restore-backup.ts';

const QUEUE = 'orders#new';
const DAY = 24 * 3600 * 1000;

async function open(options: HarnessOptions = {}): Promise<EngineHarness> {
  const h = new EngineHarness({ ...options, config: { partitions: 4, ...options.config } });
  await h.open();
  return h;
}

/** A machine without data. Its settings ask for another number of partitions than the backup has. */
const newMachine = (options: HarnessOptions = {}): EngineHarness =>
  new EngineHarness({ clock: new VirtualClock(), ...options });

async function restored(source: MemoryStore, h = newMachine()): Promise<EngineHarness> {
  await restoreTo(h, source);
  await h.open();
  return h;
}

describe('a restored node', () => {
  test('has everything: payloads, leases, delays, request ids, attempts, the FIFO position', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2', '3']));
    await h.clock.run(h.update({ enqueue: [{ queue: QUEUE, pid: '4', delay: 60_000 }] }));
    const [first] = await h.clock.run(h.lease(QUEUE, { for: 30_000 }));
    const fifo = { enqueue: [{ queue: 'orders#fifo', data: 'x' }], id: 'request-1' };
    const before = await h.clock.run(h.update(fifo));
    const to = await restored(await backupOf(h));
    expect(to.engine.partitions.count).toBe(4);
    expect(await to.clock.run(to.counts(QUEUE))).toEqual({ available: 2, leased: 1, delayed: 1 });
    expect(await to.clock.run(to.update(fifo))).toEqual(before);
    await to.clock.run(to.update({ dequeue: [{ queue: QUEUE, pid: '1', token: first?.token }] }));
    const [leased] = await to.clock.run(to.lease(QUEUE));
    expect(Buffer.from(leased?.data ?? []).toString()).toBe('data of 2');
  });

  test('has leases and delays by the time that remained, however old the backup is', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['leased']));
    await h.clock.run(h.update({ enqueue: [{ queue: QUEUE, pid: 'delayed', delay: 60_000 }] }));
    await h.clock.run(h.lease(QUEUE, { for: 30_000 }));
    await h.clock.advance(10_000);
    const to = newMachine();
    await to.clock.advance(7 * DAY);
    await restored(await backupOf(h), to);
    await to.clock.advance(19_000);
    expect(await to.clock.run(to.counts(QUEUE))).toEqual({ available: 0, leased: 1, delayed: 1 });
    await to.clock.advance(2_000);
    expect(await to.clock.run(to.counts(QUEUE))).toEqual({ available: 1, leased: 0, delayed: 1 });
    await to.clock.advance(28_000);
    expect(await to.clock.run(to.counts(QUEUE))).toEqual({ available: 1, leased: 0, delayed: 1 });
    await to.clock.advance(2_000);
    expect(await to.clock.run(to.counts(QUEUE))).toEqual({ available: 2, leased: 0, delayed: 0 });
  });

  test('tells readers of events whose positions are of before the backup', async () => {
    const h = await open();
    const { position } = await h.clock.run(h.readEvents('orders#*'));
    const to = newMachine();
    await to.clock.advance(DAY);
    await restored(await backupOf(h), to);
    const { events } = await to.clock.run(to.readEvents('orders#*', { after: formatPosition(position) }));
    expect(events.map(({ kind }) => kind)).toEqual([EventKind.EVENT_KIND_MISSED]);
    const last = {
      ...position,
      ticket: to.engine.partitions.ticketsOf(position.partition)?.lastTicket ?? position.ticket,
    };
    const behind = await to.clock.run(to.readEvents('orders#*', { after: formatPosition(last) }));
    expect(behind.events.map(({ kind }) => kind)).toEqual([EventKind.EVENT_KIND_MISSED]);
  });

  test('has pauses, by the time that remained', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1']));
    await h.clock.run(h.enqueue('orders#old', ['2']));
    await h.clock.run(pauseQueues(h.engine, QUEUE, { durationMs: 60_000 }));
    await h.clock.run(pauseQueues(h.engine, 'orders#o*'));
    await h.clock.advance(10_000);
    const to = newMachine();
    await to.clock.advance(7 * DAY);
    await restored(await backupOf(h), to);
    await to.clock.advance(45_000);
    expect(await to.clock.run(to.lease([QUEUE, 'orders#old'], { max: 9 }))).toEqual([]);
    await to.clock.advance(6_000);
    expect(pidsOf(await to.clock.run(to.lease([QUEUE, 'orders#old'], { max: 9 })))).toEqual(['1']);
  });

  test('gives larger lease tokens than the old node gave after the backup', async () => {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2']));
    const backup = await backupOf(h);
    let last = 0 as LeaseToken;
    for (let i = 0; i < 100; i++) {
      const [task] = await h.clock.run(h.lease(QUEUE, { for: 10 }));
      last = task?.token ?? last;
      await h.clock.advance(20);
    }
    const to = newMachine();
    await to.clock.advance(2_000);
    await restored(backup, to);
    const [task] = await to.clock.run(to.lease(QUEUE));
    expect(task?.token).toBeGreaterThan(last);
    await to.crash();
    expect(pidsOf(await to.clock.run(to.lease(QUEUE)))).toEqual(['2']);
  });

  test('remembers request ids although its retry window has another length', async () => {
    const h = await open();
    const request = { enqueue: [{ queue: QUEUE, data: 'x' }], id: 'request-1' };
    const before = await h.clock.run(h.update(request));
    const backup = await backupOf(h);
    for (const requestIdWindowMs of [10_000, 3_600_000]) {
      const to = new EngineHarness({ config: { requestIdWindowMs } });
      await restoreTo(to, backup, requestIdWindowMs);
      await to.open();
      expect(await to.clock.run(to.update(request))).toEqual(before);
    }
  });

  test('has an empty partition, too: its tickets go on behind those of the old node', async () => {
    const h = await open();
    const to = await restored(await backupOf(h));
    await to.clock.run(to.enqueue(QUEUE, ['1']));
    const ticket = to.engine.partitions.ticketsOf(partitionOf('orders', 4) as never)?.lastTicket;
    expect(ticket).toBeGreaterThan(64 * Date.UTC(2026, 0, 1));
  });

  test.each(Array.from({ length: 20 }, (_, seed) => [seed + 1, seed % 2 === 0] as const))(
    'has what the old one had after any history: seed %d, atomic %s',
    async (seed, atomicBatches) => {
      const h = await open({ seed, atomicBatches, config: { checkpointIntervalMs: 30 } });
      const queues = ['a#1', 'a#2', 'b#1', 'c#1'];
      for (let step = 0; step < 60; step++) {
        const queue = queues[h.random.int(queues.length)] ?? '';
        const pid = `${h.random.int(30)}`;
        const action = h.random.int(5);
        if (action <= 1) await h.clock.run(h.enqueue(queue, [pid, `${pid}x`]));
        else if (action === 2) await h.clock.run(h.update({ enqueue: [{ queue, pid, delay: h.random.int(500) }] }));
        else if (action === 3) await h.clock.run(h.lease(queue, { max: 3, for: 1 + h.random.int(300) }));
        else await h.clock.run(h.update({ dequeue: [{ queue, pid }] })).catch(() => {});
        await h.clock.advance(h.random.int(40));
      }
      const backup = await backupOf(h, 300);
      const to = await restored(backup, newMachine({ atomicBatches }));
      const behindMs = to.clock.now() - h.clock.now();
      for (const queue of queues) {
        const [old, now] = [await h.clock.run(h.counts(queue)), await to.clock.run(to.counts(queue))];
        expect(now, queue).toEqual(old);
      }
      expect(behindMs).not.toBe(0);
      // When all leases and delays have ended, both give the same tasks. Counting looks for them.
      for (const each of [h, to]) {
        await each.clock.advance(1_000);
        for (const queue of queues) await each.clock.run(each.counts(queue));
      }
      for (const queue of queues) {
        const lease = (each: EngineHarness) => each.clock.run(each.lease(queue, { max: 100 }));
        const texts = (await lease(h)).map(({ pid, attempt, data }) => `${pid} ${attempt} ${Buffer.from(data)}`);
        expect((await lease(to)).map(({ pid, attempt, data }) => `${pid} ${attempt} ${Buffer.from(data)}`)).toEqual(
          texts,
        );
      }
    },
  );
});

describe('a restore', () => {
  async function aBackup(): Promise<MemoryStore> {
    const h = await open();
    await h.clock.run(h.enqueue(QUEUE, ['1', '2', '3']));
    await h.clock.run(h.enqueue('mail#new', ['1']));
    return backupOf(h, 1);
  }

  test('that has resolved survives a power loss', async () => {
    const backup = await aBackup();
    for (const atomicBatches of [true, false]) {
      const h = newMachine({ atomicBatches });
      await restoreTo(h, backup);
      h.disk.crash();
      await h.open();
      expect(await h.clock.run(h.counts(QUEUE))).toEqual({ available: 3, leased: 0, delayed: 0 });
      expect(await h.clock.run(h.counts('mail#new'))).toEqual({ available: 1, leased: 0, delayed: 0 });
    }
  });

  test('rejects if any of its writes fails', async () => {
    const backup = await aBackup();
    const counting = newMachine();
    let writes = 0;
    counting.disk.onStep = ({ kind, phase }) => {
      if (kind === 'write' && phase === 'before') writes++;
    };
    await restoreTo(counting, backup);
    expect(writes).toBeGreaterThan(6);
    for (let good = 0; good < writes - 1; good++) {
      const h = newMachine();
      let done = 0;
      h.disk.onStep = ({ kind, phase }) => {
        if (kind === 'write' && phase === 'before' && done++ === good) h.disk.space = 'none';
      };
      const failed = restoreTo(h, backup);
      await expect(failed, `after ${good} writes`).rejects.toThrow(StoreFullError);
    }
  });

  test('rejects with any object of the backup missing or damaged', async () => {
    const backup = await aBackup();
    for (const [name, bytes] of backup.objects) {
      for (const changed of [undefined, Buffer.from(bytes).fill(1, bytes.byteLength >> 1)]) {
        const objects = new Map(backup.objects);
        if (changed) objects.set(name, changed);
        else objects.delete(name);
        const failed = restoreTo(newMachine(), new MemoryStore(objects));
        await expect(failed, name).rejects.toMatchObject({
          reason: expect.stringMatching(/BACKUP_DAMAGED|BACKUP_INCOMPLETE/),
        });
      }
    }
  });

  test('of a stream has nothing of an attempt that broke', async () => {
    const h = await open();
    await h.clock.run(h.enqueue('orders#old', ['1', '2', '3']));
    const early = await backupOf(h, 1);
    await h.clock.run(h.engine.deleteQueue('orders#old' as never)).catch(() => {});
    const late = await backupOf(h, 1);
    const partition = partitionOf('orders', 4);
    async function* stream() {
      // The attempt has sent everything but its end.
      const names = [...early.objects.keys()].filter((name) => name.startsWith(`partition-0000${partition}`));
      for (const name of names.toSorted().slice(0, -1))
        yield { name, bytes: early.objects.get(name) ?? Buffer.alloc(0) };
      for (const [name, bytes] of [...late.objects].toSorted(([a], [b]) => (a < b ? 1 : -1)).toReversed()) {
        if (name !== 'manifest.json') yield { name, bytes };
      }
      yield { name: 'manifest.json', bytes: late.objects.get('manifest.json') ?? Buffer.alloc(0) };
    }
    const to = newMachine();
    const store = to.disk.open();
    const source = { title: 'a stream', store: undefined, stream, [Symbol.asyncDispose]: async () => {} };
    const { signal } = new AbortController();
    await restoreBackup({ store, source, requestWindowMs: 120_000, now: to.clock.now(), signal });
    await store.close();
    await to.open();
    expect(await to.clock.run(to.counts('orders#old'))).toEqual(await h.clock.run(h.counts('orders#old')));
  });
});

test('a restored schedule goes on at its instants, by the clock of the new machine', async () => {
  const h = await open();
  const { view } = await h.clock.run(putSchedule(h, { intervalMs: DAY, missedRuns: MissedRuns.MISSED_RUNS_ONCE }));
  const from = view.record.anchorUnixMs;
  const to = newMachine();
  await to.clock.advance(3.5 * DAY);
  await restored(await backupOf(h), to);
  await to.clock.advance(200);
  expect(await to.clock.run(waitingIn(to))).toEqual(runPids([from + 3 * DAY]));
  expect(await to.clock.run(scheduleOf(to, undefined, 1))).toMatchObject({
    record: { runs: 1, missed: 2 },
    nextRuns: [from + 4 * DAY],
  });
});
