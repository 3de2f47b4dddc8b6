import { EnqueueMode, EventKind, parseQueueName, type Event as WireEvent } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { formatPosition } from '../domain/events.ts';
import type { LeaseToken } from '../domain/ids.ts';
import { Family } from '../ports/store.ts';
import { type EngineHarness, engineHarness, type UpdateSpec } from '../testing/engine-harness.ts';
import { limitQueues } from '../testing/limit-queues.ts';
import { pauseQueues, resumeQueues } from '../testing/pause-queues.ts';
import { putSettings } from '../testing/put-settings.ts';

const QUEUE = 'g#q';
const DEAD = 'g#q.dead';

/** As `COMPLETED`. */
const nameOf = ({ kind }: WireEvent): string =>
  Object.entries(EventKind)
    .find(([, one]) => one === kind)?.[0]
    .slice('EVENT_KIND_'.length) ?? '';

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
const shown = (event: WireEvent): string =>
  [
    nameOf(event),
    event.queue === QUEUE ? '' : event.queue,
    textOf(event.pid),
    event.toQueue === '' ? '' : `to ${event.toQueue} ${textOf(event.toPid)}`,
    event.text,
  ]
    .filter((part) => part !== '')
    .join(' ');

/** What happens in the group while `act` runs. */
async function during(h: EngineHarness, act: () => Promise<unknown>): Promise<string[]> {
  const { position } = await h.readEvents('g#*');
  await act();
  return (await h.readEvents('g#*', { after: formatPosition(position) })).events.map(shown);
}

interface World {
  readonly h: EngineHarness;
  readonly token: LeaseToken | undefined;
}

/** A leased task `p`, which has one attempt. */
async function leased(retry: object = { maxAttempts: 1 }): Promise<World & AsyncDisposable> {
  const h = await engineHarness({ jitter: 1 });
  await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', key: 'k', data: 'x', retry }] });
  const [task] = await h.lease(QUEUE, { for: 10_000, worker: 'w' });
  return { h, token: task?.token, [Symbol.asyncDispose]: () => h[Symbol.asyncDispose]() };
}

const item = { queue: QUEUE, pid: 'p' };
const by =
  (spec: (token: LeaseToken | undefined) => UpdateSpec) =>
  ({ h, token }: World): Promise<unknown> =>
    h.update(spec(token));

describe('a task ends with one event', () => {
  test.each<[string, (world: World) => Promise<unknown>, string[]]>([
    ['completed', by((token) => ({ dequeue: [{ ...item, token }] })), ['COMPLETED p']],
    ['completed with a result', by((token) => ({ dequeue: [{ ...item, token, result: '42' }] })), ['COMPLETED p']],
    ['removed without a lease token', by(() => ({ dequeue: [item] })), ['REMOVED p']],
    ['removed with a result', by(() => ({ dequeue: [{ ...item, result: '42' }] })), ['COMPLETED p']],
    [
      'failed for the last time',
      by((token) => ({ release: [{ ...item, token, error: 'no such address' }] })),
      [`DEAD_LETTERED p to ${DEAD} p no such address`],
    ],
    ['not completed in time', ({ h }) => h.clock.advance(11_000), [`DEAD_LETTERED p to ${DEAD} p`]],
    [
      'given up by its worker',
      by((token) => ({ release: [{ ...item, token, error: 'broken', deadLetter: true }] })),
      [`DEAD_LETTERED p to ${DEAD} p broken`],
    ],
    [
      'cancelled and released',
      async ({ h, token }) => {
        await h.update({ dequeue: [{ ...item, cancel: 'not needed' }] });
        await h.update({ release: [{ ...item, token, error: 'stopped' }] });
      },
      ['CANCEL_REQUESTED p not needed', 'CANCELLED p not needed'],
    ],
    [
      'cancelled while its lease expires',
      async ({ h }) => {
        await h.update({ dequeue: [{ ...item, cancel: 'not needed' }] });
        await h.clock.advance(11_000);
      },
      ['CANCEL_REQUESTED p not needed', 'CANCELLED p not needed'],
    ],
    [
      'cancelled and completed',
      async ({ h, token }) => {
        await h.update({ dequeue: [{ ...item, cancel: 'not needed' }] });
        await h.update({ dequeue: [{ ...item, token }] });
      },
      ['CANCEL_REQUESTED p not needed', 'COMPLETED p'],
    ],
    [
      'cancelled while its leases are reset',
      async ({ h }) => {
        await h.update({ dequeue: [{ ...item, cancel: 'not needed' }] });
        await h.engine.resetLeases(parseQueueName(QUEUE));
      },
      ['CANCEL_REQUESTED p not needed', 'CANCELLED p not needed'],
    ],
    ['deleted with its queue', ({ h }) => h.engine.deleteQueue(parseQueueName(QUEUE)), ['QUEUE_DELETED']],
  ])('that is %s', async (_how, end, expected) => {
    await using world = await leased();
    expect(await during(world.h, () => end(world))).toEqual(expected);
  });

  test('that waits and is cancelled', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['p']);
    expect(await during(h, () => h.update({ dequeue: [{ ...item, cancel: 'why' }] }))).toEqual(['CANCELLED p why']);
  });

  test.each(['', 'late'])('that has not started in time: dead-letter queue "%s"', async (deadLetterQueue) => {
    await using h = await engineHarness();
    const enqueue = [{ ...item, startBy: 5_000, retry: { deadLetterQueue } }];
    const late = 'not started by 1970-01-01T00:00:05.000Z';
    expect(
      await during(h, async () => {
        await h.update({ enqueue });
        await h.clock.advance(6_000);
      }),
    ).toEqual(['ENQUEUED p', deadLetterQueue === '' ? `CANCELLED p ${late}` : `DEAD_LETTERED p to g#late p ${late}`]);
  });

  test('that is put back from its dead-letter queue, under another PID if it has one there', async () => {
    await using h = await engineHarness();
    const once = { maxAttempts: 1, deadLetterQueue: 'lost' };
    await h.update({ enqueue: ['g#a', 'g#b'].map((queue) => ({ queue, pid: 'p', retry: once })) });
    const tasks = await h.lease(['g#a', 'g#b'], { max: 2 });
    const fail = (index: number, queue: string) =>
      h.update({ release: [{ queue, pid: 'p', token: tasks[index]?.token, error: 'broken' }] });
    await fail(0, 'g#a');
    const [dead = ''] = await during(h, () => fail(1, 'g#b'));
    const [, pid = ''] = /^DEAD_LETTERED g#b p to g#lost (p~.{11}) broken$/.exec(dead) ?? [];
    expect(await during(h, () => h.update({ dequeue: [{ queue: 'g#lost', pid, requeue: true }] }))).toEqual([
      `MOVED g#lost ${pid} to g#b p`,
    ]);
  });

  test('that dies again while its earlier dead letter is leased, whose place it takes', async () => {
    await using h = await engineHarness();
    const once = { maxAttempts: 1, deadLetterQueue: 'lost' };
    const die = async () => {
      await h.update({ enqueue: [{ ...item, retry: once }] });
      const [task] = await h.lease(QUEUE);
      await h.update({ release: [{ ...item, token: task?.token, error: 'broken' }] });
    };
    await die();
    await h.lease('g#lost', { for: 60_000 });
    const [, , ...end] = await during(h, die);
    expect(end).toEqual(['RELEASED g#lost p', 'DEAD_LETTERED p to g#lost p broken']);
  });

  test('that dies before another dead letter, and takes its PID', async () => {
    await using h = await engineHarness();
    const once = { maxAttempts: 1, deadLetterQueue: 'lost' };
    await h.update({ enqueue: ['g#a', 'g#b'].map((queue) => ({ queue, pid: 'p', retry: once })) });
    await h.lease('g#a', { for: 5_000 });
    await h.lease('g#b', { for: 4_000 });
    const events = await during(h, async () => {
      await h.clock.advance(10_000);
    });
    const places = events.map((event) => event.replace(/~.{11}/, '~'));
    expect(places.toSorted()).toEqual(['DEAD_LETTERED g#a p to g#lost p~', 'DEAD_LETTERED g#b p to g#lost p']);
  });
});

test('tasks with one PID that end in one update have an event each, of their own kind', async () => {
  await using h = await engineHarness({ jitter: 1 });
  await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', data: 'x' }] });
  const [task] = await h.lease(QUEUE, { for: 10_000 });
  const again = { enqueue: [{ queue: QUEUE, pid: 'p', data: 'y' }] };
  const told = await during(h, () =>
    h.batch([
      { dequeue: [{ ...item, token: task?.token, result: 'r' }] },
      again,
      { dequeue: [{ ...item, cancel: 'enough' }] },
      again,
      { dequeue: [item] },
    ]),
  );
  expect(told).toEqual(['COMPLETED p', 'ENQUEUED p', 'CANCELLED p enough', 'ENQUEUED p', 'REMOVED p']);
});

describe('a task that stays says', () => {
  const many = { maxAttempts: 0, backoffInitialMs: 1_000 };
  test.each<[string, (world: World) => Promise<unknown>, string[]]>([
    ['that an attempt failed', by((token) => ({ release: [{ ...item, token, error: 'busy' }] })), ['FAILED p busy']],
    ['that it was released', by((token) => ({ release: [{ ...item, token }] })), ['FAILED p']],
    ['that its lease expired', ({ h }) => h.clock.advance(11_000), ['FAILED p']],
    ['that it was given back', by((token) => ({ release: [{ ...item, token, refund: true }] })), ['RELEASED p']],
    ['that its leases were reset', ({ h }) => h.engine.resetLeases(parseQueueName(QUEUE)), ['RELEASED p']],
    [
      'its progress',
      by((token) => ({ renew: [{ ...item, token, for: 5_000, progress: '3/4' }] })),
      ['PROGRESSED p 3/4'],
    ],
    ['nothing when its lease is renewed', by((token) => ({ renew: [{ ...item, token, for: 5_000 }] })), []],
    [
      'that it was enqueued again, and then that it waits again',
      async ({ h, token }) => {
        await h.update({ enqueue: [{ ...item, key: 'k', mode: EnqueueMode.ENQUEUE_MODE_RERUN }] });
        await h.update({ dequeue: [{ ...item, token }] });
        await h.lease(QUEUE);
      },
      ['CHANGED p', 'RELEASED p', 'LEASED p'],
    ],
    ['nothing when it collapses', by(() => ({ enqueue: [{ ...item, key: 'k' }] })), []],
  ])('%s', async (_what, act, expected) => {
    await using world = await leased(many);
    expect(await during(world.h, () => act(world))).toEqual(expected);
  });

  test('its new data, its new time and its new PID', async () => {
    await using h = await engineHarness();
    const replace = { mode: EnqueueMode.ENQUEUE_MODE_REPLACE };
    expect(
      await during(h, async () => {
        await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', key: 'k', delay: 60_000 }] });
        await h.update({ release: [{ ...item, waiting: true, delay: 30_000 }] });
        await h.update({ enqueue: [{ ...item, ...replace, key: 'k', data: 'new' }] });
        await h.update({ enqueue: [{ queue: QUEUE, pid: 'r', ...replace, key: 'k', data: 'new' }] });
        await h.clock.advance(31_000);
        await h.lease(QUEUE);
      }),
    ).toEqual(['ENQUEUED p', 'CHANGED p', 'CHANGED p', 'MOVED p to g#q r', 'LEASED r']);
  });
});

test('a task that waits for others says when one of them has ended, and each child has its end', async () => {
  await using h = await engineHarness();
  expect(
    await during(h, async () => {
      await h.update({ enqueue: [{ ...item, waitFor: 2 }] });
      for (const _ of [1, 2]) await h.update({ enqueue: [{ ...item, mode: EnqueueMode.ENQUEUE_MODE_SIGNAL }] });
      await h.lease(QUEUE);
      await h.update({ enqueue: ['x', 'y'].map((pid) => ({ queue: QUEUE, pid, orderKey: 'o' })) });
      await h.update({ dequeue: [{ queue: QUEUE, pid: 'x' }] });
    }),
  ).toEqual(['ENQUEUED p', 'CHANGED p', 'CHANGED p', 'LEASED p', 'ENQUEUED x', 'ENQUEUED y', 'REMOVED x', 'CHANGED y']);
});

test('an event has the facts of its task', async () => {
  await using world = await leased({ maxAttempts: 2 });
  const { h, token } = world;
  const { position } = await h.readEvents('g#*');
  await h.update({ release: [{ ...item, token, error: 'busy' }] });
  const { events } = await h.readEvents('g#*', { after: formatPosition(position) });
  expect(events).toMatchObject([{ queue: QUEUE, key: 'k', attempts: 1, worker: 'w', text: 'busy', tasks: 0 }]);
  expect(events[0]?.atUnixMs).toBe(h.clock.now());
});

test('pauses are events, also when they end by themselves, and other records are none', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['p']);
  const act = async () => {
    await putSettings(h.engine, QUEUE, {});
    await pauseQueues(h.engine, 'g#*', { reason: 'night' });
    await resumeQueues(h.engine, 'g#*');
    await pauseQueues(h.engine, QUEUE, { durationMs: 1_000 });
    await h.clock.advance(2_000);
  };
  const expected = ['PAUSED g#* night', 'RESUMED g#*', 'PAUSED maintenance', 'RESUMED'];
  expect(await during(h, act)).toEqual(expected);
});

describe('a limit that is reached', () => {
  test('is told once, until leases were possible for a second', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, 'g#*', { maxLeased: 2 });
    await h.enqueue(QUEUE, ['a', 'b', 'c', 'd', 'e']);
    const events = await during(h, async () => {
      const [a, b] = await h.lease(QUEUE, { max: 2 });
      await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', token: a?.token }] });
      const [c] = await h.lease(QUEUE, { max: 2 });
      await h.update({ dequeue: [{ queue: QUEUE, pid: 'b', token: b?.token }] });
      await h.update({ dequeue: [{ queue: QUEUE, pid: 'c', token: c?.token }] });
      await h.clock.advance(1_000);
      await h.lease(QUEUE, { max: 2 });
    });
    expect(events.filter((event) => !/COMPLETED|LEASED/.test(event))).toEqual([
      'LIMIT_REACHED g#*',
      'LIMIT_REACHED g#*',
    ]);
    // Behind the leases that have reached it.
    expect(events.slice(0, 3)).toEqual(['LEASED a', 'LEASED b', 'LIMIT_REACHED g#*']);
  });

  test('names its key, if tasks with the key wait', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, 'g#q*', { keys: '*', maxLeased: 1 });
    const enqueue = ['x1', 'x2', 'y1'].map((pid) => ({ queue: QUEUE, pid, limitKey: pid.slice(0, 1) }));
    const events = await during(h, async () => {
      await h.update({ enqueue });
      await h.lease(QUEUE, { max: 9 });
    });
    expect(events.slice(-3)).toEqual(['LEASED x1', 'LEASED y1', 'LIMIT_REACHED g#q* x']);
  });

  test('is told to readers of other groups never, and costs no atom without readers', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, 'g#*', { maxLeased: 1 });
    await h.enqueue(QUEUE, ['a']);
    const rows = h.disk.rowsOf(Family.log).length;
    await h.lease(QUEUE);
    expect(h.disk.rowsOf(Family.log).length).toBe(rows + 1);
    const { position } = await h.readEvents('other#*');
    await limitQueues(h.engine, 'g#q', { maxLeased: 1 });
    expect((await h.readEvents('other#*', { after: formatPosition(position) })).events).toEqual([]);
  });
});

test.each([
  ['g#*.dead', ['PAUSED g#mail* maintenance']],
  ['g#mail', ['PAUSED g#mail* maintenance']],
  ['g#ma*', ['PAUSED g#mail* maintenance']],
  ['g#bill*', []],
])('a reader of %s hears of pauses that may be of its queues', async (queues, expected) => {
  await using h = await engineHarness();
  const { position } = await h.readEvents('g#*');
  await pauseQueues(h.engine, 'g#mail*');
  const { events } = await h.readEvents(queues, { after: formatPosition(position) });
  expect(events.map(shown)).toEqual(expected);
});

describe('a filter', () => {
  async function seen(spec: Parameters<EngineHarness['readEvents']>[1], queues = 'g#*'): Promise<string[]> {
    await using h = await engineHarness();
    const { position } = await h.readEvents('g#*');
    const act = async () => {
      await h.update({
        enqueue: [
          { ...item, key: 'k' },
          { queue: 'g#other', pid: 'p' },
          { queue: QUEUE, pid: 'z' },
        ],
      });
      await pauseQueues(h.engine, 'g#*');
      await h.update({ release: [], dequeue: [item] });
      await h.engine.deleteQueue(parseQueueName(QUEUE));
      await h.enqueue('h#q', ['p']);
    };
    await act();
    const { events } = await h.readEvents(queues, { ...spec, after: formatPosition(position) });
    return events.map(shown);
  }

  test.each<[string, Parameters<EngineHarness['readEvents']>[1], string, string[]]>([
    ['of kinds', { kinds: [EventKind.EVENT_KIND_REMOVED] }, 'g#*', ['REMOVED p']],
    ['of a queue', {}, 'g#other', ['ENQUEUED g#other p', 'PAUSED g#* maintenance']],
    ['of a pattern', {}, 'g#o*', ['ENQUEUED g#other p', 'PAUSED g#* maintenance']],
    ['of a PID', { pid: 'p' }, 'g#q', ['ENQUEUED p', 'REMOVED p', 'QUEUE_DELETED']],
    ['of a key', { key: 'k' }, 'g#*', ['ENQUEUED p', 'REMOVED p', 'QUEUE_DELETED']],
    ['of an unknown key', { key: 'x', kinds: [EventKind.EVENT_KIND_ENQUEUED] }, 'g#*', []],
  ])('%s', async (_what, spec, queues, expected) => {
    expect(await seen(spec, queues)).toEqual(expected);
  });
});
