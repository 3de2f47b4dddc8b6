import type { QueueOperations, QueueStats } from '@taskmaster/engine/domain';
import { describe, expect, test } from 'vitest';
import { FindTroubles } from './find-troubles.ts';

const MINUTE = 60_000;
const BEGAN = 1_700_000_000_000;
const NO_OPERATIONS: QueueOperations = {
  enqueued: 1,
  leased: 0,
  completed: 0,
  failed: 0,
  deadLettered: 0,
  waitedMs: 0,
  workedMs: 0,
};

const statsOf = (change: Partial<QueueStats>): QueueStats => ({
  queue: { group: 'shop', name: 'mail' },
  available: 0,
  leased: 0,
  delayed: 0,
  waiting: 0,
  completed: 0,
  enqueueRate: 0,
  leaseRate: 0,
  completeRate: 0,
  failureRate: 0,
  meanLeaseMs: 0,
  oldestAgeMs: 0,
  pause: undefined,
  heldBy: [],
  heldKeys: 0,
  heldTasks: 0,
  heldSince: undefined,
  operations: NO_OPERATIONS,
  ...change,
});

/** Looks at one queue at these minutes; undefined: it is gone. Returns what the last look has found. */
function looks(at: readonly (readonly [minute: number, stats: Partial<QueueStats> | undefined])[], isHere = true) {
  const find = new FindTroubles();
  let found: readonly (readonly [kind: string, sinceMinute: number, isExact: boolean])[] = [];
  for (const [minute, stats] of at) {
    find.begin();
    const troubles = stats === undefined ? [] : find.of('shop#mail', statsOf(stats), BEGAN + minute * MINUTE);
    const gone = find.end(BEGAN + minute * MINUTE, () => isHere);
    found = [...troubles, ...(gone.get('shop#mail') ?? [])].map(({ kind, sinceUnixMs, sinceIsExact }) => [
      kind,
      (sinceUnixMs - BEGAN) / MINUTE,
      sinceIsExact,
    ]);
  }
  return found;
}

const dead = (deadLettered: number): QueueOperations => ({ ...NO_OPERATIONS, deadLettered });
const pausedAt = (minute: number): QueueStats['pause'] =>
  ({ message: { sinceUnixMs: BEGAN + minute * MINUTE, pausedBy: 'ada', reason: '' } }) as QueueStats['pause'];

describe('a queue with old tasks', () => {
  test('has trouble since its oldest task became ten minutes old', () => {
    expect(looks([[30, { available: 1, leased: 1, oldestAgeMs: 25 * MINUTE }]])).toEqual([['queue-old', 15, true]]);
    expect(looks([[30, { available: 1, leased: 1, oldestAgeMs: 10 * MINUTE }]])).toEqual([]);
  });

  test('has none if it has dead letters, which nobody is to work on', () => {
    const queue = { group: 'shop', name: 'mail.dead' };
    expect(looks([[0, { queue, available: 1, oldestAgeMs: 25 * MINUTE }]])).toEqual([]);
  });
});

describe('a queue that nobody works on', () => {
  const idle = { available: 3, oldestAgeMs: MINUTE };
  test('has trouble after five minutes, since the first look that has seen it', () => {
    expect(
      looks([
        [0, undefined],
        [1, idle],
        [5, idle],
      ]),
    ).toEqual([]);
    expect(
      looks([
        [0, undefined],
        [1, idle],
        [6, idle],
      ]),
    ).toEqual([['queue-unworked', 1, true]]);
  });

  test('has trouble at once after a start if its tasks are old, perhaps since earlier', () => {
    expect(looks([[0, { ...idle, oldestAgeMs: 6 * MINUTE }]])).toEqual([['queue-unworked', 0, false]]);
  });

  test('may have been like that before its group came to this node', () => {
    const moved = { ...idle, oldestAgeMs: 6 * MINUTE, operations: { ...NO_OPERATIONS, enqueued: 0 } };
    expect(
      looks([
        [0, undefined],
        [1, moved],
      ]),
    ).toEqual([['queue-unworked', 1, false]]);
  });

  test.each([
    ['a task was leased and given back meanwhile', { ...idle, operations: { ...NO_OPERATIONS, leased: 1 } }],
    ['a task is leased', { ...idle, leased: 1 }],
    ['its tasks are gone', { available: 0 }],
    ['it is paused', { ...idle, pause: pausedAt(2) }],
    ['a limit holds it back', { ...idle, heldBy: [{}] as unknown as QueueStats['heldBy'] }],
  ])('has none if %s', (_what, stats) => {
    expect(
      looks([
        [0, undefined],
        [1, idle],
        [3, stats],
        [6, stats],
      ]),
    ).toEqual([]);
  });
});

test('a queue grows if for ten minutes more comes than goes', () => {
  const grows = {
    available: 5,
    leased: 1,
    enqueueRate: 2,
    completeRate: 1,
    operations: { ...NO_OPERATIONS, leased: 9 },
  };
  const keepsUp = { ...grows, completeRate: 1.9 };
  expect(
    looks([
      [0, undefined],
      [1, grows],
      [10, grows],
    ]),
  ).toEqual([]);
  expect(
    looks([
      [0, undefined],
      [1, grows],
      [11, grows],
    ]),
  ).toEqual([['queue-growing', 1, true]]);
  expect(
    looks([
      [0, undefined],
      [1, grows],
      [5, keepsUp],
      [11, grows],
    ]),
  ).toEqual([]);
});

test('a queue fails if for five minutes more than half of its attempts do', () => {
  const fails = { leased: 1, leaseRate: 2, failureRate: 1.1 };
  expect(
    looks([
      [0, undefined],
      [1, fails],
      [6, fails],
    ]),
  ).toEqual([['queue-failing', 1, true]]);
  expect(
    looks([
      [0, undefined],
      [1, fails],
      [3, { ...fails, failureRate: 1 }],
      [6, fails],
    ]),
  ).toEqual([]);
});

test('a queue dies from the first dead letter until there has been none for an hour', () => {
  const one = { leased: 1, operations: dead(1) };
  const two = { leased: 1, operations: dead(2) };
  expect(
    looks([
      [0, {}],
      [1, one],
    ]),
  ).toEqual([['queue-dying', 1, true]]);
  expect(
    looks([
      [0, {}],
      [1, one],
      [50, two],
      [109, two],
    ]),
  ).toEqual([['queue-dying', 1, true]]);
  expect(
    looks([
      [0, {}],
      [1, one],
      [50, two],
      [110, two],
    ]),
  ).toEqual([]);
  expect(
    looks([
      [0, {}],
      [1, one],
      [62, one],
      [63, two],
    ]),
  ).toEqual([['queue-dying', 63, true]]);
});

test('a long pause is worth a look while tasks wait, since it began', () => {
  expect(looks([[90, { available: 1, pause: pausedAt(20) }]])).toEqual([['paused-long', 20, true]]);
  expect(looks([[80, { available: 1, pause: pausedAt(20) }]])).toEqual([]);
  expect(looks([[90, { available: 0, pause: pausedAt(20) }]])).toEqual([]);
});

test('kinds that nobody asks for are a trouble since the first of them', () => {
  const kind = (name: string, since: number | undefined) => ({
    kind: name,
    available: 1,
    leased: 0,
    delayed: 0,
    unclaimedSinceUnixMs: since && BEGAN + since * MINUTE,
  });
  const kinds = { unclaimed: 2, count: 3, most: [kind('a', 4), kind('b', 3), kind('c', undefined)] };
  const operations = { ...NO_OPERATIONS, leased: 1 };
  expect(looks([[9, { available: 3, leased: 1, kinds, operations }]])).toEqual([['kind-unclaimed', 3, true]]);
});

test('the worst trouble of a queue comes first, and what a queue was is forgotten with it', () => {
  const bad = { available: 1, oldestAgeMs: 20 * MINUTE, operations: dead(1) };
  expect(
    looks([
      [0, {}],
      [1, bad],
      [6, bad],
    ]).map(([kind]) => kind),
  ).toEqual(['queue-unworked', 'queue-dying', 'queue-old']);
  const again = [
    [0, {}],
    [1, bad],
    [6, undefined],
    [7, { ...bad, oldestAgeMs: 0 }],
  ] as const;
  expect(looks(again, false)).toEqual([['queue-dying', 7, true]]);
  // Its tasks died all the same, if it is only empty.
  expect(looks(again)).toEqual([['queue-dying', 1, true]]);
});

test('a queue all of whose tasks died has trouble though it is gone, for an hour', () => {
  const find = new FindTroubles();
  const look = (minute: number, died: number | undefined) => {
    find.begin();
    const now = BEGAN + minute * MINUTE;
    const own = died === undefined ? [] : find.of('shop#mail', statsOf({ operations: dead(died) }), now);
    return [...own, ...(find.end(now, () => true).get('shop#mail') ?? [])].map(({ message }) => message);
  };
  look(0, 0);
  expect(look(1, 2)).toEqual(['2 tasks failed for the last time and became dead letters']);
  expect(look(3, undefined)).toEqual(['2 tasks failed for the last time and became dead letters']);
  // It is there again, and counts from 0.
  expect(look(4, 0)).toEqual(['2 tasks failed for the last time and became dead letters']);
  expect(look(5, 1)).toEqual(['3 tasks failed for the last time and became dead letters']);
  expect(look(6, undefined)).toEqual(['3 tasks failed for the last time and became dead letters']);
  expect(look(65, undefined)).toEqual([]);
});
