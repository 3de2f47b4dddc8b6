import { parseQueueName, partitionOf } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import { Family } from '../ports/store.ts';
import { type EngineHarness, engineHarness, type LeaseSpec, leaseCommand } from '../testing/engine-harness.ts';
import { SeededRandom } from '../testing/seeded-random.ts';

const JOBS = [{ regex: '#jobs$' }];
const slowReads = { readMs: 20 };

/** Lets computations take time. */
function busyClock(h: EngineHarness) {
  let spentMs = 0;
  const now = h.clock.now.bind(h.clock);
  vi.spyOn(h.clock, 'now').mockImplementation(() => (now() + spentMs) as Instant);
  const elapse = (ms: number): void => {
    spentMs += ms;
  };
  return { elapse };
}

const found = (tasks: readonly LeasedTask[]): string[] =>
  tasks.map(({ queue: { group, name }, pid }) => `${group}#${name} ${pid}`);

/** Leases by pattern, beside named queues. */
const lease = (h: EngineHarness, spec: LeaseSpec = {}, queues: readonly string[] = []) =>
  h.lease(queues, { patterns: JOBS, ...spec }).then(found);

describe('a lease by pattern', () => {
  test('gets tasks of the queues that match, also after a restart', async () => {
    await using h = await engineHarness(slowReads);
    for (const queue of ['a#jobs', 'b#jobs', 'b#mail']) await h.clock.run(h.enqueue(queue, ['1', '2']));
    expect(await h.clock.run(lease(h, { max: 2 }))).toEqual(['a#jobs 1', 'b#jobs 1']);
    await h.crash();
    expect(await h.clock.run(lease(h, { max: 10 }))).toEqual(['a#jobs 2', 'b#jobs 2']);
    expect(await h.clock.run(lease(h))).toEqual([]);
  });

  test('takes turns among the queues', async () => {
    await using h = await engineHarness();
    await h.enqueue('busy#jobs', ['1', '2', '3', '4', '5', '6']);
    await h.enqueue('quiet#jobs', ['1', '2']);
    const tasks: string[] = [];
    for (let at = 0; at < 4; at++) tasks.push(...(await h.clock.run(lease(h))));
    expect(tasks).toEqual(['busy#jobs 1', 'quiet#jobs 1', 'busy#jobs 2', 'quiet#jobs 2']);
  });

  test('keeps the order of named queues and patterns, and names each queue once', async () => {
    await using h = await engineHarness();
    for (const queue of ['a#jobs', 'a#mail', 'first', 'last']) await h.enqueue(queue, ['1']);
    const patterns = [
      { regex: '#mail$', after: 1, id: 7 },
      { group: 'a', after: 1, id: 8 },
    ];
    const tasks = await h.clock.run(h.lease(['first', 'last'], { patterns, max: 10 }));
    expect(found(tasks)).toEqual(['#first 1', 'a#mail 1', 'a#jobs 1', '#last 1']);
    expect(tasks.map(({ patternId }) => patternId)).toEqual([undefined, 7, 8, undefined]);
  });

  test('gets due tasks that no request has looked for', async () => {
    await using h = await engineHarness(slowReads);
    await h.clock.run(h.update({ enqueue: [{ queue: 'a#jobs', pid: 'p', delay: 200 }] }));
    await h.clock.run(
      h.update({
        enqueue: [
          { queue: 'b#jobs', pid: '1', delay: 200 },
          { queue: 'b#jobs', pid: '2' },
        ],
      }),
    );
    await h.clock.advance(5_000);
    const tasks = [await h.clock.run(lease(h, { max: 10 })), await h.clock.run(lease(h, { max: 10 }))];
    expect(tasks.flat()).toEqual(['a#jobs p', 'b#jobs 1', 'b#jobs 2']);
  });

  test('takes as much of each queue, also if another of its patterns has no tasks', async () => {
    await using h = await engineHarness();
    for (const queue of ['a#jobs', 'b#jobs']) await h.enqueue(queue, ['1', '2', '3', '4']);
    const patterns = [
      { regex: '#jobs$', id: 1 },
      { regex: '#mail$', id: 2 },
    ];
    const tasks = await h.clock.run(lease(h, { patterns, max: 4 }));
    expect(tasks).toEqual(['a#jobs 1', 'a#jobs 2', 'b#jobs 1', 'b#jobs 2']);
  });

  test.each([0, 1])(
    'waits for the read of one queue although another one has nothing for it; wait of %i ms',
    async (wait) => {
      await using h = await engineHarness(slowReads);
      await h.clock.run(h.enqueue('a#jobs', ['1']));
      await h.crash();
      const waiting = lease(h, { wait, maxPid: '5' });
      await h.clock.advance(2);
      await h.enqueue('b#jobs', ['9']);
      expect(await h.clock.run(waiting)).toEqual(['a#jobs 1']);
    },
  );

  test('waits for tasks for whose answer there is no room yet', async () => {
    const config = { maxInFlightBytes: 10_000 };
    await using h = await engineHarness({ ...slowReads, syncMs: 50, config });
    const data = 'x'.repeat(3_000);
    for (const pid of ['1', '2', '3']) await h.clock.run(h.update({ enqueue: [{ queue: 'a#jobs', pid, data }] }));
    const named = [h.lease('a#jobs', { wait: 10_000 }), h.lease('a#jobs', { wait: 10_000 })];
    const waiting = lease(h, { wait: 1 });
    expect(await h.clock.run(waiting)).toEqual(['a#jobs 3']);
    expect((await h.clock.run(Promise.all(named))).flat()).toHaveLength(2);
  });

  test('finds the tasks of its caller behind those of ten thousand other groups, and those of groups that it may use later', async () => {
    await using h = await engineHarness();
    const allowed = new Set(['mine']);
    const patterns = [{ regex: '#jobs$', principal: 'p', mayLease: (group: string) => allowed.has(group) }];
    expect(await h.clock.run(lease(h, { patterns }))).toEqual([]);
    for (let first = 0; first < 10_100; first += 1_010) {
      const groups = Array.from({ length: 1_010 }, (_, at) => h.enqueue(`${first + at}#jobs`, ['1']));
      await h.clock.run(Promise.all(groups));
    }
    await h.clock.advance(1_000);
    await h.clock.run(h.enqueue('mine#jobs', ['1']));
    expect(await h.clock.run(lease(h, { patterns, wait: 1 }))).toEqual(['mine#jobs 1']);
    allowed.add('10050');
    const leased: string[] = [];
    for (let call = 0; call < 50; call++) leased.push(...(await h.clock.run(lease(h, { patterns }))));
    expect(leased).toEqual(['10050#jobs 1']);
  });

  test('names further queues with tasks, and others the next time', async () => {
    await using h = await engineHarness();
    const queues = ['a#jobs', 'b#jobs', 'c#jobs', 'd#jobs'];
    for (const queue of queues) await h.enqueue(queue, ['1', '2']);
    await h.clock.run(lease(h, {}, ['a#jobs']));
    const more = (): string[] =>
      h.engine.queuesWithTasks(leaseCommand(['a#jobs'], { patterns: JOBS }), 2).map(({ queue }) => queue.group);
    expect(new Set([...more(), ...more()])).toEqual(new Set(['b', 'c', 'd']));
  });

  test('is refused if its expression takes too long', async () => {
    await using h = await engineHarness();
    const names = Array.from({ length: 100 }, (_, at) => ({ queue: `g#${at}`, pid: 'p' }));
    await h.update({ enqueue: names });
    const command = leaseCommand([], { patterns: JOBS, wait: 60_000 });
    const [pattern] = command.patterns ?? [];
    const { elapse } = busyClock(h);
    const matches = (): boolean => {
      elapse(20);
      return false;
    };
    const waiting = h.engine.leaseTasks({ ...command, patterns: pattern && [{ ...pattern, key: 'slow', matches }] });
    await expect(h.clock.run(waiting, 60_000)).rejects.toMatchObject({
      reason: 'INVALID_REGEX',
      metadata: { field: 'patterns.name_regex' },
    });
    expect(h.engine.figures().waiters).toBe(0);
  });
});

describe('a wait by pattern', () => {
  test.each([
    ['a new queue', async (_h: EngineHarness) => {}],
    [
      'a queue that was emptied',
      async (h: EngineHarness) => {
        await h.enqueue('a#jobs', ['0']);
        await h.update({ dequeue: [{ queue: 'a#jobs', pid: '0' }] });
      },
    ],
  ])('is served in the turn in which %s gets a task', async (_what, before) => {
    await using h = await engineHarness();
    await before(h);
    const waiting = lease(h, { wait: 60_000 });
    await h.clock.advance(10_000);
    const asked = h.clock.now();
    await h.enqueue('a#mail', ['1']);
    await h.enqueue('a#jobs', ['1']);
    expect([await waiting, h.clock.now() - asked]).toEqual([['a#jobs 1'], 0]);
    expect(h.engine.figures().waiters).toBe(0);
  });

  test('is served in order of arrival, beside waits by name', async () => {
    await using h = await engineHarness();
    const served: string[] = [];
    const wait = (name: string, call: Promise<readonly unknown[]>): void => {
      void call.then((tasks) => {
        if (tasks.length > 0) served.push(name);
      });
    };
    await h.enqueue('b#jobs', ['0']);
    await h.clock.run(h.lease('b#jobs', { for: 3_600_000 }));
    wait('pattern 1', lease(h, { wait: 60_000 }));
    wait('name 1', h.lease('a#jobs', { wait: 60_000 }));
    wait('group', lease(h, { wait: 60_000, patterns: [{ group: 'a' }] }));
    wait('name 2', h.lease(['b#jobs', 'a#jobs'], { wait: 60_000 }));
    wait('pattern 2', lease(h, { wait: 60_000 }));
    await h.clock.advance(1_000);
    for (let at = 1; at <= 5; at++) {
      await h.enqueue('a#jobs', [String(at)]);
      await h.clock.advance(1);
    }
    expect(served).toEqual(['pattern 1', 'name 1', 'group', 'name 2', 'pattern 2']);
  });

  test('gets tasks whose delays end', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'a#jobs', pid: 'p', delay: 5_000 }] });
    const waiting = lease(h, { wait: 60_000 });
    const began = h.clock.now();
    expect(await h.clock.run(waiting)).toEqual(['a#jobs p']);
    expect(h.clock.now() - began).toBeLessThanOrEqual(5_100);
  });

  test('does not search queues again at once that cannot be read', async () => {
    await using h = await engineHarness({ readMs: 10 });
    // More than are searched at once.
    const queues = Array.from({ length: 40 }, (_, at) => `${at}#jobs`);
    for (const queue of queues) await h.clock.run(h.update({ enqueue: [{ queue, pid: 'p', delay: 20_000 }] }));
    await h.clock.run(h.close());
    await h.open();
    for (const { key } of h.disk.rowsOf(Family.due)) h.disk.corrupt(Family.due, key);
    const { store } = h;
    if (store === undefined) throw new Error('no store');
    const scan = vi.spyOn(store, 'scan');
    const waiting = lease(h, { wait: 21_000 });
    waiting.catch(() => {});
    await h.clock.advance(20_500);
    expect(scan.mock.calls.filter(([family]) => family === Family.due)).toHaveLength(queues.length);
  });

  test('ends without a task, or when its caller gives up, and keeps no task then', async () => {
    await using h = await engineHarness();
    const inVain = lease(h, { wait: 1_000 });
    const abort = new AbortController();
    const given = expect(lease(h, { wait: 60_000, signal: abort.signal })).rejects.toMatchObject({
      reason: 'CANCELLED',
    });
    await h.clock.advance(1_000);
    expect(await inVain).toEqual([]);
    abort.abort();
    await given;
    await h.enqueue('a#jobs', ['1']);
    expect(await h.counts('a#jobs')).toEqual({ available: 1, leased: 0, delayed: 0 });
  });

  test('goes on after memory was rebuilt', async () => {
    await using h = await engineHarness();
    const waiting = lease(h, { wait: 60_000 });
    await h.clock.advance(10);
    h.disk.space = 'none';
    await expect(h.update({ enqueue: [{ queue: 'a#jobs', pid: '1' }] })).rejects.toBeInstanceOf(Refusal);
    h.disk.space = 'plenty';
    await h.clock.advance(3_000);
    await h.clock.run(h.enqueue('a#jobs', ['2']));
    expect(await h.clock.run(waiting)).toEqual(['a#jobs 2']);
  });

  test('gets only tasks of groups from which its caller may lease, as it may now', async () => {
    await using h = await engineHarness();
    const allowed = new Set(['a']);
    const patterns = [{ regex: '#jobs$', mayLease: (group: string) => allowed.has(group) }];
    await h.enqueue('b#jobs', ['1']);
    expect(await h.clock.run(lease(h, { patterns }))).toEqual([]);
    const waiting = lease(h, { patterns, wait: 60_000 });
    await h.enqueue('b#jobs', ['2']);
    await h.enqueue('a#jobs', ['3']);
    expect(await h.clock.run(waiting)).toEqual(['a#jobs 3']);
    allowed.add('b');
    expect(await h.clock.run(lease(h, { patterns }))).toEqual(['b#jobs 1']);
  });

  test('of many requests costs a look at one queue for each task', async () => {
    await using h = await engineHarness();
    let matched = 0;
    const command = leaseCommand([], { patterns: JOBS, wait: 60_000 });
    const counting = (command.patterns ?? []).map((pattern) => ({
      ...pattern,
      matches: (name: string) => {
        matched++;
        return pattern.matches?.(name) ?? true;
      },
    }));
    const waits = Array.from({ length: 100 }, () => h.engine.leaseTasks({ ...command, patterns: counting }));
    await h.clock.advance(10);
    for (let at = 0; at < 100; at++) await h.enqueue(`${at % 10}#jobs`, [String(at)]);
    expect((await h.clock.run(Promise.all(waits))).every((tasks) => tasks.length === 1)).toBe(true);
    expect(matched).toBe(10);
  });

  test('is served although the credential of a later caller of its principal has expired', async () => {
    await using h = await engineHarness();
    let isValid = true;
    const pattern = { regex: '#jobs$', principal: 'p' };
    const waiting = lease(h, { wait: 60_000, patterns: [{ ...pattern, mayLease: () => true }] });
    const expired = lease(h, {
      wait: 60_000,
      patterns: [{ ...pattern, mayLease: () => (isValid ? true : undefined) }],
    });
    isValid = false;
    await h.enqueue('a#jobs', ['1', '2']);
    expect(await h.clock.run(waiting, 1_000)).toEqual(['a#jobs 1']);
    expect(await h.counts('a#jobs')).toMatchObject({ available: 1 });
    await h.clock.advance(60_000);
    expect(await expired).toEqual([]);
  });

  test('leaves patterns to other principals', async () => {
    await using h = await engineHarness();
    const ask = (principal: string, at: number) =>
      h.clock.run(lease(h, { patterns: [{ regex: `^${at}`, group: 'a', principal }] }));
    for (let at = 0; at < 2_500; at++) await ask('one', at);
    await ask('two', 0);
    const waits = Array.from({ length: 2_500 }, (_, at) =>
      lease(h, { wait: 1_000, patterns: [{ regex: `^${at}`, group: 'a', principal: 'one' }] }),
    );
    await expect(ask('one', 2_500)).rejects.toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '2500' } });
    await ask('two', 1);
    await h.clock.advance(2_000);
    await Promise.all(waits);
  });

  test('leaves patterns over all groups to other principals', async () => {
    await using h = await engineHarness();
    const wait = (principal: string, at: number) =>
      lease(h, { wait: 60_000, patterns: [{ regex: `^${at}#`, principal }] });
    const waits = Array.from({ length: 64 }, (_, at) => wait('one', at));
    await expect(wait('one', 64)).rejects.toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '64' } });
    await h.enqueue('0#jobs', ['1']);
    expect(await waits[0]).toEqual(['0#jobs 1']);
    // The pattern of a request that was answered makes room.
    waits.push(wait('one', 64), wait('two', 1));
    await h.clock.advance(60_000);
    expect((await Promise.all(waits.slice(1))).flat()).toEqual([]);
    expect(h.engine.figures().waiters).toBe(0);
  });

  test('of a slow expression does not hold up the commit that creates a queue', async () => {
    await using h = await engineHarness();
    const command = leaseCommand([], { patterns: JOBS, wait: 60_000 });
    const { elapse } = busyClock(h);
    const slow = (command.patterns ?? []).map((pattern) => ({
      ...pattern,
      matches: (name: string) => {
        elapse(3);
        return pattern.matches?.(name) ?? true;
      },
    }));
    const waiting = h.engine.leaseTasks({ ...command, patterns: slow });
    await h.clock.advance(10);
    const began = h.clock.now();
    await h.update({ enqueue: Array.from({ length: 50 }, (_, at) => ({ queue: `g#${at}`, pid: 'p' })) });
    expect(h.clock.now() - began).toBeLessThan(10);
    await h.enqueue('g#jobs', ['1']);
    expect(found(await h.clock.run(waiting, 10_000))).toEqual(['g#jobs 1']);
  });

  test('beside many slow patterns hardly delays other calls, and new queues of other groups are matched beside theirs', async () => {
    await using h = await engineHarness();
    const { elapse } = busyClock(h);
    const slow = leaseCommand([], { patterns: [{ group: 'g', regex: 'x' }] });
    const [pattern] = slow.patterns ?? [];
    const matches = (): boolean => {
      elapse(10);
      return false;
    };
    for (let at = 0; at < 500; at++) {
      const patterns = pattern && [{ ...pattern, key: `${at}`, matches }];
      await h.clock.run(h.engine.leaseTasks({ ...slow, patterns }));
    }
    const waiting = lease(h, { wait: 60_000 });
    await h.clock.advance(100);
    await h.enqueue('g#slow', ['1']);
    let last = h.clock.now();
    let longest = 0;
    for (let at = 0; at < 100; at++) {
      await h.clock.advance(1);
      longest = Math.max(longest, h.clock.now() - last);
      last = h.clock.now();
    }
    expect(longest).toBeLessThan(30);
    await h.enqueue('other#jobs', ['1']);
    expect(await h.clock.run(waiting, 500)).toEqual(['other#jobs 1']);
  });
});

describe('requests by name and by pattern, in random histories', () => {
  const GROUPS = ['a', 'b', 'c'];
  const NAMES = ['jobs', 'mail'];
  const QUEUES = GROUPS.flatMap((group) => NAMES.map((name) => `${group}#${name}`));
  const PATTERNS: readonly { readonly regex?: string; readonly group?: string }[] = [
    { regex: '#jobs$' },
    { group: 'b' },
    { regex: '^[ab]#' },
    { regex: 'a', group: 'a' },
  ];

  test.each(Array.from({ length: 100 }, (_, seed) => seed))(
    'leave no task that one of them waits for; seed %i',
    async (seed) => {
      const random = new SeededRandom(seed);
      const pick = <T>(from: readonly T[]): T => from[Math.floor(random.next() * from.length)] as T;
      const config = { cacheBytes: 2048, minRefillTasks: 1, maxRefillTasks: 2, emptyQueueRetentionMs: 500 };
      await using h = await engineHarness({ readMs: 3, syncMs: 2, seed, config });
      const waits = new Set<{ readonly covers: (queue: string) => boolean }>();
      const leased: LeasedTask[] = [];
      const begin = (): void => {
        const pattern = pick(PATTERNS);
        const name = pick(QUEUES);
        const byName = random.next() < 0.3;
        const covers = (queue: string): boolean => {
          if (byName) return queue === name;
          if (pattern.group !== undefined && queue.split('#')[0] !== pattern.group) return false;
          return pattern.regex === undefined || new RegExp(pattern.regex).test(queue);
        };
        const wait = { covers };
        waits.add(wait);
        const spec = { wait: 600_000, max: 1 + Math.floor(random.next() * 3), for: 100 + random.next() * 2_000 };
        const call = byName ? h.lease(name, spec) : h.lease([], { ...spec, patterns: [pattern] });
        void call.then((tasks) => {
          waits.delete(wait);
          leased.push(...tasks);
        });
      };
      for (let step = 0; step < 60; step++) {
        const queue = pick(QUEUES);
        const choice = random.next();
        let work: Promise<unknown> = Promise.resolve();
        if (choice < 0.35) begin();
        else if (choice < 0.6) {
          const delay = random.next() < 0.3 ? Math.floor(random.next() * 300) : 0;
          work = h.update({ enqueue: [{ queue, pid: String(step), delay }] });
        } else if (choice < 0.7) {
          work = h.lease([], { patterns: [pick(PATTERNS)], max: 5, for: 200 });
        } else if (choice < 0.85) {
          const task = leased.pop();
          if (task) {
            const { group, name } = task.queue;
            work = h.update({ dequeue: [{ queue: `${group}#${name}`, pid: task.pid, token: task.token }] });
          }
        } else if (choice < 0.9) work = h.engine.deleteQueue(parseQueueName(queue));
        else work = h.clock.advance(Math.floor(random.next() * 700));
        if (choice < 0.9) void work.catch(() => {});
        else await work;
        if (random.next() < 0.7) await h.clock.advance(Math.floor(random.next() * 10));
      }
      // All delays, leases and reads are over, and so are the searches for due tasks.
      await h.clock.advance(10_000);
      for (const queue of QUEUES) {
        const { available } = await h.clock.run(h.counts(queue));
        const isAwaited = [...waits].some(({ covers }) => covers(queue));
        if (available > 0) expect([queue, isAwaited]).toEqual([queue, false]);
      }
    },
  );
});

describe('on a node of a cluster, a wait by pattern', () => {
  const P = partitionOf('a', 4) as PartitionId;

  test('gets tasks of partitions that come, and none of those that go', async () => {
    await using h = await engineHarness({ clustered: true, config: { partitions: 4 } });
    const waiting = lease(h, { wait: 60_000 });
    await h.clock.advance(1_000);
    await h.clock.run(h.engine.partitions.claim([{ id: P, epoch: 1 }]));
    await h.clock.run(h.enqueue('a#jobs', ['1', '2']));
    expect(await h.clock.run(waiting)).toEqual(['a#jobs 1']);
    await h.clock.run(h.engine.partitions.supersede(P, { nodeId: 'b', epoch: 2 }));
    expect(await h.clock.run(lease(h, { wait: 1_000 }), 5_000)).toEqual([]);
    const ofGroup = lease(h, { patterns: [{ group: 'a' }], wait: 1_000 });
    await expect(h.clock.run(ofGroup, 5_000)).rejects.toMatchObject({ reason: 'NOT_HOLDER' });
  });
});
