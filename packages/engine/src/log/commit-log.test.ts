import { describe, expect, test, vi } from 'vitest';
import type { ApplyAtom } from '../domain/atom.ts';
import type { Instant, LeaseToken, PartitionId, Pid, QueueId, Ticket } from '../domain/ids.ts';
import { pidOfTaskKey, queueKey, ticketOfLogKey } from '../domain/keys.ts';
import { AVAILABLE } from '../domain/task.ts';
import { Family, StoreFailedError } from '../ports/store.ts';
import { settle, VirtualTime } from '../ports/virtual-clock.ts';
import type { WriteBatch } from '../ports/write-batch.ts';
import { SeededRandom } from '../testing/seeded-random.ts';
import { SimDisk, type SimDiskOptions } from '../testing/sim-store.ts';
import { CommitLog, type CommitLogOptions, localDisk } from './commit-log.ts';

const PARTITION = 1 as PartitionId;
const QUEUE = 1 as QueueId;
const QUEUE_ROW = queueKey(PARTITION, QUEUE);

/** An atom with this ticket that enqueues one task, whose PID is the ticket. */
const atom = (ticket: number, more: Partial<ApplyAtom> = {}): ApplyAtom => {
  const pid = String.fromCharCode(ticket) as Pid;
  const state = {
    enqueuedAt: 0 as Instant,
    dueAt: 0 as Instant,
    dataBytes: 1,
    headerBytes: 0,
    attempts: 0,
    token: 0 as LeaseToken,
    retry: undefined,
    history: undefined,
  };
  const after = { ...state, visibility: AVAILABLE };
  return {
    partition: PARTITION,
    ticket: ticket as Ticket,
    at: 0 as Instant,
    created: [],
    changes: [{ kind: 'enqueue', queueId: QUEUE, pid, after, data: Uint8Array.of(ticket) }],
    dropped: [],
    request: undefined,
    ...more,
  };
};

function setUp(options: Partial<CommitLogOptions> & Partial<SimDiskOptions> = {}) {
  const time = new VirtualTime();
  const disk = new SimDisk({ random: new SeededRandom(1), clock: time, ...options });
  const store = disk.open();
  const applied = { count: 0 };
  const onFailed = vi.fn();
  const log = new CommitLog({
    told: (cause) => cause,
    store,
    sync: true,
    durability: localDisk,
    requestWindowMs: 60_000,
    writeTasks: () => undefined,
    onApplied: (atoms) => {
      applied.count += atoms;
    },
    onFailed,
    ...options,
  });
  const loggedTickets = () => disk.rowsOf(Family.log).map(({ key }) => ticketOfLogKey(key));
  return { time, disk, store, log, applied, onFailed, loggedTickets };
}

describe('the commit log', () => {
  test('commits the atoms of one turn as one group', async () => {
    const { log, applied } = setUp();
    for (const ticket of [1, 2, 3]) log.append(atom(ticket));
    await log.durable();
    await settle();
    expect(log.figures).toMatchObject({ groups: 1, atoms: 3 });
    expect(applied.count).toBe(3);
  });

  test('collects atoms in one group while the disk is busy', async () => {
    const { log, time, applied } = setUp({ syncMs: 10 });
    for (let ticket = 1; ticket <= 20; ticket++) {
      log.append(atom(ticket));
      await settle();
    }
    await time.run(log.durable());
    await settle();
    expect(log.figures.groups).toBe(2);
    expect(applied.count).toBe(20);
  });

  test('reports atoms as durable in the order of the appends, and only if they survive a crash', async () => {
    const { log, time, disk, loggedTickets } = setUp({ syncMs: 10 });
    const durable: number[] = [];
    for (const ticket of [1, 2, 3]) {
      log.append(atom(ticket));
      void log.durable().then(() => durable.push(ticket));
      await settle();
    }
    expect(durable).toEqual([]);
    await time.advance(10);
    expect(durable).toEqual([1]);
    disk.crash();
    expect(loggedTickets()).toContain(1);
  });

  test('reports no group as durable before an earlier one, even if the policy does', async () => {
    const standby = Promise.withResolvers<void>();
    const durability = (local: Promise<void>, [first]: readonly ApplyAtom[]) =>
      first?.ticket === 1 ? local.then(() => standby.promise) : local;
    const { log, applied } = setUp({ durability });
    const durable = vi.fn();
    log.append(atom(1));
    await settle();
    log.append(atom(2));
    void log.durable().then(durable);
    await settle();
    expect([durable.mock.calls.length, applied.count]).toEqual([0, 0]);
    standby.resolve();
    await settle();
    expect([durable.mock.calls.length, applied.count]).toEqual([1, 2]);
  });

  test('rejects all waiting callers after a failed fsync and accepts no more atoms', async () => {
    const { log, disk, applied, onFailed } = setUp();
    log.append(atom(1));
    await log.durable();
    await settle();
    disk.failSync();
    log.append(atom(2));
    const first = log.durable();
    await Promise.resolve();
    log.append(atom(3));
    const second = log.durable();
    await expect(first).rejects.toBeInstanceOf(StoreFailedError);
    await expect(second).rejects.toBeInstanceOf(StoreFailedError);
    expect(() => log.append(atom(4))).toThrow(StoreFailedError);
    await expect(log.appendRows(() => {})).rejects.toBeInstanceOf(StoreFailedError);
    await expect(log.durable()).rejects.toBeInstanceOf(StoreFailedError);
    expect(applied.count).toBe(1);
    expect(onFailed).toHaveBeenCalledOnce();
  });

  test('keeps the order of rows and atoms: rows of a dropped queue do not reappear', async () => {
    const { log, disk } = setUp();
    const rows = log.appendRows((batch) => batch.put(Family.queues, QUEUE_ROW, Uint8Array.of(1)));
    log.append(atom(1, { changes: [], dropped: [{ queueId: QUEUE, reap: false }] }));
    await Promise.all([rows, log.durable()]);
    await settle();
    expect(disk.rowsOf(Family.queues)).toEqual([]);
  });

  test('appended rows are on disk when the promise resolves, even if atoms are not synced', async () => {
    const { log, disk } = setUp({ sync: false });
    await log.appendRows((batch) => batch.put(Family.queues, QUEUE_ROW, Uint8Array.of(1)));
    disk.crash();
    expect(disk.rowsOf(Family.queues).map(({ key }) => key)).toEqual([QUEUE_ROW]);
  });

  test('appended rows are written behind the rows of changed tasks', async () => {
    const put = (value: number) => (rows: WriteBatch) => rows.put(Family.queues, QUEUE_ROW, Uint8Array.of(value));
    const written = vi.fn();
    const { log, disk } = setUp({
      writeTasks: (rows, most) => {
        if (most === 0) return undefined;
        put(1)(rows);
        return written;
      },
    });
    await log.appendRows(put(2));
    expect(written).toHaveBeenCalledOnce();
    disk.crash();
    expect(disk.rowsOf(Family.queues).map(({ value }) => [...value])).toEqual([[2]]);
  });

  test('rows that must be written with their atoms are written once for a group', async () => {
    const written = vi.fn();
    const writeTasks = vi.fn(() => written);
    const { log } = setUp({ writeTasks });
    for (const ticket of [1, 2, 3]) log.append(atom(ticket));
    expect(writeTasks).not.toHaveBeenCalled();
    await log.durable();
    expect(writeTasks).toHaveBeenCalledExactlyOnceWith(expect.anything(), 0);
    expect(written).toHaveBeenCalledOnce();
  });

  test('callers do not wait for rows of changed tasks', async () => {
    const { log, time } = setUp({ writeMs: 10 });
    const written = log.writeTasks(10);
    await expect(log.durable()).resolves.toBeUndefined();
    await time.run(written);
  });

  test.each([true, false])(
    'a crash anywhere leaves no row without the log entry that repeats it (atomic batches: %s)',
    async (atomicBatches) => {
      for (let step = 1; step <= 24; step++) {
        const { log, disk, onFailed, loggedTickets } = setUp({ atomicBatches, random: new SeededRandom(step) });
        disk.crashAt(step);
        for (let ticket = 1; ticket <= 6 && onFailed.mock.calls.length === 0; ticket++) {
          log.append(atom(ticket));
          await settle();
        }
        disk.crash();
        const tasks = disk.rowsOf(Family.data).map(({ key }) => pidOfTaskKey(key).charCodeAt(0));
        expect(loggedTickets(), `crash at step ${step}`).toEqual(expect.arrayContaining(tasks));
      }
    },
  );
});

test('without atomic batches, entries are written after those of the previous group are on disk', async () => {
  const { log, time, store } = setUp({ atomicBatches: false, syncMs: 10 });
  const write = vi.spyOn(store, 'write');
  const entriesGiven = () => write.mock.calls.filter(([, { sync }]) => sync).length;
  for (const ticket of [1, 2]) {
    log.append(atom(ticket));
    await settle();
  }
  expect(entriesGiven()).toBe(1);
  await time.advance(10);
  expect(entriesGiven()).toBe(2);
});

test('an empty log is durable', async () => {
  await expect(setUp().log.durable()).resolves.toBeUndefined();
});
