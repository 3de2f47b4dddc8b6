import { parseQueueName, reservedQueues } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { limitMessage } from '../domain/queue-limits.ts';
import { Family } from '../ports/store.ts';
import { VirtualClock } from '../ports/virtual-clock.ts';
import { backupOf, restoreTo } from '../testing/backup-of-engine.ts';
import { EngineHarness, engineHarness, type HarnessOptions, pidsOf } from '../testing/engine-harness.ts';
import { limitQueues, unlimitQueues } from '../testing/limit-queues.ts';
import { SeededRandom } from '../testing/seeded-random.ts';

const A = 'shop#a';
const B = 'shop#b';
const MINUTE = 60_000;
const RECORDS = `shop#${reservedQueues.tokens}`;
const PIDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l'];

const rate = (tasks: number, perMs: number, burst = tasks) => ({ rate: { tasks, perMs, burst } });

const leased = async (h: EngineHarness, queues: string | string[], max = 9): Promise<string[]> =>
  pidsOf(await h.clock.run(h.lease(queues, { max, for: 30 * MINUTE })));

const addKeyed = (h: EngineHarness, queue: string, pids: readonly string[]) =>
  h.clock.run(h.update({ enqueue: pids.map((pid) => ({ queue, pid, limitKey: pid.replace(/\d+$/, '') })) }));

/** How many buckets have records. */
async function records(h: EngineHarness): Promise<number> {
  const { totals } = await h.clock.run(h.engine.queueStats({ kind: 'named', queues: [parseQueueName(RECORDS)] }));
  return totals.available + totals.delayed;
}

/** A limit of the rate, of all tasks or of each key, and three bursts of leases with two seconds between them. */
async function burstsWithCrash(
  keys: string,
  options: HarnessOptions,
  crash: (h: EngineHarness, step: number) => unknown,
) {
  await using h = await engineHarness(options);
  await addKeyed(h, A, ['x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7', 'x8']);
  await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, 1000, 3) }));
  const got: string[][] = [];
  for (let step = 0; step < 9; step++) {
    got.push(await leased(h, A));
    await h.clock.advance([0, 300, 700][step % 3] ?? 0);
    await crash(h, step);
  }
  return got;
}

describe('a rate of leases', () => {
  describe.each([
    ['all tasks', ''],
    ['each key', '*'],
  ])('of %s', (_name, keys) => {
    test.each(
      [0, 1, 2, 3, 4, 5, 6, 7].flatMap((at) =>
        [true, false].flatMap((atomicBatches) =>
          (['power loss', 'kill', 'stop'] as const).map((how) => ({ at, atomicBatches, how })),
        ),
      ),
    )(
      'gives the same tasks at the same instants with a $how after step $at, atomic batches: $atomicBatches',
      async (one) => {
        const undisturbed = await burstsWithCrash(keys, {}, () => undefined);
        const got = await burstsWithCrash(keys, { atomicBatches: one.atomicBatches }, async (h, step) => {
          if (step !== one.at) return;
          if (one.how === 'power loss') h.lose();
          else if (one.how === 'kill') h.kill();
          else await h.clock.run(h.close());
          await h.open();
        });
        expect(got).toEqual(undisturbed);
        expect(got.flat()).toEqual(['x1', 'x2', 'x3', 'x4', 'x5']);
      },
    );

    test('is as exact when a crash comes behind a checkpoint, or the records were read from rows and log', async () => {
      await using h = await engineHarness();
      await addKeyed(h, A, ['x1', 'x2', 'x3', 'x4', 'x5', 'x6']);
      await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, 10 * MINUTE, 4) }));
      expect(await leased(h, A, 1)).toEqual(['x1']);
      await h.clock.advance(MINUTE);
      await h.crash();
      expect(await leased(h, A, 1)).toEqual(['x2']);
      await h.clock.advance(MINUTE);
      expect(await leased(h, A, 1)).toEqual(['x3']);
      await h.crash();
      await h.crash();
      expect(await leased(h, A)).toEqual(['x4']);
      await h.crash();
      const waits = h.lease(A, { wait: 10 * MINUTE, for: MINUTE });
      const before = h.clock.now();
      expect(pidsOf(await h.clock.run(waits))).toEqual(['x5']);
      expect(h.clock.now() - before).toBe(8 * MINUTE);
    });

    test('has the tokens of the leases on disk after a full one, whose leases took none', async () => {
      await using h = await engineHarness();
      await addKeyed(h, A, ['x1', 'x2', 'x3', 'x4']);
      await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, 10 * MINUTE, 2) }));
      expect(await leased(h, A, 1)).toEqual(['x1']);
      h.disk.space = 'none';
      await expect(leased(h, A, 1)).rejects.toMatchObject({ reason: 'DISK_FULL' });
      h.disk.space = 'plenty';
      await h.clock.advance(MINUTE);
      expect(await leased(h, A)).toEqual(['x2']);
      await h.crash();
      expect(await leased(h, A)).toEqual([]);
    });

    test('has what it had in a backup when that is restored, however late', async () => {
      const h = new EngineHarness({ config: { partitions: 4 } });
      await h.open();
      await addKeyed(h, A, ['x1', 'x2', 'x3', 'x4', 'x5']);
      await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, 1000, 3) }));
      await leased(h, A);
      await h.clock.advance(600);
      const to = new EngineHarness({ clock: new VirtualClock() });
      await to.clock.advance(7 * 24 * 60 * MINUTE);
      await restoreTo(to, await backupOf(h));
      await to.open();
      expect(await leased(to, A)).toEqual([]);
      await to.clock.advance(400);
      expect(await leased(to, A)).toEqual(['x4']);
    });

    test('goes on with the present limit if that was changed after a restart, or before one', async () => {
      await using h = await engineHarness();
      await addKeyed(h, A, ['x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7', 'x8', 'x9']);
      const limit = (tasks: number, burst: number) =>
        h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(tasks, 1000, burst) }));
      await limit(1, 2);
      expect(await leased(h, A)).toEqual(['x1', 'x2']);
      await h.crash();
      await h.clock.advance(600);
      await limit(1, 5);
      expect(await leased(h, A)).toEqual([]);
      await limit(2, 5);
      await h.crash();
      expect(await leased(h, A)).toEqual(['x3']);
      await h.clock.advance(400);
      expect(await leased(h, A)).toEqual(['x4']);
      // Lower: never more than the new burst.
      await h.clock.advance(MINUTE);
      await limit(1, 1);
      await h.crash();
      expect(await leased(h, A)).toEqual(['x5']);
    });

    test.each([false, true])(
      'that is raised has what has come since it was empty, after a crash: %s',
      async (isCrashed) => {
        await using h = await engineHarness();
        await addKeyed(h, A, ['x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7', 'x8', 'x9']);
        await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, 1000, 1) }));
        expect(await leased(h, A)).toEqual(['x1']);
        await h.clock.advance(3_000);
        await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, 1000, 9) }));
        if (isCrashed) await h.crash();
        expect(await leased(h, A)).toEqual(['x2', 'x3', 'x4']);
      },
    );

    test('is none after its end, also over a crash, and begins full when it is set again', async () => {
      await using h = await engineHarness();
      await addKeyed(h, A, ['x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7']);
      await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, MINUTE, 2) }));
      expect(await leased(h, A)).toEqual(['x1', 'x2']);
      await h.clock.run(unlimitQueues(h.engine, 'shop#*', keys));
      await h.crash();
      expect(await leased(h, A, 1)).toEqual(['x3']);
      await h.clock.advance(1000);
      expect(await records(h)).toBe(0);
      await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(1, MINUTE, 2) }));
      await h.crash();
      expect(await leased(h, A)).toEqual(['x4', 'x5']);
      // Without a rate, no bucket is left.
      await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, maxLeased: 6 }));
      await h.clock.advance(1000);
      expect(await records(h)).toBe(0);
      expect(await leased(h, A)).toEqual(['x6']);
    });
  });

  test('of several limits takes a token of each, in the atom of the lease, and of no other', async () => {
    await using h = await engineHarness();
    await addKeyed(h, A, ['x1', 'x2', 'y1']);
    await h.enqueue(B, ['plain']);
    await limitQueues(h.engine, 'shop#*', rate(1, MINUTE, 9));
    await limitQueues(h.engine, A, { keys: '*', ...rate(1, MINUTE, 9) });
    await limitQueues(h.engine, A, { maxLeased: 5 });
    await limitQueues(h.engine, B, rate(1, MINUTE, 9));
    const before = h.rowsOf(Family.log).length;
    expect(await leased(h, A)).toEqual(['x1', 'x2', 'y1']);
    expect(h.rowsOf(Family.log).length).toBe(before + 1);
    expect(await records(h)).toBe(3);
    expect(await leased(h, B)).toEqual(['plain']);
    expect(await records(h)).toBe(4);
  });

  test('costs a lease without a rate nothing: no record, and no queue of records', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, A, { maxLeased: 5 });
    await h.enqueue(A, ['a']);
    await leased(h, A);
    await h.crash();
    expect(await records(h)).toBe(0);
    const names = h.rowsOf(Family.queues).map(({ value }) => Buffer.from(value).toString('latin1'));
    expect(names.filter((name) => name.includes(reservedQueues.tokens))).toEqual([]);
  });

  test('of the groups of one partition counts in each, and their records are created in one atom', async () => {
    await using h = await engineHarness({ config: { partitions: 1 } });
    const queues = ['g1#q', 'g2#q'];
    for (const queue of queues) {
      await h.enqueue(queue, PIDS);
      await limitQueues(h.engine, queue, rate(1, MINUTE, 2));
    }
    expect(await leased(h, queues)).toEqual(['a', 'b', 'a', 'b']);
    await h.crash();
    expect(await leased(h, queues)).toEqual([]);
    await h.clock.advance(MINUTE);
    expect(await leased(h, queues)).toEqual(['c', 'c']);
  });

  test('is exact although the queues of the leases have been deleted', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, PIDS);
    await limitQueues(h.engine, 'shop#*', rate(1, MINUTE, 3));
    expect(await leased(h, A)).toEqual(['a', 'b', 'c']);
    await h.engine.deleteQueue(parseQueueName(A));
    await h.crash();
    await h.enqueue(B, PIDS);
    expect(await leased(h, B)).toEqual([]);
  });

  test('wakes those who wait in the ms of the next token, also of a token taken before a start', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, PIDS);
    await limitQueues(h.engine, A, rate(1, 1000, 1));
    await leased(h, A);
    await h.clock.advance(250);
    await h.crash();
    const began = h.clock.now();
    expect(pidsOf(await h.clock.run(h.lease(A, { wait: MINUTE })))).toEqual(['b']);
    expect(h.clock.now() - began).toBe(750);
  });

  test('of each of many keys has records only until the bucket is full, also after a start', async () => {
    await using h = await engineHarness();
    const pids = Array.from({ length: 2_500 }, (_, number) => `k${number}-`);
    for (let from = 0; from < pids.length; from += 500) await addKeyed(h, A, pids.slice(from, from + 500));
    await h.clock.run(limitQueues(h.engine, 'shop#*', { keys: '*', ...rate(1, 10_000, 1) }));
    const take = async (most: number) => {
      const tasks = await h.clock.run(h.lease(A, { max: most, for: MINUTE }));
      await h.clock.run(h.update({ dequeue: tasks.map(({ pid, token }) => ({ queue: A, pid, token })) }));
      return tasks.length;
    };
    expect(await take(1_500)).toBe(1_500);
    expect(await records(h)).toBe(1_500);
    await h.clock.advance(5_000);
    expect(await take(500)).toBe(500);
    await h.crash();
    expect(await records(h)).toBe(2_000);
    await h.clock.advance(5_600);
    expect(await records(h)).toBe(500);
    expect(await take(500)).toBe(500);
    await h.clock.advance(4_900);
    expect(await records(h)).toBe(500);
    // Buckets that fill while the node is down.
    h.lose();
    await h.clock.advance(MINUTE);
    await h.open();
    await h.clock.advance(600);
    expect(await records(h)).toBe(0);
    await h.clock.advance(2 * MINUTE);
    // The ends of tasks in the log apart, the group is as it was.
    expect(h.rowsOf(Family.hidden)).toEqual([]);
    expect((await h.clock.run(h.engine.limits.list('shop'))).map(limitMessage)).toMatchObject([{ heldKeyCount: 0 }]);
  });

  test.each(Array.from({ length: 30 }, (_, seed) => seed + 1))('is exact in any history: seed %i', async (seed) => {
    const random = new SeededRandom(seed);
    const pick = <T>(from: readonly T[]): T => from[random.int(from.length)] as T;
    const options = { writeMs: pick([0, 1]), syncMs: pick([0, 2]), atomicBatches: pick([true, false]) };
    await using h = await engineHarness({ ...options, seed });
    const keys = pick(['', '*']);
    const KEYS = ['x', 'y'];
    const tasks = 1 + random.int(4);
    const burst = 1 + random.int(4);
    const perMs = pick([700, 1000, 3000]);
    await h.clock.run(limitQueues(h.engine, 'shop#*', { keys, ...rate(tasks, perMs, burst) }));
    const granted: { key: string; at: number }[] = [];
    let number = 0;
    const note = async (lease: ReturnType<EngineHarness['lease']>): Promise<void> => {
      const found = await lease.catch(() => []);
      for (const { history } of found) granted.push({ key: history?.given?.limitKey ?? '', at: h.clock.now() });
    };
    for (let step = 0; step < 60; step++) {
      await addKeyed(h, pick([A, B]), [`${pick(KEYS)}${++number}`]).catch(() => {});
      const what = random.next();
      if (what < 0.5) await h.clock.run(note(h.lease([A, B], { max: 1 + random.int(5), for: 100 })));
      else if (what < 0.8) void note(h.lease(pick([[A, B], [A]]), { max: 2, for: 100, wait: 2000 }));
      await h.clock.advance(random.int(400));
      if (what > 0.9) {
        if (random.next() < 0.5) h.lose();
        else h.kill();
        await h.open();
      }
    }
    for (const key of keys === '' ? [''] : KEYS) {
      const all = granted.filter((one) => keys === '' || one.key === key);
      for (const [from, { at: first }] of all.entries()) {
        for (const [to, { at: last }] of all.entries()) {
          // A reply comes up to 3 ms after its lease.
          const most = burst + Math.floor(((last - first + 3) * tasks) / perMs);
          if (to >= from) expect(to - from + 1, `key ${key}, from ${first} to ${last}`).toBeLessThanOrEqual(most);
        }
      }
      expect(all.length).toBeGreaterThan(burst);
    }
  });
});
