import { limits, parseQueueName, partitionOf } from '@taskmaster/proto';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import type { LeasedTask, PeekCommand } from '../domain/commands.ts';
import type { PartitionId, Pid } from '../domain/ids.ts';
import { KindFilter } from '../domain/kind-filter.ts';
import { Family, type Store } from '../ports/store.ts';
import { type EngineHarness, engineHarness, type LeaseSpec, pidsOf } from '../testing/engine-harness.ts';
import { limitQueues } from '../testing/limit-queues.ts';
import { pauseQueues, resumeQueues } from '../testing/pause-queues.ts';
import { putSettings } from '../testing/put-settings.ts';

const A = 'shop#a';
const B = 'shop#b';
const MINUTE = 60_000;

/** Tasks with these PIDs, whose kinds are the letters before their numbers. Those that begin with a number have none. */
const tasks = (queue: string, pids: readonly string[], more: object = {}) =>
  pids.map((pid) => ({ queue, pid, data: `data of ${pid}`, kind: pid.replace(/\d+$/, ''), ...more }));

const add = (h: EngineHarness, queue: string, pids: readonly string[], more: object = {}) =>
  h.update({ enqueue: tasks(queue, pids, more) });

const leased = async (h: EngineHarness, queues: string | string[], kinds?: string[], max = 9): Promise<string[]> =>
  pidsOf(await h.clock.run(h.lease(queues, { max, ...(kinds && { kinds }) })));

const done = (h: EngineHarness, queue: string, { pid, token }: Pick<LeasedTask, 'pid' | 'token'>) =>
  h.update({ dequeue: [{ queue, pid, token }] });

/** A lease request that waits, and what it has got so far. */
function waiting(h: EngineHarness, queues: string | string[], spec: LeaseSpec) {
  const got: string[] = [];
  const answered = h.lease(queues, { wait: 10 * MINUTE, ...spec }).then((tasks) => void got.push(...pidsOf(tasks)));
  return { got, answered };
}

const statsOf = async (h: EngineHarness, queue = A) => {
  const report = await h.clock.run(h.engine.queueStats({ kind: 'named', queues: [parseQueueName(queue)] }));
  return report.queues[0]?.kinds;
};

describe('a filter of kinds', () => {
  test.each<[string[], string | undefined, boolean]>([
    [['resize'], 'resize', true],
    [['resize'], 'resize@1', false],
    [['resize@1', 'resize@2'], 'resize@2', true],
    [['resize@*'], 'resize@2', true],
    [['resize@*'], 'resize', false],
    [['*'], 'thumb', true],
    [['*@2'], 'thumb@2', true],
    [['*'], undefined, false],
    [['*'], '', false],
    [['', 'resize'], undefined, true],
    [['', 'resize'], 'thumb', false],
  ])('%j, asked for %s, says %s', (patterns, kind, expected) => {
    const filter = new KindFilter(patterns);
    expect([filter.accepts(kind), filter.accepts(kind)]).toEqual([expected, expected]);
    const among = [...filter.among(new Map([[kind ?? '', 1]]))];
    expect(among).toEqual(expected ? [kind ?? ''] : []);
  });

  test('has the same key for the same kinds', () => {
    expect(new KindFilter(['b', 'a', 'b']).key).toBe(new KindFilter(['a', 'b']).key);
    expect(new KindFilter(['a', '']).key).not.toBe(new KindFilter(['a']).key);
  });
});

describe('tasks with kinds', () => {
  test('go to requests that accept them, and to those that accept all, in the order of their PIDs', async () => {
    await using h = await engineHarness();
    await add(h, A, ['a1', 'b1', 'c1', 'b2', '1', 'a2', 'c2']);
    expect(await leased(h, A, ['b', 'c'], 2)).toEqual(['b1', 'b2']);
    expect(await leased(h, A, ['b', 'c'], 1)).toEqual(['c1']);
    expect(await leased(h, A, ['d'])).toEqual([]);
    expect(await leased(h, A, ['', 'a'], 2)).toEqual(['1', 'a1']);
    expect(await leased(h, A)).toEqual(['a2', 'c2']);
  });

  test('keep their kinds over a crash, a release, a dead letter and a return', async () => {
    await using h = await engineHarness();
    await add(h, A, ['a1', 'b1'], { retry: { maxAttempts: 1 } });
    await h.crash();
    expect(await leased(h, A, ['a'])).toEqual(['a1']);
    await h.clock.advance(MINUTE);
    expect(await leased(h, `${A}.dead`, ['b'])).toEqual([]);
    expect(await leased(h, `${A}.dead`, ['a'])).toEqual(['a1']);
    await h.update({ dequeue: [{ queue: `${A}.dead`, pid: 'a1', requeue: true }] });
    await h.crash();
    const [task] = await h.clock.run(h.lease(A, { kinds: ['a'] }));
    expect(task).toMatchObject({ pid: 'a1', history: { given: { kind: 'a' } } });
    expect(Buffer.from(task?.data ?? []).toString()).toBe('data of a1');
  });

  test('move with their partition, and are counted and leased by kind there', async () => {
    const id = partitionOf('shop', 4) as PartitionId;
    const config = { partitions: 4 };
    await using from = await engineHarness({ clustered: true, config });
    await using to = await engineHarness({ clustered: true, config });
    await from.clock.run(from.engine.partitions.claim([{ id, epoch: 1 }]));
    await from.clock.run(add(from, A, ['a1', 'b1', 'b2', '3']));
    expect(await leased(from, A, ['b'], 1)).toEqual(['b1']);
    await from.clock.advance(1000);
    const leaving = from.engine.partitions.export(id);
    const rows: unknown[] = [];
    const read = async (): Promise<void> => {
      for await (const part of leaving.rows()) rows.push(...part);
    };
    await from.clock.run(read());
    const { partitions } = to.engine;
    const arriving = await to.clock.run(partitions.import({ id, epoch: 2, ...leaving.offer, now: to.clock.now() }));
    await to.clock.run(arriving.addRows(rows as never));
    await to.clock.run(partitions.take(arriving));
    expect((await statsOf(to))?.most).toMatchObject([
      { kind: 'b', available: 1, leased: 1 },
      { kind: 'a', available: 1, leased: 0 },
    ]);
    expect(await leased(to, A, ['b'])).toEqual(['b2']);
    expect(await leased(to, A, ['a', ''])).toEqual(['3', 'a1']);
  });

  test('leave no rows', async () => {
    await using h = await engineHarness();
    await add(h, A, ['a1', 'b1'], { limitKey: 'acme' });
    await add(h, A, ['a2', '3']);
    await h.clock.advance(MINUTE);
    const got = await h.clock.run(h.lease(A, { max: 9 }));
    await h.clock.advance(1000);
    for (const task of got) await done(h, A, task);
    await h.clock.advance(MINUTE);
    expect(got).toHaveLength(4);
    for (const family of [Family.due, Family.hidden, Family.ready]) expect(h.disk.rowsOf(family)).toEqual([]);
  });

  test('do not wait behind many tasks that a request does not accept', async () => {
    await using h = await engineHarness();
    const others = Array.from({ length: 2000 }, (_, at) => `a${at + 1000}`);
    await add(h, A, others);
    await add(h, A, ['b1']);
    await h.clock.advance(MINUTE);
    await h.crash();
    const reads = h.engine.figures().refills;
    expect(await leased(h, A, ['b'])).toEqual(['b1']);
    // One read finds the lanes, and none reads the others.
    expect(h.engine.figures().refills - reads).toBe(1);
    expect(await leased(h, A, ['a'], 40)).toEqual(others.slice(0, 40));
  });

  test('are shown by kind, in the order of their PIDs, however many of others are before them', async () => {
    await using h = await engineHarness();
    const others = Array.from({ length: 10_001 }, (_, at) => `a${at + 10_000}`);
    await add(h, A, others.slice(0, 9_000));
    await add(h, A, others.slice(9_000));
    await add(h, A, ['b1', 'c2', 'b4', '5'], { limitKey: 'acme' });
    await add(h, A, ['b2', 'b3', 'c1', '1']);
    await add(h, A, ['b7', 'a1'], { delay: MINUTE });
    await h.clock.advance(MINUTE / 2);
    await h.crash();
    await add(h, A, ['b0']);
    const shown = async (patterns: string[], more: Partial<PeekCommand> = {}): Promise<string[]> => {
      const peek = { queue: parseQueueName(A), kind: 'head', limit: 9, includeData: false, ...more } as const;
      const tasks = await h.clock.run(h.engine.peekTasks({ ...peek, kinds: new KindFilter(patterns) }));
      return tasks.map(({ pid }) => pid);
    };
    expect(await shown(['b', 'c'])).toEqual(['b0', 'b1', 'b2', 'b3', 'b4', 'c1', 'c2']);
    expect(await shown(['b'], { limit: 2, after: 'b0' as Pid })).toEqual(['b1', 'b2']);
    expect(await shown(['b*'], { limit: 2, after: 'b2' as Pid })).toEqual(['b3', 'b4']);
    expect(await shown(['', 'none'])).toEqual(['1', '5']);
    expect(await shown(['', 'c'])).toEqual(['1', '5', 'c1', 'c2']);
    expect(await leased(h, A, ['b'], 1)).toEqual(['b0']);
    expect(await shown(['*'], { kind: 'leased' })).toEqual(['b0']);
    expect(await shown(['c'], { kind: 'leased' })).toEqual([]);
    expect(await shown(['b'], { kind: 'delayed' })).toEqual(['b7']);
    expect(await shown(['b'], { limit: 1 })).toEqual(['b1']);
    expect(await shown(['b'], { queue: parseQueueName(B) })).toEqual([]);
  });

  test('are shown by few reads, however many kinds and keys a queue has', async () => {
    await using h = await engineHarness();
    const kinds = Array.from(
      { length: 60 },
      (_, at) => `kind${String.fromCharCode(97 + (at % 26))}${'x'.repeat(at / 26)}`,
    );
    for (const kind of kinds) {
      const keyed = Array.from({ length: 20 }, (_, at) => ({
        queue: A,
        pid: `${kind}${at}`,
        kind,
        limitKey: `k${at}`,
      }));
      await h.update({ enqueue: keyed });
    }
    await h.clock.advance(MINUTE);
    await h.crash();
    const scan = vi.spyOn(h.store as Store, 'scan');
    const peek = { queue: parseQueueName(A), kind: 'head', limit: 2, includeData: false } as const;
    const shown = await h.clock.run(h.engine.peekTasks({ ...peek, kinds: new KindFilter(['*']) }));
    expect(shown.map(({ pid }) => pid)).toEqual(['kinda0', 'kinda1']);
    expect(scan.mock.calls.length).toBeLessThan(2_100);
    scan.mockRestore();
  });

  test('obey limits of their keys, also several kinds of one key', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, 'shop#*', { keys: '*', maxLeased: 1 });
    await add(h, A, ['a1', 'b1', 'b2'], { limitKey: 'acme' });
    await add(h, A, ['b3'], { limitKey: 'other' });
    const request = waiting(h, A, { kinds: ['b'] });
    await request.answered;
    expect(request.got).toEqual(['b1']);
    expect(await leased(h, A)).toEqual(['b3']);
    const next = waiting(h, A, { kinds: ['a', 'c'] });
    await h.clock.advance(1000);
    expect(next.got).toEqual([]);
    await h.update({ dequeue: [{ queue: A, pid: 'b1' }] });
    await next.answered;
    expect(next.got).toEqual(['a1']);
    expect(await leased(h, A)).toEqual([]);
  });

  test('take fair turns by their keys, whatever their kinds', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, A, { fairTurns: { weights: {} } });
    await add(h, A, ['a1', 'b1', 'a2', 'b2'], { limitKey: 'acme' });
    await add(h, A, ['a8', 'b8'], { limitKey: 'other' });
    expect(await leased(h, A, ['a', 'b'], 4)).toEqual(['a1', 'a8', 'a2', 'b8']);
    expect(await leased(h, A, ['b'])).toEqual(['b1', 'b2']);
  });

  test('are counted by kind, and refused beyond the limit', async () => {
    await using h = await engineHarness();
    const kinds = Array.from({ length: limits.queueKinds }, (_, at) => ({ queue: A, pid: `${at}`, kind: `k${at}` }));
    await h.update({ enqueue: [...kinds, { queue: A, pid: 'again', kind: 'k7' }] });
    expect((await h.clock.run(h.lease(A, { kinds: ['k1'] }))).length).toBe(1);
    await h.crash();
    const counted = await statsOf(h);
    expect(counted).toMatchObject({ count: limits.queueKinds, unclaimed: 0 });
    expect(counted?.most).toHaveLength(limits.shownKinds);
    expect(counted?.most[0]).toEqual({
      kind: 'k7',
      available: 2,
      leased: 0,
      delayed: 0,
      unclaimedSinceUnixMs: undefined,
    });
    const more = { queue: A, pid: 'more', kind: 'other' };
    await expect(h.update({ enqueue: [more] })).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS' });
    await h.update({ enqueue: [{ ...more, kind: 'k9' }] });
    await h.update({ dequeue: [{ queue: A, pid: '5' }] });
    await h.update({ enqueue: [{ ...more, pid: 'last' }] });
    await expect(h.update({ enqueue: [{ ...more, pid: 'x', kind: 'x' }] })).rejects.toMatchObject({
      metadata: { queue: A, limit: '1000' },
    });
  });
});

/** Kills all tasks of the queue. */
async function killAll(h: EngineHarness): Promise<void> {
  const all = await h.clock.run(h.lease(A, { max: limits.queueKinds }));
  await h.update({ release: all.map(({ pid, token }) => ({ queue: A, pid, token, error: 'no', deadLetter: true })) });
}

test('kinds of dead letters count, so a client with a new kind for each task is refused', async () => {
  await using h = await engineHarness();
  const fill = (name: string, count: number) =>
    h.update({
      enqueue: Array.from({ length: count }, (_, at) => ({ queue: A, pid: `${name}${at}`, kind: `${name}${at}` })),
    });
  await fill('x', limits.queueKinds - 1);
  await killAll(h);
  // These are taken beyond the bound when they die.
  await fill('y', limits.queueKinds);
  await killAll(h);
  expect((await statsOf(h, `${A}.dead`))?.count).toBe(2 * limits.queueKinds - 1);
  await expect(fill('z', 1)).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS', metadata: { queue: `${A}.dead` } });
  await h.crash();
  await expect(fill('z', 1)).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS', metadata: { queue: `${A}.dead` } });
  // What it knows goes on, also back, and others once there is room.
  await fill('x', 1);
  await h.update({ enqueue: [{ queue: A, pid: 'none' }] });
  await h.update({ dequeue: [{ queue: `${A}.dead`, pid: 'y7', requeue: true }] });
  await h.clock.run(h.engine.deleteQueue(parseQueueName(`${A}.dead`)));
  await fill('z', 1);
});

describe('requests that wait for kinds', () => {
  test.each<[string, (h: EngineHarness) => Promise<unknown>]>([
    ['an enqueue', (h) => add(h, A, ['a9', 'b9'])],
    ['the end of a delay', (h) => add(h, A, ['a9', 'b9'], { delay: 500 })],
    ['a publication into another queue of the request', (h) => add(h, B, ['b9'])],
  ])('are served by %s, whoever waits before them', async (_, happens) => {
    await using h = await engineHarness();
    const others = ['a', 'c', 'c'].map((kind) => waiting(h, [A, B], { kinds: [kind] }));
    const request = waiting(h, [A, B], { kinds: ['b'] });
    await h.clock.advance(1000);
    await happens(h);
    await h.clock.advance(1000);
    await request.answered;
    expect(request.got).toEqual(['b9']);
    expect(others.slice(1).flatMap(({ got }) => got)).toEqual([]);
    h.clock.stop();
  });

  test('are served when a lease ends and when a pause does', async () => {
    await using h = await engineHarness();
    await add(h, A, ['b1']);
    const [task] = await h.lease(A, { for: 2000 });
    const request = waiting(h, A, { kinds: ['a', 'b'] });
    await h.clock.advance(2100);
    await request.answered;
    expect([task?.pid, request.got]).toEqual(['b1', ['b1']]);
    await pauseQueues(h.engine, 'shop#*');
    await add(h, A, ['b2']);
    const paused = waiting(h, A, { kinds: ['b'] });
    await h.clock.advance(1000);
    expect(paused.got).toEqual([]);
    await resumeQueues(h.engine, 'shop#*');
    await paused.answered;
    expect(paused.got).toEqual(['b2']);
  });

  test('are served by patterns of queues, also behind queues with other kinds', async () => {
    await using h = await engineHarness();
    for (let at = 0; at < 100; at++) await add(h, `shop#q${at}`, [`a${at}`]);
    const patterns = [{ group: 'shop' }];
    const request = waiting(h, [], { kinds: ['b'], patterns });
    await h.clock.advance(1000);
    expect(request.got).toEqual([]);
    await add(h, 'shop#q50', ['b1']);
    await request.answered;
    await add(h, 'shop#q99', ['b2']);
    expect(pidsOf(await h.clock.run(h.lease([], { kinds: ['b'], patterns })))).toEqual(['b2']);
    expect([...request.got]).toEqual(['b1']);
  });

  test('come in order of arrival with those that accept all', async () => {
    await using h = await engineHarness();
    const requests = [undefined, ['b'], ['a'], ['b', 'c'], undefined].map((kinds) =>
      waiting(h, A, kinds ? { kinds } : {}),
    );
    await h.clock.advance(1);
    for (const pid of ['b1', 'b2', 'b3', 'b4', 'a1']) await add(h, A, [pid]);
    await Promise.all(requests.map(({ answered }) => answered));
    expect(requests.map(({ got }) => got)).toEqual([['b1'], ['b2'], ['a1'], ['b3'], ['b4']]);
  });
});

describe('a kind that nobody accepts', () => {
  const since = async (h: EngineHarness, kind: string) =>
    (await statsOf(h))?.most.find((stats) => stats.kind === kind)?.unclaimedSinceUnixMs;

  test('is unclaimed after five minutes, and no more after a request', async () => {
    await using h = await engineHarness();
    const began = h.clock.now();
    await add(h, A, ['a1', 'b1', 'b2']);
    await h.clock.advance(limits.unclaimedMs - 1);
    expect(await leased(h, A, ['a'])).toEqual(['a1']);
    expect((await statsOf(h))?.unclaimed).toBe(0);
    await h.clock.advance(1);
    expect(await since(h, 'b')).toBe(began);
    expect((await statsOf(h))?.unclaimed).toBe(2);
    expect((await statsOf(h))?.most[0]?.kind).toBe('b');
    const request = await h.clock.run(h.lease(A, { kinds: ['b*'], maxPid: 'a' }));
    expect([request, await since(h, 'b')]).toEqual([[], undefined]);
    await h.clock.advance(limits.unclaimedMs);
    expect(await since(h, 'b')).toBeGreaterThan(began);
    await h.lease(A, { maxPid: '0' });
    expect(await since(h, 'b')).toBeUndefined();
  });

  test.each<[string, (h: EngineHarness) => Promise<unknown>]>([
    ['one of its tasks is leased', (h) => h.lease(A, { for: 60 * MINUTE, kinds: ['a'] })],
    ['its queue is paused', (h) => pauseQueues(h.engine, A)],
    ['its queue has been served here for a short time', (h) => h.clock.advance(4 * MINUTE).then(() => h.crash())],
    ['it has just come', (h) => h.update({ dequeue: ['a1', 'a2'].map((pid) => ({ queue: A, pid })) })],
  ])('is not unclaimed while %s', async (_, happens) => {
    await using h = await engineHarness();
    await add(h, A, ['a1', 'a2', 'c1']);
    await happens(h);
    await h.clock.advance(4 * MINUTE);
    await add(h, A, ['a3']);
    await h.clock.advance(MINUTE - 1);
    expect(await since(h, 'a')).toBeUndefined();
  });
});

describe('leases by kind', () => {
  const kindOf = fc.constantFrom('', 'a', 'a@1', 'b');
  const steps = fc.array(
    fc.oneof(
      fc.record({
        do: fc.constant('enqueue' as const),
        kind: kindOf,
        key: fc.constantFrom('', 'x', 'y'),
        at: fc.nat(30),
      }),
      fc.record({
        do: fc.constant('lease' as const),
        kinds: fc.option(
          fc.uniqueArray(fc.constantFrom('', 'a', 'a@*', 'b', '*', 'c'), { minLength: 1, maxLength: 3 }),
        ),
        max: fc.integer({ min: 1, max: 25 }),
      }),
      fc.record({ do: fc.constantFrom('complete' as const, 'release' as const), nth: fc.nat(5) }),
      fc.record({ do: fc.constantFrom('crash' as const, 'checkpoint' as const) }),
    ),
    { minLength: 5, maxLength: 40 },
  );

  test('are those of a plain list of tasks', async () => {
    await fc.assert(
      fc.asyncProperty(steps, fc.boolean(), async (all, isLimited) => {
        await using h = await engineHarness();
        if (isLimited) await limitQueues(h.engine, 'shop#*', { keys: '*', maxLeased: 2 });
        const available = new Map<string, { kind: string; key: string }>();
        const held = new Map<string, { kind: string; key: string; token: LeasedTask['token'] }>();
        for (const step of all) {
          if (step.do === 'enqueue') {
            // Many at once, so that memory does not keep all of a lane.
            for (let copy = 0; copy < 3; copy++) {
              const pid = `${String(step.at).padStart(2, '0')}${copy}`;
              if (available.has(pid) || held.has(pid)) continue;
              await h.update({ enqueue: [{ queue: A, pid, kind: step.kind, limitKey: step.key }] });
              available.set(pid, { kind: step.kind, key: step.key });
            }
          } else if (step.do === 'lease') {
            const filter = step.kinds === null ? undefined : new KindFilter(step.kinds);
            const expected: string[] = [];
            const used = new Map<string, number>();
            for (const { key } of held.values()) used.set(key, (used.get(key) ?? 0) + 1);
            for (const [pid, { kind, key }] of [...available].sort(([a], [b]) => (a < b ? -1 : 1))) {
              if (expected.length === step.max) break;
              const isUsedUp = isLimited && key !== '' && (used.get(key) ?? 0) >= 2;
              if (isUsedUp || filter?.accepts(kind) === false) continue;
              used.set(key, (used.get(key) ?? 0) + 1);
              expected.push(pid);
            }
            const got = await h.clock.run(
              h.lease(A, { max: step.max, for: 60 * MINUTE, ...(step.kinds && { kinds: step.kinds }) }),
            );
            // A request may get fewer tasks than there are, if it would have to read many times, but the first ones.
            expect(pidsOf(got)).toEqual(expected.slice(0, got.length));
            expect(got.length > 0).toBe(expected.length > 0);
            for (const { pid, token } of got) {
              const task = available.get(pid);
              if (task === undefined) throw new Error(`${pid} was not available`);
              held.set(pid, { ...task, token });
              available.delete(pid);
            }
          } else if (step.do === 'complete' || step.do === 'release') {
            const [pid, task] = [...held][step.nth] ?? [];
            if (pid === undefined || task === undefined) continue;
            const item = { queue: A, pid, token: task.token };
            await h.clock.run(h.update(step.do === 'complete' ? { dequeue: [item] } : { release: [item] }));
            held.delete(pid);
            if (step.do === 'release') available.set(pid, { kind: task.kind, key: task.key });
          } else if (step.do === 'crash') await h.crash();
          else await h.clock.advance(1000);
        }
        const counts = await statsOf(h);
        const kinds = new Set([...available.values(), ...held.values()].map(({ kind }) => kind).filter(Boolean));
        expect(counts?.count ?? 0).toBe(kinds.size);
        for (const { kind, available: free, leased: taken } of counts?.most ?? []) {
          const of = (tasks: Iterable<{ kind: string }>) => [...tasks].filter((task) => task.kind === kind).length;
          expect([kind, free, taken]).toEqual([kind, of(available.values()), of(held.values())]);
        }
      }),
      { numRuns: 40 },
    );
  });
});
