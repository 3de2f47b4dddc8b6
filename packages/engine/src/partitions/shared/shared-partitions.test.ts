import { type BackupPoint, EnqueueMode, EventKind, parseQueueName, partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { formatPosition } from '../../domain/events.ts';
import type { PartitionId, Pid } from '../../domain/ids.ts';
import { SURE_MS } from '../../ports/shared-holders.ts';
import { Family } from '../../ports/store.ts';
import { putSchedule, scheduleOf, waitingIn } from '../../schedules/test-support.ts';
import { BackupCopy, backupRequest } from '../../testing/backup-copy.ts';
import { bulkRunOf, startBulk } from '../../testing/bulk-runs.ts';
import { type EngineHarness, pidsOf } from '../../testing/engine-harness.ts';
import { limitQueues } from '../../testing/limit-queues.ts';
import { pauseQueues } from '../../testing/pause-queues.ts';
import { putSettings } from '../../testing/put-settings.ts';
import { SharedEngines } from '../../testing/shared-engines.ts';

const GROUP = 'g';
const QUEUE = 'g#mail';
const P = partitionOf(GROUP, 4) as PartitionId;
const OTHER = ((P + 1) % 4) as PartitionId;

async function started(): Promise<SharedEngines> {
  const engines = new SharedEngines();
  await engines.start();
  expect(await engines.run(engines.take(engines.a, P))).toBe(true);
  return engines;
}

/** How the partition comes from `a` to `b`. */
const WAYS = {
  given: async (engines: SharedEngines): Promise<void> => {
    const { a, b } = engines;
    await a.engine.partitions.shared?.leave([P], { name: 'b', nodeId: 'id-b' });
    await engines.open(b, P);
    await a.engine.partitions.supersede(P, { nodeId: 'id-b', epoch: 2 });
  },
  'taken over after a kill': async (engines: SharedEngines): Promise<void> => {
    engines.a.kill();
    await engines.fence(engines.b, 'a');
    await engines.take(engines.b, P);
  },
  'taken over while the node hangs': async (engines: SharedEngines): Promise<void> => {
    engines.a.clock.standStill();
    await engines.fence(engines.b, 'a');
    await engines.take(engines.b, P);
  },
  'given up at a stop': async (engines: SharedEngines): Promise<void> => {
    await engines.a.close();
    await engines.take(engines.b, P);
  },
} as const;

/** Records of every kind, and what `b` must know of them. */
async function fill(h: EngineHarness): Promise<{ readonly token: number | undefined; readonly position: string }> {
  const queue = QUEUE;
  const { position } = await h.readEvents('g#*');
  await putSettings(h.engine, QUEUE, { keepOutMs: 60_000 });
  await h.update({ enqueue: ['a', 'b', 'c'].map((pid) => ({ queue, pid, data: `data of ${pid}` })), id: 'once' });
  await h.update({ enqueue: [{ queue, pid: 'later', delay: 600_000 }] });
  const [task] = await h.lease(QUEUE, { for: 600_000 });
  await h.update({ dequeue: [{ queue, pid: 'b', result: '42', keep: 600_000 }] });
  await h.update({ enqueue: [{ queue, pid: 'early', mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, signalId: 's' }] });
  await putSchedule(h, { intervalMs: 60_000 });
  const [topic, mail] = [parseQueueName('g#topic'), parseQueueName(QUEUE)];
  await h.engine.topics.subscribe({ topic, queue: mail, filter: [], ttlMs: undefined, deleteQueue: false });
  await limitQueues(h.engine, 'g#mail', { maxLeased: 2 });
  await pauseQueues(h.engine, 'g#paused');
  await h.update({ enqueue: ['x', 'y'].map((pid) => ({ queue: 'g#paused', pid })) });
  await startBulk(h.engine, 'g#mail', { maxTasks: 1, filter: { keyPrefix: 'no key has it' } });
  return { token: task?.token, position: formatPosition(position) };
}

describe.each(Object.entries(WAYS))('a partition of a shared store that is %s', (_way, move) => {
  test('is served by the next node with everything in it, at a later epoch', async () => {
    const engines = await started();
    const { time, database, a, b } = engines;
    const { token, position } = await engines.run(fill(a));
    const rows = database.rowsOf(Family.data).length;
    await engines.run(move(engines));
    expect(b.engine.partitions.holding(P)).toEqual({ kind: 'serving', epoch: 2 });
    expect(database.rowsOf(Family.data).length).toBe(rows);

    const seen = await engines.run(
      b.engine.getTasks({ queue: parseQueueName(QUEUE), pids: ['a', 'c', 'later'] as Pid[], includeData: true }),
    );
    expect(seen.map(({ pid, state }) => [pid, state?.visibility.kind])).toEqual([
      ['a', 'hidden'],
      ['c', 'available'],
      ['later', 'hidden'],
    ]);
    expect(Buffer.from(seen[0]?.data ?? []).toString()).toBe('data of a');
    // Leases, results and what keeps a completed task out.
    await engines.run(b.update({ renew: [{ queue: QUEUE, pid: 'a', token, for: 60_000 }] }));
    const [ended] = await engines.run(b.waitFor(QUEUE, ['b']));
    expect(Buffer.from(ended?.end.result ?? []).toString()).toBe('42');
    await engines.run(b.update({ enqueue: [{ queue: QUEUE, pid: 'b' }] }));
    // A repeated request changes nothing: `c` would be there again otherwise.
    await engines.run(b.update({ dequeue: [{ queue: QUEUE, pid: 'c' }] }));
    const again = {
      enqueue: ['a', 'b', 'c'].map((pid) => ({ queue: QUEUE, pid, data: `data of ${pid}` })),
      id: 'once',
    };
    await engines.run(b.update(again));
    expect(await engines.run(b.counts(QUEUE))).toEqual({ available: 0, leased: 1, delayed: 1 });
    // A signal that came early, schedules, subscriptions, limits, pauses, bulk runs.
    await engines.run(b.update({ enqueue: [{ queue: QUEUE, pid: 'early', waitFor: 1 }] }));
    expect(pidsOf(await engines.run(b.lease(QUEUE)))).toEqual(['early']);
    await engines.run(b.enqueue(QUEUE, ['d']));
    expect(await engines.run(b.lease(QUEUE))).toEqual([]);
    expect(await engines.run(b.lease('g#paused'))).toEqual([]);
    expect((await engines.run(scheduleOf(b)))?.nextRuns).toHaveLength(3);
    const published = await engines.run(b.update({ enqueue: [{ queue: QUEUE, topic: 'g#topic', pid: 'p' }] }));
    expect(published.enqueued[0]?.published).toHaveLength(1);
    expect(await engines.run(bulkRunOf(b.engine, GROUP))).toBeDefined();
    // The position of a reader goes on: no event is lost.
    const events = await engines.run(b.readEvents('g#*', { after: position, kinds: [EventKind.EVENT_KIND_ENQUEUED] }));
    expect(events.events.map(({ pid }) => Buffer.from(pid ?? []).toString())).toEqual(
      expect.arrayContaining(['a', 'c', 'x', 'd']),
    );
    await time.advance(61_000);
    expect(await engines.run(waitingIn(b))).not.toHaveLength(0);
  });

  test('is served while the next node serves others, and comes back', async () => {
    const engines = await started();
    const { a, b } = engines;
    await engines.run(a.enqueue(QUEUE, ['1', '2']));
    await engines.run(engines.take(b, OTHER));
    await engines.run(move(engines));
    expect(b.engine.partitions.held().map(({ id }) => id)).toEqual([P, OTHER].sort());
    await engines.run(b.update({ dequeue: [{ queue: QUEUE, pid: '1' }] }));
    await engines.run(b.engine.partitions.shared?.leave([P], { name: 'a', nodeId: 'id-a' }) ?? Promise.resolve());
    if (a.clock.standsStill) a.clock.goOn();
    a.kill();
    await engines.run(a.start());
    // The start of `a` has fenced its earlier process, and so taken the partition from it.
    await engines.run(engines.take(a, P));
    expect(pidsOf(await engines.run(a.lease(QUEUE, { max: 9 })))).toEqual(['2']);
  });
});

describe.each(Object.entries(WAYS))('the backup of a partition of a shared store that was %s', (_way, move) => {
  /** Backs the partition up. `since`: what the caller has already. */
  async function backedUp(engines: SharedEngines, h: EngineHarness, since?: BackupPoint): Promise<BackupCopy> {
    h.engine.backups.identify({ clusterId: 'c', nodeId: `id-${h === engines.a ? 'a' : 'b'}` });
    return engines.run(BackupCopy.read(h.engine.backups.backup(backupRequest(P, { unchangedSince: since }))));
  }

  const pointOf = ({ header, end }: BackupCopy): BackupPoint => {
    return { clusterId: 'c', nodeId: header.nodeId, epoch: header.epoch, ticket: end.lastTicket };
  };

  test('has nothing that an earlier one has, until the partition changes', async () => {
    const engines = await started();
    const { time, a, b } = engines;
    await engines.run(a.enqueue(QUEUE, ['1', '2']));
    // A checkpoint has the epoch of the last atom.
    await time.advance(1_000);
    const first = pointOf(await backedUp(engines, a));
    await engines.run(move(engines));
    const second = await backedUp(engines, b, first);
    expect(second.header).toMatchObject({ unchanged: true, nodeId: 'id-b', epoch: 2 });
    expect(second.kinds).toEqual(['header', 'end']);
    expect(second.end).toEqual({ lastTicket: first.ticket, tasks: 2, queues: 1 });
    await engines.run(b.enqueue(QUEUE, ['3']));
    const third = await backedUp(engines, b, first);
    expect(third.header.unchanged).toBe(false);
    expect(third.end.tasks).toBe(3);
  });

  test('has everything if the ticket is that of an atom which the database has lost, or of a later history', async () => {
    const engines = await started();
    const { time, a, b } = engines;
    await engines.run(a.enqueue(QUEUE, ['1']));
    await time.advance(1_000);
    const { ticket } = pointOf(await backedUp(engines, a));
    await engines.run(move(engines));
    await engines.run(b.enqueue(QUEUE, ['2']));
    const present = pointOf(await backedUp(engines, b));
    expect(present).toMatchObject({ ticket: ticket + 1, epoch: 2 });
    const isUnchanged = async (h: EngineHarness, since: BackupPoint) =>
      (await backedUp(engines, h, since)).header.unchanged;
    /** What `a` would have ended with if the database had not lost its second atom. */
    const lost = { ...present, nodeId: 'id-a', epoch: 1 };
    expect(await isUnchanged(b, lost)).toBe(false);
    expect(await isUnchanged(b, { ...present, epoch: 99 })).toBe(false);
    expect(await isUnchanged(b, { ...present, clusterId: 'another' })).toBe(false);
    expect(await isUnchanged(b, present)).toBe(true);
    // The epoch of the atom is kept while the partition moves on.
    await time.advance(1_000);
    await engines.run(b.engine.partitions.shared?.leave([P], { name: 'a', nodeId: 'id-a' }) ?? Promise.resolve());
    if (a.clock.standsStill) a.clock.goOn();
    a.kill();
    await engines.run(a.start());
    await engines.run(engines.take(a, P));
    expect(await isUnchanged(a, lost)).toBe(false);
    expect(await isUnchanged(a, present)).toBe(true);
  });
});

describe('a node that was fenced', () => {
  test('commits nothing, and answers nothing that needs the present state', async () => {
    const engines = await started();
    const { a, b, time } = engines;
    await engines.run(a.enqueue(QUEUE, ['1']));
    await engines.run(engines.fence(b, 'a'));
    await time.advance(2_000);
    await expect(engines.run(a.counts(QUEUE))).rejects.toThrow();
    await expect(engines.run(a.lease(QUEUE))).rejects.toThrow();
    await expect(engines.run(a.enqueue(QUEUE, ['2']))).rejects.toThrow();
    await engines.run(engines.take(b, P));
    expect(pidsOf(await engines.run(b.lease(QUEUE, { max: 9 })))).toEqual(['1']);
  });

  test('answers from memory until the next holder serves, and no longer', async () => {
    const engines = await started();
    const { a, b, time } = engines;
    await engines.run(a.enqueue(QUEUE, ['1']));
    await engines.run(engines.fence(b, 'a'));
    const taken = engines.take(b, P);
    while (b.engine.partitions.holding(P)?.kind !== 'serving') {
      await time.advance(50);
      void taken;
    }
    await expect(engines.run(a.counts(QUEUE))).rejects.toThrow();
    expect(await engines.run(b.counts(QUEUE))).toMatchObject({ available: 1 });
  });
});

test('without the bound on what a node knows of its fence, a fenced node would answer', async () => {
  const engines = new SharedEngines({ conditions: { sure: false } });
  await engines.start();
  const { a, b, time } = engines;
  await engines.run(engines.take(a, P));
  await engines.run(a.enqueue(QUEUE, ['1']));
  // After its checkpoint it writes nothing that would tell it.
  await time.advance(20_000);
  await engines.run(engines.fence(b, 'a'));
  await time.advance(2_000);
  await engines.run(engines.take(b, P));
  await engines.run(b.lease(QUEUE));
  expect(await engines.run(a.counts(QUEUE))).toMatchObject({ available: 1 });
});

test('a partition whose gift got no answer is opened again at a later epoch, so that the late gift has no effect', async () => {
  const engines = await started();
  const { a, b, database, time } = engines;
  await engines.run(a.enqueue(QUEUE, ['1']));
  database.onStatement = (_name, kind) => (kind === 'give' ? { lateMs: 5_000, isCutOff: true } : { lateMs: 0 });
  const left = a.engine.partitions.shared?.leave([P], { name: 'b', nodeId: 'id-b' });
  await expect(engines.run(left ?? Promise.resolve())).rejects.toThrow('the connection to the database was lost');
  database.onStatement = undefined;
  expect(a.engine.partitions.holds(P)).toBe(false);
  expect(await engines.run(engines.open(b, P))).toBe(false);
  await engines.run(engines.open(a, P));
  expect(a.engine.partitions.holds(P)).toBe(false);
  await engines.run(engines.open(a, P));
  await time.advance(10_000);
  expect(await engines.run(engines.open(b, P))).toBe(false);
  expect(a.engine.partitions.holding(P)).toEqual({ kind: 'serving', epoch: 2 });
  expect(pidsOf(await engines.run(a.lease(QUEUE, { max: 9 })))).toEqual(['1']);
});

test('a node that stops gives up also what came too late to be opened', async () => {
  const engines = await started();
  const { a, b } = engines;
  await engines.run(a.engine.partitions.shared?.leave([P], { name: 'b', nodeId: 'id-b' }) ?? Promise.resolve());
  expect(b.engine.partitions.holds(P)).toBe(false);
  await engines.run(b.close());
  // No node had to be fenced for it.
  expect(await engines.run(engines.take(a, P))).toBe(true);
});

test('a node that stops gives up nothing while its last holder may still answer', async () => {
  const engines = await started();
  const { a, b, database } = engines;
  a.clock.standStill();
  await engines.run(engines.fence(b, 'a'));
  const fencedAt = b.clock.now();
  await engines.run(b.process?.holders.take([P]) ?? Promise.resolve());
  let givenAt = 0;
  database.onStatement = (_name, kind) => {
    if (kind === 'give') givenAt = b.clock.now();
    return { lateMs: 0 };
  };
  await engines.run(b.close());
  expect(givenAt - fencedAt).toBeGreaterThanOrEqual(SURE_MS);
});

test('of two nodes that take a partition at once, one holds it', async () => {
  const engines = new SharedEngines();
  await engines.start();
  const { a, b } = engines;
  const held = await engines.run(Promise.all([engines.take(a, P), engines.take(b, P)]));
  expect(held.filter(Boolean)).toHaveLength(1);
});
