import { EventKind, parseQueueName, partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import { formatPosition } from '../domain/events.ts';
import type { Instant, PartitionId, Pid, QueueId, Ticket } from '../domain/ids.ts';
import { ticketBehindEarlierLives } from '../log/partition-row.ts';
import { VirtualClock, VirtualTime } from '../ports/virtual-clock.ts';
import { EngineHarness, pidsOf } from '../testing/engine-harness.ts';
import { limitQueues } from '../testing/limit-queues.ts';
import { putSettings } from '../testing/put-settings.ts';
import type { PartitionExport } from './transfer/export-partition.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 4) as PartitionId;
const PIDS = ['1', '2', '3'];

/** An engine that holds the partition at that epoch, with three tasks. */
async function holderAt(epoch: number, readMs = 0): Promise<EngineHarness> {
  const config = { partitions: 4, cacheBytes: 1 };
  const h = new EngineHarness({ clustered: true, writeMs: 1, syncMs: 2, readMs, config });
  await h.open();
  await h.clock.run(h.engine.partitions.claim([{ id: P, epoch }]));
  await h.clock.run(h.enqueue(QUEUE, PIDS));
  return h;
}

async function snapshotOf(h: EngineHarness): Promise<{ leaving: PartitionExport; rows: unknown[] }> {
  const leaving = h.engine.partitions.export(P);
  const rows: unknown[] = [];
  const read = async (): Promise<void> => {
    for await (const part of leaving.rows()) rows.push(...part);
  };
  await h.clock.run(read());
  return { leaving, rows };
}

describe('a partition that returns right after it was given up', () => {
  test.each([0, 1, 50, 95])(
    'keeps its new rows, because the old ones are deleted first; offered after %d ms',
    async (ms) => {
      const other = await holderAt(2);
      const { leaving, rows } = await snapshotOf(other);
      const h = await holderAt(1, 100);
      await h.crash();
      const { partitions } = h.engine;
      // No rows are deleted while this lease reads the heads of queues and then its payloads.
      const leasing = h.lease(QUEUE, { max: 3 });
      leasing.catch(() => {});
      await h.clock.advance(105);
      const released = partitions.supersede(P, { nodeId: 'b', epoch: 2 });
      const back = async (): Promise<void> => {
        if (ms > 0) await new Promise<void>((resolve) => h.clock.at((h.clock.now() + ms) as Instant, resolve));
        const arriving = await partitions.import({ id: P, epoch: 3, ...leaving.offer, now: h.clock.now() });
        await arriving.addRows(rows as never);
        await new Promise<void>((resolve) => h.clock.at((h.clock.now() + 400) as Instant, resolve));
        arriving.assertComplete(leaving.offer.ticket, PIDS.length);
        await partitions.take(arriving);
      };
      await h.clock.run(Promise.all([released, back()]));
      expect(partitions.holding(P)).toEqual({ kind: 'serving', epoch: 3 });
      expect(pidsOf(await h.clock.run(h.lease(QUEUE, { max: 9 })))).toEqual(PIDS);
      await h.crash();
      expect(h.taskRows()).toBe(PIDS.length);
    },
  );
});

/**
 * Work goes on at one node until all of its partition has arrived at another one, which crashes then. `more`: its new rows.
 * `aheadMs`: how far the clock there is ahead.
 */
async function moved(
  from: EngineHarness,
  meanwhile: (from: EngineHarness) => Promise<unknown>,
  more: number,
  aheadMs = 0,
): Promise<EngineHarness> {
  const { leaving, rows } = await snapshotOf(from);
  await meanwhile(from);
  await from.clock.run(leaving.synced());
  const clock = new VirtualClock({ time: new VirtualTime(from.clock.time.now() + aheadMs) });
  const h = new EngineHarness({ clustered: true, syncMs: 1, config: { partitions: 4, cacheBytes: 1 }, clock });
  await h.open();
  const { partitions } = h.engine;
  const arriving = await h.clock.run(partitions.import({ id: P, epoch: 2, ...leaving.offer, now: from.clock.now() }));
  await h.clock.run(arriving.addRows(rows as never));
  await h.clock.run(arriving.addAtoms(leaving.takeAtoms()));
  arriving.assertComplete(from.engine.partitions.ticketsOf(P)?.lastTicket ?? 0, PIDS.length + more);
  await h.clock.run(partitions.take(arriving));
  await h.crash();
  return h;
}

test('a partition that moves while rows of its new tasks wait for a checkpoint arrives whole, and survives a crash there', async () => {
  const from = await holderAt(1);
  const leaseNow = async (): Promise<void> => {
    const [task] = await from.clock.run(from.lease(QUEUE));
    await from.clock.run(from.update({ dequeue: [{ queue: QUEUE, pid: task?.pid ?? '', token: task?.token }] }));
  };
  // From now on the rows of new tasks are written later.
  await leaseNow();
  await from.clock.run(from.enqueue(QUEUE, ['4', '5']));
  const meanwhile = async (): Promise<void> => {
    await leaseNow();
    await from.clock.run(from.enqueue(QUEUE, ['6', '7']));
    await from.clock.run(from.update({ dequeue: [{ queue: QUEUE, pid: '6' }] }));
  };
  const h = await moved(from, meanwhile, 1);
  const leased = await h.clock.run(h.lease(QUEUE, { max: 9 }));
  expect(leased.map(({ pid, data }) => [pid, Buffer.from(data).toString()])).toEqual(
    ['3', '4', '5', '7'].map((pid) => [pid, `data of ${pid}`]),
  );
});

test('a partition that moves knows which of its leased tasks have begun, and what they have left', async () => {
  const from = await holderAt(1);
  const [first, second] = await from.clock.run(
    from.lease(QUEUE, { max: 3, for: 60_000, starts: { now: 1, together: 1 } }),
  );
  const renewal = { queue: QUEUE, pid: first?.pid ?? '', token: first?.token, for: 60_000, checkpoint: 'page 3' };
  await from.clock.run(from.update({ renew: [renewal] }));
  const meanwhile = async (): Promise<void> => {
    // Of two leases that have begun, one is in the rows and one in the atoms.
    const begun = { queue: QUEUE, pid: second?.pid ?? '', token: second?.token, for: 60_000, begun: 1 };
    await from.clock.run(from.update({ renew: [begun] }));
  };
  const h = await moved(from, meanwhile, 0);
  await h.clock.advance(61_000);
  const command = { queue: parseQueueName(QUEUE), pids: PIDS as Pid[], includeData: false };
  const found = (await h.clock.run(h.engine.getTasks(command))).map(({ state }) => state);
  expect(found.map((state) => [state?.attempts, state?.history?.interruptions])).toEqual([
    [1, 0],
    [1, 0],
    [0, 1],
  ]);
  expect(Buffer.from(found[0]?.history?.checkpoint ?? []).toString()).toBe('page 3');
});

describe('a partition that moves under load', () => {
  const JOBS = 'orders#jobs';
  const MORE = 'orders#more';
  const HOUR = 3_600_000;
  const add = (h: EngineHarness, queue: string, pids: readonly string[]) =>
    h.clock.run(h.update({ enqueue: pids.map((pid) => ({ queue, pid, limitKey: pid.slice(0, 1) })) }));
  const lease = (h: EngineHarness, queues: string | string[], max: number) =>
    h.clock.run(h.lease(queues, { max, for: HOUR }));
  const done = (h: EngineHarness, queue: string, { pid, token }: Pick<LeasedTask, 'pid' | 'token'>) =>
    h.clock.run(h.update({ dequeue: [{ queue, pid, token }] }));

  test.each([
    ['of all tasks', '', 0],
    ['of each key', '*', 0],
    ['of all tasks, to a node whose clock is hours ahead', '', 5 * HOUR],
    ['of each key, to a node whose clock is hours ahead', '*', 5 * HOUR],
    ['of all tasks, to a node whose clock is hours behind', '', -5 * HOUR],
    ['of each key, to a node whose clock is hours behind', '*', -5 * HOUR],
  ])('keeps the rate %s: what was taken before and during the move', async (_name, keys, aheadMs) => {
    const from = await holderAt(1);
    const rate = { tasks: 1, perMs: 60_000, burst: 4 };
    await from.clock.run(limitQueues(from.engine, 'orders#*', { keys, rate }));
    await add(from, JOBS, ['a1', 'a2', 'a3', 'a4', 'a5', 'a6']);
    const took = async (h: EngineHarness, max: number) => pidsOf(await lease(h, JOBS, max));
    expect(await took(from, 1)).toEqual(['a1']);
    const meanwhile = async (): Promise<void> => expect(await took(from, 1)).toEqual(['a2']);
    // The tasks, the limit and its bucket.
    const h = await moved(from, meanwhile, 6 + 1 + 1, aheadMs);
    expect(await took(h, 9)).toEqual(['a3', 'a4']);
    await h.clock.advance(58_000);
    expect(await took(h, 9)).toEqual([]);
    await h.clock.advance(2_000);
    expect(await took(h, 9)).toEqual(['a5']);
  });

  test('keeps the limits of keys: what was leased before and during the move counts in all queues, once', async () => {
    const from = await holderAt(1);
    await from.clock.run(limitQueues(from.engine, 'orders#*', { keys: '*', maxLeased: 2 }));
    await add(from, JOBS, ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'b3']);
    await add(from, MORE, ['a5', 'a6']);
    const [a1] = await lease(from, JOBS, 1);
    const during: { a2?: LeasedTask | undefined; a5?: LeasedTask | undefined } = {};
    const h = await moved(
      from,
      async () => {
        [during.a2] = await lease(from, JOBS, 1);
        expect(pidsOf(await lease(from, JOBS, 1))).toEqual(['b1']);
        if (a1 !== undefined) await done(from, JOBS, a1);
        [during.a5] = await lease(from, MORE, 1);
        await add(from, JOBS, ['c1']);
      },
      10,
    );
    const { a2, a5 } = during;
    expect([a2?.pid, a5?.pid]).toEqual(['a2', 'a5']);
    expect(pidsOf(await lease(h, [JOBS, MORE], 9))).toEqual(['b2', 'c1']);
    const [use] = await h.clock.run(h.engine.limits.list('orders'));
    expect(use).toMatchObject({
      leased: 5,
      heldTasks: 4,
      heldKeys: [
        { key: 'a', available: 3 },
        { key: 'b', available: 1 },
      ],
    });
    // Each lease that was granted there gives its slot back here.
    if (a2 !== undefined) await done(h, JOBS, a2);
    expect(pidsOf(await lease(h, [MORE, JOBS], 9))).toEqual(['a6']);
    if (a5 !== undefined) await done(h, MORE, a5);
    expect(pidsOf(await lease(h, [MORE, JOBS], 9))).toEqual(['a3']);
  });

  test('goes on with fair turns: the work in flight counts, and so do the weights', async () => {
    const from = await holderAt(1);
    await from.clock.run(putSettings(from.engine, JOBS, { fairTurns: { weights: { c: 2 } } }));
    const many = (key: string, count: number) => Array.from({ length: count }, (_, at) => `${key}${100 + at}`);
    await add(from, JOBS, many('a', 40));
    await lease(from, JOBS, 2);
    const h = await moved(
      from,
      async () => {
        await lease(from, JOBS, 2);
        await add(from, JOBS, [...many('b', 10), ...many('c', 10)]);
      },
      61,
    );
    // Four tasks of one key are leased: the others catch up first, in shares of their weights.
    const next = pidsOf(await lease(h, JOBS, 9));
    expect(next.filter((pid) => pid.startsWith('a'))).toEqual([]);
    expect(next.filter((pid) => pid.startsWith('c'))).toEqual(many('c', 6));
    expect(next.filter((pid) => pid.startsWith('b'))).toEqual(many('b', 3));
  });
});

test.each([0, 1, 2, 4, 8])(
  'a partition that is given up while it begins a new life stays given up after a crash: given up after %d ms',
  async (ms) => {
    const h = await holderAt(1);
    const { partitions } = h.engine;
    partitions.freeze(P);
    await h.clock.run(partitions.handOver(P, 'b'));
    const thawed = partitions.thaw(P, 3);
    await h.clock.advance(ms);
    // The node that is gone had passed it on to this one.
    await h.clock.run(Promise.all([thawed, partitions.release(P, 'c', 5)]));
    const given = { kind: 'released', epoch: 5, to: 'c' };
    expect(partitions.holding(P)).toMatchObject(given);
    await h.crash();
    expect(h.engine.partitions.holding(P)).toMatchObject(given);
  },
);

test('a partition that may have changed at a node that is gone begins a new life with its tasks, also after a crash', async () => {
  const h = await holderAt(1);
  const { partitions } = h.engine;
  const [leased] = await h.clock.run(h.lease(QUEUE));
  const { position: earlier } = await h.clock.run(h.readEvents('orders#*'));
  const waiting = h.readEvents('orders#*', { wait: 60_000 });
  // The other node has served it for a while.
  await h.clock.advance(5_000);
  partitions.freeze(P);
  await h.clock.run(partitions.handOver(P, 'b'));
  await h.clock.advance(5_000);
  const behind = ticketBehindEarlierLives(h.clock.now());
  await h.clock.run(partitions.thaw(P, 3));
  expect(partitions.holding(P)).toEqual({ kind: 'serving', epoch: 3 });
  const read = async () => (await h.clock.run(h.readEvents('orders#*', { after: formatPosition(earlier) }))).events;
  expect((await h.clock.run(waiting)).events).toEqual([]);
  expect((await read()).map(({ kind }) => kind)).toEqual([EventKind.EVENT_KIND_MISSED]);
  const again = await h.clock.run(h.lease(QUEUE));
  await h.crash();
  const last = await h.clock.run(h.lease(QUEUE));
  expect([leased?.pid, ...pidsOf(again), ...pidsOf(last)]).toEqual(PIDS);
  for (const { token } of [...again, ...last]) expect(token).toBeGreaterThan(behind);
  expect((await read())[0]?.kind).toBe(EventKind.EVENT_KIND_MISSED);
});

describe('a partition that starts empty after an unfinished import of it', () => {
  /** Rows and atoms have arrived when the partition's holder is given up. */
  async function begunAnew(atomicBatches: boolean): Promise<EngineHarness> {
    const from = await holderAt(1);
    const { leaving, rows } = await snapshotOf(from);
    await from.clock.run(from.enqueue(QUEUE, ['4']));
    await from.clock.run(leaving.synced());
    const h = new EngineHarness({
      clustered: true,
      syncMs: 1,
      atomicBatches,
      config: { partitions: 4, cacheBytes: 1 },
    });
    await h.open();
    const { partitions } = h.engine;
    const arriving = await h.clock.run(partitions.import({ id: P, epoch: 2, ...leaving.offer, now: h.clock.now() }));
    await h.clock.run(arriving.addRows(rows as never));
    await h.clock.run(arriving.addAtoms(leaving.takeAtoms()));
    await h.clock.run(partitions.claim([{ id: P, epoch: 3 }]));
    return h;
  }

  test.each([true, false])('has no rows of the import (batches are atomic: %s)', async (atomicBatches) => {
    const h = await begunAnew(atomicBatches);
    expect(h.taskRows()).toBe(0);
    await h.clock.run(h.enqueue('orders#other', ['9']));
    await h.crash();
    expect(await h.clock.run(h.counts(QUEUE))).toEqual({ available: 0, leased: 0, delayed: 0 });
    expect(pidsOf(await h.clock.run(h.lease('orders#other', { max: 9 })))).toEqual(['9']);
    expect(pidsOf(await h.clock.run(h.lease(QUEUE, { max: 9 })))).toEqual([]);
  });

  test.each(Array.from({ length: 30 }, (_, ms) => ms))(
    'keeps its tasks although its disk was blocked, %d ms after the offer, while the import cleared rows',
    async (ms) => {
      const h = new EngineHarness({ clustered: true, writeMs: 1, syncMs: 1, config: { partitions: 4 } });
      await h.open();
      const { partitions } = h.engine;
      const offer = { ticket: 9 as Ticket, nextQueueId: 3 as QueueId, life: 0, now: h.clock.now() };
      const offered = partitions.import({ id: P, epoch: 2, ...offer }).then(
        () => 'begun',
        () => 'ended',
      );
      await h.clock.advance(ms);
      h.disk.stallWrite(10_000);
      await h.clock.advance(6_000);
      const claimed = partitions.claim([{ id: P, epoch: 3 }]).then(() => h.enqueue(QUEUE, PIDS));
      await h.clock.run(Promise.all([claimed, offered]));
      await h.crash();
      expect(pidsOf(await h.clock.run(h.lease(QUEUE, { max: 9 })))).toEqual(PIDS);
    },
  );

  test('refuses imports while it starts', async () => {
    const h = new EngineHarness({ clustered: true, writeMs: 1, syncMs: 1, config: { partitions: 4 } });
    await h.open();
    const { partitions } = h.engine;
    const claimed = partitions.claim([{ id: P, epoch: 3 }]);
    const offer = { ticket: 9 as Ticket, nextQueueId: 3 as QueueId, life: 0, now: h.clock.now() };
    const offered = partitions.import({ id: P, epoch: 2, ...offer });
    await expect(h.clock.run(offered)).rejects.toThrow('starts empty here');
    await h.clock.run(claimed);
  });

  test.each([0, 1, 2])('is not replaced by that import, which was being taken for %d ms', async (ms) => {
    const from = await holderAt(1);
    const { leaving, rows } = await snapshotOf(from);
    const options = { writeMs: 1, syncMs: 2, atomicBatches: false, config: { partitions: 4 } };
    const h = new EngineHarness({ clustered: true, ...options });
    await h.open();
    const { partitions } = h.engine;
    const arriving = await h.clock.run(partitions.import({ id: P, epoch: 2, ...leaving.offer, now: h.clock.now() }));
    await h.clock.run(arriving.addRows(rows as never));
    const taken = partitions.take(arriving).then(
      () => 'taken',
      () => 'ended',
    );
    await h.clock.advance(ms);
    await h.clock.run(partitions.claim([{ id: P, epoch: 3 }]));
    expect(await h.clock.run(taken)).toBe('ended');
    expect(partitions.holding(P)).toEqual({ kind: 'serving', epoch: 3 });
    expect(h.taskRows()).toBe(0);
    await h.crash();
    expect(h.engine.partitions.holding(P)).toEqual({ kind: 'serving', epoch: 3 });
  });

  test('is not replaced by that import or its late messages', async () => {
    const from = await holderAt(1);
    const { leaving, rows } = await snapshotOf(from);
    const h = new EngineHarness({ clustered: true, writeMs: 1, syncMs: 2, config: { partitions: 4 } });
    await h.open();
    const { partitions } = h.engine;
    const arriving = await h.clock.run(partitions.import({ id: P, epoch: 2, ...leaving.offer, now: h.clock.now() }));
    const sending = arriving.addRows(rows as never);
    await h.clock.run(partitions.claim([{ id: P, epoch: 3 }]));
    await h.clock.run(sending);
    await expect(h.clock.run(arriving.addRows(rows as never))).rejects.toThrow('starts empty here');
    await expect(h.clock.run(partitions.take(arriving))).rejects.toThrow('starts empty here');
    expect(h.taskRows()).toBe(0);
  });
});

test.each([
  ['available', 0],
  ['leased, then delayed', 50],
])('a task that replaces another with its PID in one update arrives with the log: %s', async (_, delay) => {
  const from = await holderAt(1);
  const to = await holderAt(1);
  await to.clock.run(to.engine.partitions.release(P, 'a', 2));
  const { leaving, rows } = await snapshotOf(from);
  if (delay > 0) await from.clock.run(from.lease(QUEUE));
  const [pid = ''] = PIDS;
  await from.clock.run(
    from.update({ dequeue: [{ queue: QUEUE, pid }], enqueue: [{ queue: QUEUE, pid, data: 'new', delay }] }),
  );
  await from.clock.run(leaving.synced());
  const { partitions } = to.engine;
  const arrive = async (): Promise<void> => {
    const arriving = await partitions.import({ id: P, epoch: 3, ...leaving.offer, now: to.clock.now() });
    await arriving.addRows(rows as never);
    await arriving.addAtoms(leaving.takeAtoms());
    await partitions.take(arriving);
  };
  await to.clock.run(arrive());
  await to.clock.advance(1000);
  expect(await to.clock.run(to.counts(QUEUE))).toEqual({ available: PIDS.length, leased: 0, delayed: 0 });
  const leased = await to.clock.run(to.lease(QUEUE, { max: 9 }));
  expect(leased.map((task) => [task.pid, Buffer.from(task.data).toString()])).toContainEqual([pid, 'new']);
  expect(leased).toHaveLength(PIDS.length);
});

describe('a partition whose holder row could not be written', () => {
  /** An import of which everything has arrived when the next fsync fails. */
  async function failedTake(atomicBatches: boolean): Promise<EngineHarness> {
    const other = await holderAt(1);
    const { leaving, rows } = await snapshotOf(other);
    const h = new EngineHarness({ clustered: true, syncMs: 1, atomicBatches, config: { partitions: 4 } });
    await h.open();
    const { partitions } = h.engine;
    const arriving = await h.clock.run(partitions.import({ id: P, epoch: 2, ...leaving.offer, now: h.clock.now() }));
    await h.clock.run(arriving.addRows(rows as never));
    h.disk.failSync(1);
    await expect(h.clock.run(partitions.take(arriving))).rejects.toThrow('failed to sync');
    return h;
  }

  test('is neither held nor given up until the next start', async () => {
    const h = await failedTake(true);
    expect(h.engine.partitions.holding(P)).toBeUndefined();
    await expect(h.clock.run(h.engine.partitions.settle(P))).rejects.toMatchObject({ reason: 'STORE_FAILED' });
  });

  test('is known not to be held if batches are not atomic and the write before it failed', async () => {
    const h = await failedTake(false);
    await h.clock.run(h.engine.partitions.settle(P));
    expect(h.engine.partitions.holding(P)).toBeUndefined();
  });
});

describe('a partition that was given up while the disk was full', () => {
  async function givenUpWhileFull(): Promise<EngineHarness> {
    const h = await holderAt(1);
    h.disk.space = 'none';
    await expect(h.clock.run(h.engine.partitions.release(P, 'b', 2))).rejects.toThrow('full');
    h.disk.space = 'plenty';
    await h.clock.advance(1000);
    return h;
  }

  test('is not held after a crash during its next import, which has cleared its rows', async () => {
    const other = await holderAt(2);
    const { leaving, rows } = await snapshotOf(other);
    const h = await givenUpWhileFull();
    const { partitions } = h.engine;
    const arriving = await h.clock.run(partitions.import({ id: P, epoch: 3, ...leaving.offer, now: h.clock.now() }));
    await h.clock.run(arriving.addRows(rows as never));
    await h.crash();
    expect(h.engine.partitions.holding(P)).toMatchObject({ kind: 'released', epoch: 2 });
    await h.clock.advance(1000);
    expect(h.taskRows()).toBe(0);
  });

  test('is not held at its old epoch after a crash while it starts empty', async () => {
    for (let step = 1; step <= 30; step++) {
      const h = await givenUpWhileFull();
      h.disk.crashAt(h.disk.steps + step);
      const claimed = h.engine.partitions.claim([{ id: P, epoch: 4 }]);
      claimed.catch(() => {});
      await h.clock.advance(1000);
      await h.crash();
      const holding = h.engine.partitions.holding(P);
      const tasks = h.engine.partitions.tasksIn(P);
      // The claim has ended, or has not begun to clear the rows.
      if (holding?.kind === 'serving') expect([holding.epoch, tasks]).toEqual(holding.epoch === 4 ? [4, 0] : [1, 3]);
      else expect(holding).toMatchObject({ kind: 'released' });
    }
  });
});

test('listeners hear of partitions that are claimed together in one call', async () => {
  const h = new EngineHarness({ clustered: true, config: { partitions: 1024 } });
  await h.open();
  const told: (readonly PartitionId[])[] = [];
  h.engine.partitions.onChange((changed) => void told.push(changed));
  const ids = Array.from({ length: 500 }, (_, i) => (2 * i) as PartitionId);
  await h.clock.run(h.engine.partitions.claim(ids.map((id) => ({ id, epoch: 3 }))));
  expect(told).toEqual([ids]);
});

describe('an operation that waits for a frozen partition which is then released', () => {
  const queue = parseQueueName(QUEUE);
  const operations: readonly [name: string, run: (h: EngineHarness) => Promise<unknown>][] = [
    ['an update', (h) => h.enqueue(QUEUE, ['4'])],
    ['a lease', (h) => h.lease(QUEUE)],
    ['a lease that waits', (h) => h.lease(QUEUE, { wait: 1000 })],
    ['the reset of leases', (h) => h.engine.resetLeases(queue)],
    ['the deletion of a queue', (h) => h.engine.deleteQueue(queue)],
    ['counts', (h) => h.counts(QUEUE)],
    ['a look at the head', (h) => h.engine.peekTasks({ queue, kind: 'head', limit: 1, includeData: false })],
    ['a look at a task', (h) => h.engine.getTasks({ queue, pids: ['1' as Pid], includeData: false })],
  ];
  test.each(operations)('is refused with NOT_HOLDER: %s', async (_, run) => {
    const h = await holderAt(1);
    const { partitions } = h.engine;
    partitions.freeze(P);
    const answer = run(h);
    answer.catch(() => {});
    await h.clock.advance(10);
    await h.clock.run(partitions.release(P, 'b', 2));
    await expect(h.clock.run(answer)).rejects.toMatchObject({ reason: 'NOT_HOLDER' });
  });
});

describe('a node that is paused between the permission to commit and the commit', () => {
  const mail = { enqueue: [{ queue: QUEUE, data: 'hello' }], id: 'once' };

  test('applies the repeated update: the refused one was not recorded', async () => {
    const h = await holderAt(1);
    // The guard is called twice in a turn. The second call notices the pause.
    let asked = 0;
    h.engine.partitions.guard(() => (++asked === 2 ? new Promise<void>(() => {}) : undefined));
    await expect(h.clock.run(h.update(mail))).rejects.toMatchObject({ reason: 'STARTING' });
    const repeated = await h.clock.run(h.update(mail));
    const leased = await h.clock.run(h.lease(QUEUE, { max: 9 }));
    expect(pidsOf(leased)).toEqual([...PIDS, ...repeated.enqueued.map(({ pid }) => pid)]);
  });
});
