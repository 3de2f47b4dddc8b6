import { EnqueueResult, parseQueueName, WhenFull } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../../domain/ids.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness, type UpdateSpec } from '../../testing/engine-harness.ts';
import { limitQueues } from '../../testing/limit-queues.ts';
import { putSettings } from '../../testing/put-settings.ts';

const PARENTS = 'g#parents';
const QUEUE = 'g#children';
const a = { queue: QUEUE, pid: 'a' };

const tokenOf = async (h: EngineHarness): Promise<number | undefined> => (await look(h, QUEUE, 'a'))?.state?.token;

async function look(h: EngineHarness, queue: string, pid: string) {
  const name = parseQueueName(queue);
  return (await h.engine.getTasks({ queue: name, pids: [pid as Pid], includeData: false, includeSignals: true }))[0];
}

const lease = async (h: EngineHarness): Promise<void> => void (await h.lease(QUEUE, { max: 1, for: 5_000 }));
const update =
  (spec: UpdateSpec) =>
  async (h: EngineHarness): Promise<void> =>
    void (await h.update(spec));
const withToken =
  (specOf: (token: number | undefined) => UpdateSpec) =>
  async (h: EngineHarness): Promise<void> =>
    void (await h.update(specOf(await tokenOf(h))));
type Step = (h: EngineHarness) => Promise<unknown>;
/** Steps in which only time passes. */
const waits = new Set<Step>();
function wait(ms: number): Step {
  const step = (h: EngineHarness): Promise<void> => h.clock.advance(ms);
  waits.add(step);
  return step;
}

interface Road {
  /** How its end counts: as that of a completed task, of a dead letter, or of another one. */
  readonly as: 'completed' | 'dead' | 'gone';
  readonly child?: Partial<EnqueueSpec> | ((now: number) => Partial<EnqueueSpec>);
  readonly steps: readonly Step[];
}

/** The ways in which a task may leave its queue. */
const roads: Readonly<Record<string, Road>> = {
  'completed by its worker': {
    as: 'completed',
    steps: [lease, withToken((token) => ({ dequeue: [{ ...a, token }] }))],
  },
  'completed after its lease': {
    as: 'completed',
    steps: [lease, wait(6_000), withToken((token) => ({ dequeue: [{ ...a, token }] }))],
  },
  removed: { as: 'gone', steps: [update({ dequeue: [a] })] },
  'removed while it was leased': { as: 'gone', steps: [lease, update({ dequeue: [a] })] },
  cancelled: { as: 'gone', steps: [update({ dequeue: [{ ...a, cancel: 'no' }] })] },
  'cancelled, then released': {
    as: 'gone',
    steps: [
      lease,
      update({ dequeue: [{ ...a, cancel: 'no' }] }),
      withToken((token) => ({ release: [{ ...a, token }] })),
    ],
  },
  'cancelled, then expired': { as: 'gone', steps: [lease, update({ dequeue: [{ ...a, cancel: 'no' }] }), wait(6_000)] },
  'cancelled, then reset': {
    as: 'gone',
    steps: [lease, update({ dequeue: [{ ...a, cancel: 'no' }] }), (h) => h.engine.resetLeases(parseQueueName(QUEUE))],
  },
  'given up by its worker': {
    as: 'dead',
    steps: [lease, withToken((token) => ({ release: [{ ...a, token, error: 'no', deadLetter: true }] }))],
  },
  'failed for the last time': {
    as: 'dead',
    child: { retry: { maxAttempts: 1 } },
    steps: [lease, withToken((token) => ({ release: [{ ...a, token, error: 'no' }] }))],
  },
  'expired for the last time': { as: 'dead', child: { retry: { maxAttempts: 1 } }, steps: [lease, wait(6_000)] },
  'not started in time': { as: 'gone', child: (now) => ({ startBy: now + 2_000 }), steps: [wait(3_000)] },
  'not started in time, with a dead-letter queue': {
    as: 'dead',
    child: (now) => ({ startBy: now + 2_000, retry: { deadLetterQueue: 'late' } }),
    steps: [wait(3_000)],
  },
  'not signalled in time': {
    as: 'dead',
    child: { waitFor: { signals: 1, timeoutMs: 2_000, action: 'dead-letter' } },
    steps: [wait(3_000)],
  },
  'not signalled in time, and cancelled': {
    as: 'gone',
    child: { waitFor: { signals: 1, timeoutMs: 2_000, action: 'cancel' } },
    steps: [wait(3_000)],
  },
  'failed by a child of its own': {
    as: 'dead',
    child: { waitFor: 1 },
    steps: [
      update({ enqueue: [{ queue: QUEUE, pid: 'grandchild', parent: { pid: 'a' } }] }),
      update({ dequeue: [{ queue: QUEUE, pid: 'grandchild' }] }),
      wait(1_000),
    ],
  },
  'dropped by a full queue': {
    as: 'gone',
    steps: [
      (h) => putSettings(h.engine, QUEUE, { maxBacklog: 1, whenFull: WhenFull.WHEN_FULL_DROP_OLDEST }),
      update({ enqueue: [{ queue: QUEUE, pid: 'b' }] }),
    ],
  },
  'dropped by a full key': {
    as: 'gone',
    child: { limitKey: 'of-a' },
    steps: [
      (h) => putSettings(h.engine, QUEUE, { maxKeyBacklog: 1, whenFull: WhenFull.WHEN_FULL_DROP_OLDEST }),
      update({ enqueue: [{ queue: QUEUE, pid: 'b', limitKey: 'of-a' }] }),
    ],
  },
  'deleted with its queue at the end of a subscription': {
    as: 'gone',
    steps: [
      (h) =>
        h.engine.topics.subscribe({
          topic: parseQueueName('g#topic'),
          queue: parseQueueName(QUEUE),
          filter: [],
          ttlMs: 2_000,
          deleteQueue: true,
        }),
      wait(4_000),
    ],
  },
  'deleted with its queue': {
    as: 'gone',
    steps: [(h) => h.engine.deleteQueue(parseQueueName(QUEUE)), wait(1_500)],
  },
};

/** A loss of power so many turns after the begin of the last step, which is then repeated. Undefined: none. */
const CRASHES = [undefined, 0, 2, 8, 32];

async function play(h: EngineHarness, { steps }: Road, crash: number | undefined): Promise<void> {
  for (const [at, step] of steps.entries()) {
    if (crash !== undefined) {
      if (at === steps.length - 1 && !waits.has(step)) {
        void step(h).catch(() => {});
        for (let turn = 0; turn < crash; turn++) await Promise.resolve();
      }
      await h.crash();
    }
    // What was on disk is refused the second time.
    await step(h).catch(() => {});
  }
  if (crash !== undefined) await h.crash();
  await h.clock.advance(2_000);
}

describe.each(['fail', 'continue', 'retry'] as const)(
  'with the policy %s, a parent hears once of a child',
  (onFailure) => {
    test.each(Object.entries(roads))('%s', async (_name, road) => {
      for (const crash of CRASHES) {
        await using h = await engineHarness();
        const child = typeof road.child === 'function' ? road.child(h.clock.now()) : road.child;
        await h.update({
          enqueue: [
            { queue: PARENTS, pid: 'p', waitFor: { signals: 3, collect: true } },
            { ...a, ...child, parent: { queue: PARENTS, pid: 'p', onFailure } },
          ],
        });
        await play(h, road, crash);
        const parent = await look(h, PARENTS, 'p');
        const dead = await look(h, `${PARENTS}.dead`, 'p');
        const counts = road.as === 'completed' || onFailure === 'continue';
        const still = onFailure === 'retry' && road.as === 'dead';
        const heard = parent?.signals?.kept.map(({ child: of }) => of?.pid) ?? [];
        expect({
          crash,
          left: parent?.state?.history?.waits?.signals,
          heard,
          failures: dead?.state?.history?.failures.length,
        }).toEqual({
          crash,
          left: counts ? 2 : still ? 3 : undefined,
          heard: counts ? ['a'] : [],
          failures: counts || still ? undefined : 1,
        });
        // It is in its queue no more, so that the road was taken.
        expect((await look(h, QUEUE, 'a'))?.state).toBeUndefined();
      }
    });
  },
);

describe('the key of a task and its slots are free when it has left its queue:', () => {
  test.each(Object.entries(roads))('%s', async (_name, road) => {
    for (const crash of CRASHES) {
      await using h = await engineHarness();
      const child = typeof road.child === 'function' ? road.child(h.clock.now()) : road.child;
      await limitQueues(h.engine, 'g#*', { keys: 'of-*', maxLeased: 1 });
      await h.update({ enqueue: [{ ...a, ...child, key: 'k', limitKey: 'of-a' }] });
      await play(h, road, crash);
      const next = { queue: QUEUE, pid: 'z', key: 'k', limitKey: 'of-a' };
      const { enqueued } = await h.update({ enqueue: [next] });
      expect({ crash, ...enqueued[0] }).toMatchObject({
        crash,
        pid: 'z',
        result: EnqueueResult.ENQUEUE_RESULT_CREATED,
      });
      const pids = (await h.lease(QUEUE, { max: 9 })).map(({ pid }) => pid);
      expect({ crash, pids }).toEqual({ crash, pids: expect.arrayContaining(['z']) });
      // The next lease of its dead letter counts, too.
      expect(await h.lease(`${QUEUE}.dead`, { max: 9 })).toEqual([]);
    }
  });
});

describe('a flow', () => {
  const wait2 = { queue: PARENTS, waitFor: 1 };

  test('whose tasks are parents of each other waits until one of them ends', async () => {
    await using h = await engineHarness();
    const parent = (pid: string) => ({ queue: PARENTS, pid });
    await h.update({
      enqueue: [
        { ...wait2, pid: 'p', parent: parent('q') },
        { ...wait2, pid: 'q', parent: parent('p') },
        { ...wait2, pid: 'self', parent: parent('self') },
      ],
    });
    await h.clock.advance(5_000);
    expect(await h.lease(PARENTS, { max: 9 })).toEqual([]);
    await h.update({
      dequeue: [
        { queue: PARENTS, pid: 'p' },
        { queue: PARENTS, pid: 'self', cancel: 'no' },
      ],
    });
    await h.clock.advance(2_000);
    expect((await look(h, `${PARENTS}.dead`, 'q'))?.state?.history?.failures).toHaveLength(1);
  });

  test('is cancelled in one update, whatever the order, and nothing of it is left', async () => {
    for (const order of [
      ['p', 'a', 'b'],
      ['a', 'p', 'b'],
      ['b', 'a', 'p'],
    ]) {
      await using h = await engineHarness();
      const parent = { queue: PARENTS, pid: 'p' };
      await h.update({
        enqueue: [
          { ...parent, waitFor: { signals: 2, collect: true } },
          { ...a, parent },
          { ...a, pid: 'b', parent },
        ],
      });
      const of = (pid: string) => ({ queue: pid === 'p' ? PARENTS : QUEUE, pid, cancel: 'no' });
      await h.update({ dequeue: order.map(of) });
      await h.crash();
      await h.clock.advance(2_000);
      expect((await look(h, `${PARENTS}.dead`, 'p'))?.state).toBeUndefined();
      expect(await h.waitFor(PARENTS, ['p'])).toMatchObject([{ end: { outcome: 'cancelled' } }]);
      expect(await h.waitFor(QUEUE, ['a', 'b'])).toMatchObject(Array(2).fill({ end: { outcome: 'cancelled' } }));
    }
  });

  test('goes on without its parent, or the queue of it', async () => {
    for (const how of ['cancel', 'delete'] as const) {
      await using h = await engineHarness();
      const parent = { queue: PARENTS, pid: 'p' };
      await h.update({
        enqueue: [
          { ...parent, waitFor: 1 },
          { ...a, parent },
        ],
      });
      if (how === 'cancel') await h.update({ dequeue: [{ ...parent, cancel: 'no' }] });
      else await h.engine.deleteQueue(parseQueueName(PARENTS));
      await h.crash();
      await lease(h);
      await withToken((token) => ({ dequeue: [{ ...a, token }] }))(h);
      expect((await look(h, PARENTS, 'p'))?.state).toBeUndefined();
    }
  });

  test('hears nothing of what has ended in the update that makes it: that was before it', async () => {
    await using h = await engineHarness();
    const parent = { queue: PARENTS, pid: 'p' };
    await h.update({ enqueue: [{ ...a, parent }] });
    await h.update({ dequeue: [a], enqueue: [{ ...parent, waitFor: 1 }] });
    expect((await look(h, PARENTS, 'p'))?.state?.history?.waits).toMatchObject({ signals: 1, timeout: undefined });
  });

  test('hears of a child that was there before it, and not of more than it waits for', async () => {
    await using h = await engineHarness();
    const parent = { queue: PARENTS, pid: 'p' };
    await h.update({ enqueue: ['a', 'b', 'c'].map((pid) => ({ queue: QUEUE, pid, parent })) });
    await h.update({ enqueue: [{ ...parent, waitFor: { signals: 2, collect: true } }] });
    const leased = await h.lease(QUEUE, { max: 3 });
    await h.update({ dequeue: leased.map(({ pid, token }) => ({ queue: QUEUE, pid, token })) });
    const { state, signals } = (await look(h, PARENTS, 'p')) ?? {};
    expect([state?.history?.waits?.signals, signals?.kept.length]).toEqual([0, 2]);
    expect(await h.lease(PARENTS, { max: 9 })).toHaveLength(1);
  });
});
