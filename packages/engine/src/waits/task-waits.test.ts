import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { AwaitedTask, EndedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import type { Refusal } from '../domain/refusal.ts';
import { type EngineHarness, engineHarness, type HarnessOptions } from '../testing/engine-harness.ts';

const QUEUE = 'g#q';

/** An engine with a leased task `p`, and the completion of that task. */
async function withLeased(options: HarnessOptions = {}) {
  const h = await engineHarness(options);
  await h.clock.run(h.enqueue(QUEUE, ['p']));
  const [task] = await h.clock.run(h.lease(QUEUE, { for: 60_000 }));
  const token = task?.token;
  const complete = (result?: string, keep?: number) =>
    h.update({
      dequeue: [{ queue: QUEUE, pid: 'p', token, ...(result !== undefined && { result }), ...(keep && { keep }) }],
    });
  return { h, token, complete };
}

const ANY = {
  matches: undefined,
  minAvailable: undefined,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};

const shown = (ended: readonly EndedTask[]) =>
  ended.map(({ index, end }) => [index, end.outcome, end.result && Buffer.from(end.result).toString()]);

async function ask(h: EngineHarness, pids: readonly string[] = ['p']) {
  return shown(await h.clock.run(h.waitFor(QUEUE, pids)));
}

const refusalOf = (call: Promise<unknown>): Promise<Refusal> =>
  call.then(
    () => expect.unreachable('was not refused'),
    (error: Refusal) => error,
  );

describe('a wait for a task', () => {
  test('ends when the task is completed, with its result', async () => {
    const { h, complete } = await withLeased();
    await using _ = h;
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(10_000);
    await complete('42');
    const [ended] = await waiting;
    expect(ended).toMatchObject({ index: 0, end: { outcome: 'completed', attempts: 1, at: expect.any(Number) } });
    expect(shown(await waiting)).toEqual([[0, 'completed', '42']]);
  });

  test('has the result at once if the task was completed before, also after a crash', async () => {
    const { h, complete } = await withLeased();
    await using _ = h;
    await complete('');
    expect(await ask(h)).toEqual([[0, 'completed', '']]);
    await h.crash();
    expect(await ask(h)).toEqual([[0, 'completed', '']]);
  });

  test('ends without tasks after its time', async () => {
    const { h } = await withLeased();
    await using _ = h;
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 5_000 });
    await h.clock.advance(4_999);
    expect(h.engine.figures().taskWaits).toBe(1);
    await h.clock.advance(1);
    expect(await waiting).toEqual([]);
    expect(h.engine.figures().taskWaits).toBe(0);
  });

  test.each([
    [
      'completed without a result',
      'completed',
      (h: EngineHarness, token?: number) =>
        h.update({ dequeue: [{ queue: QUEUE, pid: 'p', ...(token && { token }) }] }),
    ],
    [
      'removed without a lease token',
      'removed',
      (h: EngineHarness) => h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] }),
    ],
    ['gone with its queue', 'removed', (h: EngineHarness) => h.engine.deleteQueue(parseQueueName(QUEUE))],
  ])('knows a task that is %s, and a later wait does not', async (_how, outcome, end) => {
    const { h, token } = await withLeased();
    await using _ = h;
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(1);
    await end(h, token);
    expect(shown(await waiting)).toEqual([[0, outcome, undefined]]);
    expect(await ask(h)).toEqual([[0, 'unknown', undefined]]);
  });

  test('ends with the error of a task that goes to its dead-letter queue', async () => {
    const { h, token } = await withLeased();
    await using _ = h;
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(1);
    const release = { queue: QUEUE, pid: 'p', ...(token && { token }), error: 'no such address', deadLetter: true };
    await h.update({ release: [release] });
    const end = { outcome: 'dead-lettered', error: 'no such address', attempts: 1 };
    expect(await waiting).toMatchObject([{ index: 0, end }]);
    expect(await h.waitFor(QUEUE, ['p'])).toMatchObject([{ index: 0, end }]);
    await h.update({ dequeue: [{ queue: `${QUEUE}.dead`, pid: 'p', requeue: true }] });
    expect(await ask(h)).toEqual([]);
  });

  test('by a lease token has neither result nor error, because workers may not have the right to read', async () => {
    const { h, token, complete } = await withLeased();
    await using _ = h;
    const waits = [h.waitFor(QUEUE, ['p'], { wait: 60_000, token }), h.waitFor(QUEUE, ['p'], { wait: 60_000 })];
    await h.clock.advance(1);
    await complete('42');
    expect((await Promise.all(waits)).map(shown)).toEqual([[[0, 'completed', undefined]], [[0, 'completed', '42']]]);
    expect(shown(await h.clock.run(h.waitFor(QUEUE, ['p'], { token: 1 })))).toEqual([[0, 'completed', undefined]]);

    await h.clock.run(h.enqueue(QUEUE, ['dead']));
    const [dead] = await h.clock.run(h.lease(QUEUE, { for: 60_000 }));
    await h.update({
      release: [{ queue: QUEUE, pid: 'dead', token: dead?.token, error: 'no such address', deadLetter: true }],
    });
    const [ended] = await h.clock.run(h.waitFor(QUEUE, ['dead'], { token: 1 }));
    expect(ended?.end).toMatchObject({ outcome: 'dead-lettered', error: undefined });
  });

  test('ends when the lease of the last attempt expires', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', retry: { maxAttempts: 1 } }] });
    await h.lease(QUEUE, { for: 1_000 });
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(2_000);
    expect(await waiting).toMatchObject([{ end: { outcome: 'dead-lettered', error: undefined } }]);
  });

  test('of a request with many has the first that ends, and all that end together', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b', 'c']);
    const waiting = h.waitFor(QUEUE, ['c', 'b', 'a', 'a'], { wait: 60_000 });
    await h.clock.advance(1);
    await h.update({
      dequeue: [
        { queue: QUEUE, pid: 'a', result: '1' },
        { queue: QUEUE, pid: 'c' },
      ],
    });
    expect(shown(await waiting)).toEqual([
      [2, 'completed', '1'],
      [3, 'completed', '1'],
      [0, 'removed', undefined],
    ]);
  });

  test('is for the task that is in the queue, and not for an earlier one with its PID', async () => {
    const { h, complete } = await withLeased();
    await using _ = h;
    await complete('first');
    await h.enqueue(QUEUE, ['p']);
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(10);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p', result: 'second' }] });
    expect(shown(await waiting)).toEqual([[0, 'completed', 'second']]);
    expect(await ask(h)).toEqual([[0, 'completed', 'second']]);
    await h.enqueue(QUEUE, ['p']);
    await h.crash();
    await h.clock.run(h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] }));
    expect(await ask(h)).toEqual([[0, 'unknown', undefined]]);
  });

  describe('that went to a dead-letter queue', () => {
    async function withDead(deadLetterQueue = ''): Promise<EngineHarness> {
      const h = await engineHarness();
      await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', retry: { maxAttempts: 1, deadLetterQueue } }] });
      const [task] = await h.lease(QUEUE);
      await h.update({ release: [{ queue: QUEUE, pid: 'p', token: task?.token, error: 'broken' }] });
      return h;
    }
    const endOf = async (h: EngineHarness) => (await h.waitFor(QUEUE, ['p']))[0]?.end;

    test.each(['', 'lost'])('knows its error, also after a crash, for an hour: queue "%s"', async (name) => {
      await using h = await withDead(name);
      expect(await endOf(h)).toMatchObject({ outcome: 'dead-lettered', error: 'broken', attempts: 1 });
      await h.clock.advance(3_590_000);
      await h.crash();
      expect(await endOf(h)).toMatchObject({ outcome: 'dead-lettered', error: 'broken' });
      await h.clock.advance(11_000);
      expect(await endOf(h)).toMatchObject({ outcome: 'unknown' });
    });

    test('counts no leases in the dead-letter queue', async () => {
      await using h = await withDead();
      for (let times = 0; times < 2; times++) {
        const [dead] = await h.lease(`${QUEUE}.dead`);
        await h.update({
          release: [{ queue: `${QUEUE}.dead`, pid: 'p', token: dead?.token, error: 'still', delay: 0 }],
        });
      }
      expect(await endOf(h)).toMatchObject({ outcome: 'dead-lettered', error: 'broken', attempts: 1 });
    });

    test.each(['completed', 'removed', 'reordered'])('is told of no longer when a later task was %s', async (how) => {
      await using h = await withDead();
      await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', key: 'k' }] });
      if (how === 'reordered') {
        await h.update({ enqueue: [{ queue: QUEUE, pid: 'o', key: 'k', mode: EnqueueMode.ENQUEUE_MODE_REPLACE }] });
      } else {
        const token = how === 'completed' ? (await h.lease(QUEUE))[0]?.token : undefined;
        await h.update({ dequeue: [{ queue: QUEUE, pid: 'p', token }] });
      }
      expect(await endOf(h)).toMatchObject({ outcome: 'unknown' });
      await h.crash();
      expect(await endOf(h)).toMatchObject({ outcome: 'unknown' });
    });
  });

  test('does not end with a run after which the task runs again', async () => {
    const { h, complete } = await withLeased();
    await using _ = h;
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', mode: 4 }] });
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await complete('first run');
    await h.clock.advance(1_000);
    const [again] = await h.lease(QUEUE);
    await h.update({
      dequeue: [{ queue: QUEUE, pid: 'p', ...(again && { token: again.token }), result: 'second run' }],
    });
    expect(shown(await waiting)).toEqual([[0, 'completed', 'second run']]);
  });

  test('is told nothing that is not durable', async () => {
    const { h, complete } = await withLeased({ syncMs: 100 });
    await using _ = h;
    let ended: readonly EndedTask[] | undefined;
    void h.waitFor(QUEUE, ['p'], { wait: 60_000 }).then((tasks) => {
      ended = tasks;
    });
    await h.clock.advance(500);
    const completing = complete('42');
    await h.clock.advance(50);
    expect(ended).toBeUndefined();
    await h.clock.advance(500);
    await completing;
    expect(shown(ended ?? [])).toEqual([[0, 'completed', '42']]);
  });

  test('ends if its caller gives up, or the engine stops', async () => {
    const { h } = await withLeased();
    const abort = new AbortController();
    const given = refusalOf(h.waitFor(QUEUE, ['p'], { wait: 60_000, signal: abort.signal }));
    const stopped = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(1);
    abort.abort();
    expect(await given).toMatchObject({ reason: 'CANCELLED', metadata: { nothing_changed: 'true' } });
    await h[Symbol.asyncDispose]();
    expect(await stopped).toEqual([]);
  });

  test('is refused if too many wait', async () => {
    const { h } = await withLeased({ config: { maxWaiters: 1 } });
    await using _ = h;
    const first = h.waitFor(QUEUE, ['p'], { wait: 1_000 });
    expect(await refusalOf(h.waitFor(QUEUE, ['p'], { wait: 1_000 }))).toMatchObject({
      reason: 'TOO_MANY_WAITERS',
      metadata: { limit: '1' },
    });
    expect(await ask(h)).toEqual([]);
    await h.clock.advance(1_000);
    expect(await first).toEqual([]);
  });

  test('fails if the node can write no more', async () => {
    const { h, complete } = await withLeased();
    await using _ = h;
    const waiting = refusalOf(h.waitFor(QUEUE, ['p'], { wait: 60_000 }));
    await h.clock.advance(1);
    h.disk.failSync();
    await expect(h.clock.run(complete('42'))).rejects.toMatchObject({ reason: 'STORE_FAILED' });
    expect((await waiting).reason).toBe('STORE_FAILED');
  });
});

test('a wait looks again after a write that found the disk full', async () => {
  const { h, complete } = await withLeased({ syncMs: 10 });
  await using _ = h;
  const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
  await h.clock.advance(100);
  h.disk.space = 'none';
  const lost = refusalOf(complete());
  await h.clock.advance(100);
  expect((await lost).reason).toBe('DISK_FULL');
  h.disk.space = 'plenty';
  await h.clock.advance(2_000);
  expect(h.engine.figures().taskWaits).toBe(1);
  await h.clock.run(complete('42'));
  expect(shown(await waiting)).toEqual([[0, 'completed', '42']]);
});

describe('a short wait', () => {
  test('has the ends that its first look finds, however long the look takes', async () => {
    const { h, complete } = await withLeased({ readMs: 20 });
    await using _ = h;
    await h.clock.run(complete('42'));
    await h.crash();
    const waits = [1, 2, 60_000].map((wait) => h.waitFor(QUEUE, ['p'], { wait }));
    const done = [0, 'completed', '42'];
    expect((await h.clock.run(Promise.all(waits))).map(shown)).toEqual([[done], [done], [done]]);
    expect(h.engine.figures().taskWaits).toBe(0);
  });

  test('ends with nothing after a look that finds nothing', async () => {
    const { h } = await withLeased({ readMs: 20 });
    await using _ = h;
    await h.crash();
    expect(await h.clock.run(h.waitFor(QUEUE, ['p'], { wait: 1 }), 1_000)).toEqual([]);
  });

  test('has an end that was decided in time and is durable later', async () => {
    const { h, complete } = await withLeased({ syncMs: 100 });
    await using _ = h;
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(59_990);
    const completing = complete('42');
    await h.clock.run(completing);
    expect(shown(await waiting)).toEqual([[0, 'completed', '42']]);
  });
});

describe('a result', () => {
  test('goes after its retention, and with it all that the group has kept for it', async () => {
    const { h, complete } = await withLeased();
    await using _ = h;
    await complete('42', 10_000);
    await h.clock.advance(9_000);
    expect(await ask(h)).toEqual([[0, 'completed', '42']]);
    await h.clock.advance(2_000);
    expect(await ask(h)).toEqual([[0, 'unknown', undefined]]);
    await h.clock.advance(120_000);
    expect(h.taskRows()).toBe(0);
    expect(h.engine.figures().queues).toBe(0);
  });

  test('is in no listing, no count and no quota', async () => {
    const { h, complete } = await withLeased({ groupLimits: () => ({ queues: 1, tasks: 1, bytes: 100 }) });
    await using _ = h;
    const { tasksEnqueued } = h.engine.figures();
    await complete('x'.repeat(500));
    const everything = { ...ANY, group: 'g' };
    const { queues } = await h.engine.listQueues({
      filter: everything,
      limit: 10,
      after: undefined,
      includeEmpty: true,
    });
    expect(queues.map(({ queue }) => queue.name)).toEqual(['q']);
    const { totals } = await h.engine.queueStats({ kind: 'filtered', filter: everything, limit: 10 });
    expect(totals).toMatchObject({ queues: 0, available: 0, leased: 0, delayed: 0 });
    expect(h.engine.figures()).toMatchObject({ queues: 1, tasksEnqueued, tasksCompleted: 1 });
    await h.enqueue(QUEUE, ['next']);
  });

  test('of a refused update is not kept', async () => {
    const { h, token } = await withLeased();
    await using _ = h;
    const dequeue = [
      { queue: QUEUE, pid: 'p', ...(token && { token }), result: '42' },
      { queue: QUEUE, pid: 'missing' },
    ];
    expect(await refusalOf(h.update({ dequeue }))).toMatchObject({ reason: 'TASK_NOT_FOUND' });
    expect([await ask(h), h.taskRows()]).toEqual([[], 1]);
  });

  test('of a repeated request is kept once, and a request with another result is another request', async () => {
    const { h, token } = await withLeased();
    await using _ = h;
    const update = (result: string) =>
      h.update({ dequeue: [{ queue: QUEUE, pid: 'p', ...(token && { token }), result }], id: 'r' });
    await update('42');
    await update('42');
    expect(await ask(h)).toEqual([[0, 'completed', '42']]);
    expect((await refusalOf(update('43'))).reason).toBe('REQUEST_ID_REUSED');
  });

  test('does not fit on a full disk: its completion is refused, and others are not', async () => {
    const { h, token, complete } = await withLeased();
    await using _ = h;
    await h.enqueue(QUEUE, ['other']);
    h.disk.space = 'short';
    await h.clock.advance(1_000);
    const results = await h.batch([
      { dequeue: [{ queue: QUEUE, pid: 'p', ...(token && { token }), result: '42' }] },
      { dequeue: [{ queue: QUEUE, pid: 'other' }] },
    ]);
    expect(results).toMatchObject([{ reason: 'DISK_FULL' }, { enqueued: [] }]);
    expect(await refusalOf(complete('42'))).toMatchObject({ reason: 'DISK_FULL' });
    await complete();
  });
});

describe('many waits for many tasks', () => {
  const WAITS = 20;
  const NAMES = Array.from({ length: 300 }, (_, at) => String(at).padStart(4, '0'));

  /** Waits for all the tasks, and how often one of them was read in the lists of the waits. */
  async function withWaits() {
    const h = await engineHarness();
    await h.enqueue(QUEUE, NAMES);
    const counts = { reads: 0, answered: 0 };
    const counted = (tasks: AwaitedTask[]): AwaitedTask[] =>
      new Proxy(tasks, {
        get(target, key) {
          if (typeof key === 'string' && /^\d+$/.test(key)) counts.reads++;
          return Reflect.get(target, key);
        },
      });
    const queue = parseQueueName(QUEUE);
    const answers = Array.from({ length: WAITS }, async () => {
      const tasks = counted(NAMES.map((pid) => ({ queue, pid: pid as Pid, token: undefined })));
      const ended = await h.engine.waitForTasks({ group: queue.group, tasks, waitMs: 60_000 });
      counts.answered++;
      return ended;
    });
    await h.clock.advance(10);
    expect(h.engine.figures().taskWaits).toBe(WAITS);
    counts.reads = 0;
    return { h, counts, answers };
  }

  test('are answered with work in proportion to both, in slices between other calls', async () => {
    const { h, counts, answers } = await withWaits();
    await using _ = h;
    await h.update({ dequeue: NAMES.map((pid) => ({ queue: QUEUE, pid })) });
    expect(counts.answered).toBeLessThan(WAITS / 2);
    for (const ended of await h.clock.run(Promise.all(answers))) {
      expect(ended.map(({ index }) => index)).toEqual(NAMES.map((_name, at) => at));
    }
    expect(counts.reads).toBeLessThan(5 * WAITS * NAMES.length);
  });

  test('have their answers when the engine stops before all of them are told', async () => {
    const { h, counts, answers } = await withWaits();
    await h.update({ dequeue: NAMES.map((pid) => ({ queue: QUEUE, pid })) });
    expect(counts.answered).toBeLessThan(WAITS);
    await h[Symbol.asyncDispose]();
    for (const ended of await h.clock.run(Promise.all(answers))) expect(ended).toHaveLength(NAMES.length);
  });

  test('look again after a write that found the disk full', async () => {
    const { h, counts, answers } = await withWaits();
    await using _ = h;
    h.disk.space = 'none';
    const dequeue = NAMES.map((pid) => ({ queue: QUEUE, pid }));
    const lost = refusalOf(h.update({ dequeue }));
    await h.clock.advance(100);
    expect((await lost).reason).toBe('DISK_FULL');
    h.disk.space = 'plenty';
    await h.clock.advance(2_000);
    expect(counts.answered).toBe(0);
    await h.clock.run(h.update({ dequeue }));
    for (const ended of await h.clock.run(Promise.all(answers))) expect(ended).toHaveLength(NAMES.length);
  });

  test('that name a task twice have it at both places', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['p', 'q']);
    const waiting = h.waitFor(QUEUE, ['p', 'q', 'p', 'p'], { wait: 60_000 });
    await h.clock.advance(1);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] });
    expect((await h.clock.run(waiting)).map(({ index }) => index)).toEqual([0, 2, 3]);
  });
});

describe('the results of a group', () => {
  const PIDS = Array.from({ length: 40 }, (_, at) => String(at).padStart(2, '0'));

  /** Completes tasks whose results have a KiB each. Those of the last ones are kept the shortest. */
  async function withResults(maxResultBytes: number) {
    const h = await engineHarness({ config: { maxResultBytes } });
    await h.enqueue(QUEUE, PIDS);
    const dequeue = PIDS.map((pid, at) => ({ queue: QUEUE, pid, result: 'x'.repeat(1024), keep: 100_000 - at }));
    await h.clock.run(h.update({ dequeue }));
    return h;
  }

  test('are bounded in bytes: those go first whose retention ends first', async () => {
    await using h = await withResults(10 * 1100);
    await h.clock.advance(1_000);
    const outcomes = (await h.clock.run(h.waitFor(QUEUE, PIDS))).map(({ end }) => end.outcome);
    expect(outcomes).toEqual(PIDS.map((_pid, at) => (at < 10 ? 'completed' : 'unknown')));
    expect(h.engine.figures().resultsEvicted).toBe(30);
  });

  test('stay within their bound after a restart', async () => {
    await using h = await withResults(10 * 1100);
    await h.crash();
    await h.clock.advance(1_000);
    const outcomes = (await h.clock.run(h.waitFor(QUEUE, PIDS))).map(({ end }) => end.outcome);
    expect(outcomes.filter((outcome) => outcome === 'completed')).toHaveLength(10);
  });

  test('fill a reply only as far as it goes: the next wait has the others', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, PIDS);
    const large = 'x'.repeat(250_000);
    for (const pid of PIDS) await h.update({ dequeue: [{ queue: QUEUE, pid, result: large }] });
    await h.crash();
    const ended = await h.clock.run(h.waitFor(QUEUE, PIDS));
    expect(ended.length).toBe(14);
    expect(ended.every(({ end }) => end.result?.length === large.length)).toBe(true);
  });
});
