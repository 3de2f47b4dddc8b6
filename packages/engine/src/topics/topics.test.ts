import { EnqueueMode, EnqueueResult, formatQueueName, limits, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { EnqueueOutcome } from '../domain/commands.ts';
import { withHeaders } from '../domain/headers.ts';
import type { Pid } from '../domain/ids.ts';
import type { HeaderFilter, Subscription, SubscriptionKey } from '../domain/topics.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness, pidsOf } from '../testing/engine-harness.ts';

const { ENQUEUE_RESULT_CREATED: CREATED, ENQUEUE_RESULT_COLLAPSED: COLLAPSED } = EnqueueResult;
const TOPIC = 'shop#orders';

const keyOf = (queue: string, topic = TOPIC): SubscriptionKey => ({
  topic: parseQueueName(topic),
  queue: parseQueueName(queue),
});
const subscribe = (h: EngineHarness, queue: string, more: Partial<Subscription> = {}, topic = TOPIC) =>
  h.engine.topics.subscribe({ ...keyOf(queue, topic), filter: [], ttlMs: undefined, deleteQueue: false, ...more });

const publication = (pid: string, more: Partial<EnqueueSpec> = {}): EnqueueSpec => ({
  queue: TOPIC,
  topic: TOPIC,
  pid,
  data: `data of ${pid}`,
  ...more,
});
async function publish(h: EngineHarness, pid: string, headers: Record<string, string> = {}): Promise<string[]> {
  const payload = withHeaders(headers, Buffer.from('data'));
  const data = Buffer.from(payload.data).toString();
  const { enqueued } = await h.update({ enqueue: [publication(pid, { data, headerBytes: payload.headerBytes })] });
  return queuesOf(enqueued[0]);
}
const queuesOf = (outcome: EnqueueOutcome | undefined): string[] =>
  (outcome?.published ?? []).map(({ queue }) => formatQueueName(queue));
const sizeOf = async (h: EngineHarness, queue: string): Promise<number> => (await h.counts(queue)).available;
const shown = async (h: EngineHarness, group = 'shop'): Promise<string[]> =>
  (await h.engine.topics.list(group, undefined)).map(({ queue }) => formatQueueName(queue));

describe('a published task', () => {
  test('goes to all queues that are subscribed, in one atom with the rest of the update', async () => {
    await using h = await engineHarness();
    expect(await publish(h, 'nobody')).toEqual([]);
    await subscribe(h, 'shop#mail');
    await subscribe(h, 'shop#stock');
    await subscribe(h, 'shop#other', {}, 'shop#returns');
    await h.enqueue('shop#in', ['a']);
    const [task] = await h.lease('shop#in');
    const dequeue = [{ queue: 'shop#in', pid: 'a', token: task?.token }];
    const before = { queue: 'shop#log', pid: 'x' };
    const { enqueued } = await h.update({ dequeue, enqueue: [before, publication('a'), { ...before, pid: 'y' }] });
    expect(enqueued.map(({ pid, result }) => [pid, result])).toEqual([
      ['x', CREATED],
      ['a', EnqueueResult.ENQUEUE_RESULT_PUBLISHED],
      ['y', CREATED],
    ]);
    expect(enqueued[1]?.published).toMatchObject([
      { queue: { group: 'shop', name: 'mail' }, pid: 'a', result: CREATED, leased: false },
      { queue: { group: 'shop', name: 'stock' }, pid: 'a', result: CREATED, leased: false },
    ]);
    // The same completion is refused, and so is its publication.
    await expect(h.update({ dequeue, enqueue: [publication('b')] })).rejects.toMatchObject({
      reason: 'TASK_NOT_FOUND',
    });
    await h.crash();
    expect([await sizeOf(h, 'shop#mail'), await sizeOf(h, 'shop#stock'), await sizeOf(h, 'shop#other')]).toEqual([
      1, 1, 0,
    ]);
    expect(await h.engine.listQueues({ filter: EVERYTHING, limit: 10, after: undefined })).toMatchObject({
      queues: [{ queue: { name: 'log' } }, { queue: { name: 'mail' } }, { queue: { name: 'stock' } }],
    });
  });

  test('has its key in each queue, and is refused if another task there has its PID', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#mail');
    await subscribe(h, 'shop#stock');
    await h.update({ enqueue: [publication('a', { key: 'k' })] });
    const again = await h.update({ enqueue: [publication('b', { key: 'k' })] });
    expect(again.enqueued[0]?.published?.map(({ pid, result }) => [pid, result])).toEqual([
      ['a', COLLAPSED],
      ['a', COLLAPSED],
    ]);
    await expect(h.update({ enqueue: [publication('a', { key: 'other' })] })).rejects.toMatchObject({
      items: [{ index: 0, reason: 'TASK_EXISTS', queue: { group: 'shop', name: 'orders' } }],
    });
    expect([await sizeOf(h, 'shop#mail'), await sizeOf(h, 'shop#stock')]).toEqual([1, 1]);
  });

  test('gets a PID in each queue if it has none, and collapses in each queue if it has one', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#mail');
    await subscribe(h, 'shop#stock');
    await h.enqueue('shop#mail', ['zzz']);
    const { enqueued } = await h.update({ enqueue: [{ queue: TOPIC, topic: TOPIC }] });
    expect(enqueued[0]?.pid).toBe('');
    const [inMail, inStock] = enqueued[0]?.published ?? [];
    expect(inMail?.pid).not.toBe(inStock?.pid);
    await publish(h, 'a');
    const again = await h.update({ enqueue: [publication('a')] });
    expect(again.enqueued[0]?.published?.map(({ result }) => result)).toEqual([COLLAPSED, COLLAPSED]);
  });

  test.each<[string, HeaderFilter, readonly boolean[]]>([
    ['one value', [{ kind: 'in', key: 'type', values: ['new'] }], [true, false, false, false]],
    ['one of several values', [{ kind: 'in', key: 'type', values: ['new', 'renewed'] }], [true, true, false, false]],
    ['a prefix', [{ kind: 'prefix', key: 'type', prefix: 're' }], [false, true, true, false]],
    ['that it exists', [{ kind: 'exists', key: 'type', exists: true }], [true, true, true, false]],
    ['that it is missing', [{ kind: 'exists', key: 'type', exists: false }], [false, false, false, true]],
    [
      'two headers',
      [
        { kind: 'prefix', key: 'type', prefix: 're' },
        { kind: 'in', key: 'tenant', values: ['acme'] },
      ],
      [false, true, false, false],
    ],
    ['what every object has', [{ kind: 'exists', key: 'constructor', exists: true }], [false, false, false, false]],
  ])('goes to a queue whose filter asks for %s only if its headers pass', async (_what, filter, expected) => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#mail', { filter });
    await h.crash();
    const sent: Record<string, string>[] = [
      { type: 'new' },
      { type: 'renewed', tenant: 'acme' },
      { type: 'returned', tenant: 'other' },
      {},
    ];
    const got: boolean[] = [];
    for (const [at, headers] of sent.entries()) got.push((await publish(h, `${at}`, headers)).length > 0);
    expect(got).toEqual(expected);
  });

  test('is enqueued once for one request id, and the repetition gets the same outcome, also after a crash', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#mail');
    const spec = { enqueue: [publication('a')], id: 'id' };
    const first = await h.update(spec);
    await subscribe(h, 'shop#stock');
    await h.crash();
    expect(await h.update(spec)).toEqual({ ...first, refusals: new Map() });
    expect(await sizeOf(h, 'shop#stock')).toBe(0);
    const asTask = { enqueue: [{ ...publication('a'), topic: undefined }], id: 'id' } as const;
    await expect(h.update(asTask as never)).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
  });

  test('is refused as a whole if one queue has its PID already and the mode is to fail', async () => {
    await using h = await engineHarness();
    for (const queue of ['shop#a', 'shop#b', 'shop#c']) await subscribe(h, queue);
    for (const queue of ['shop#b', 'shop#c']) await h.enqueue(queue, ['p']);
    const mode = EnqueueMode.ENQUEUE_MODE_FAIL;
    const refused = h.update({ enqueue: [{ queue: 'shop#log', pid: 'x' }, publication('p', { mode })] });
    await expect(refused).rejects.toMatchObject({
      reason: 'TASK_EXISTS',
      items: [
        { index: 1, queue: { group: 'shop', name: 'orders' }, pid: 'p', message: expect.stringContaining('shop#b') },
      ],
    });
    expect(await sizeOf(h, 'shop#a')).toBe(0);
    const [, second] = await h.batch([
      { enqueue: [publication('q')] },
      { enqueue: [publication('p', { mode })] },
      { enqueue: [publication('r')] },
    ]);
    expect(second).toMatchObject({ reason: 'TASK_EXISTS', items: [{ index: 0 }] });
    expect([await sizeOf(h, 'shop#a'), await sizeOf(h, 'shop#b')]).toEqual([2, 3]);
  });

  test('is refused if it would be too many tasks or bytes', async () => {
    await using h = await engineHarness();
    for (let at = 0; at < 20; at++) await subscribe(h, `shop#q${at}`);
    const many = Array.from({ length: limits.updateItems / 20 + 1 }, (_, at) => publication(`${at}`));
    await expect(h.update({ enqueue: many })).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS' });
    const large = publication('large', { data: 'x'.repeat(limits.publishedBytes / 20 + 1) });
    await expect(h.update({ enqueue: [large] })).rejects.toMatchObject({ reason: 'REQUEST_TOO_LARGE' });
    // Those that fit alone, but not together, may be tried again.
    const half = publication('half', { data: 'x'.repeat(limits.publishedBytes / 40) });
    const results = await h.batch([
      { enqueue: [half] },
      { enqueue: [half] },
      { enqueue: [half] },
      { enqueue: [{ queue: 'shop#log', pid: 'x' }] },
    ]);
    expect(results[2]).toMatchObject({ reason: 'OVERLOADED' });
    expect(results[3]).toMatchObject({ enqueued: [{ pid: 'x' }] });
    expect(await sizeOf(h, 'shop#q0')).toBe(1);
  });

  test('is refused if the names in its outcome would not fit into a reply', async () => {
    await using h = await engineHarness();
    const long = 'q'.repeat(500);
    for (let at = 0; at < 100; at++) await subscribe(h, `shop#${long}${at}`);
    const tasks = (count: number): EnqueueSpec[] =>
      Array.from({ length: count }, (_, at) => publication(`${count}-${at}`, { data: '' }));
    await expect(h.update({ enqueue: tasks(70) })).rejects.toMatchObject({
      reason: 'REQUEST_TOO_LARGE',
      metadata: { limit: String(limits.publishedOutcomeBytes) },
    });
    expect(await sizeOf(h, `shop#${long}0`)).toBe(0);
    // Together they do not fit, also beside the PIDs of tasks that are not published.
    const plain = Array.from({ length: 200 }, (_, at) => ({ queue: 'shop#log', pid: `${at}`.padEnd(4_096, '.') }));
    const results = await h.batch([
      { enqueue: tasks(40) },
      { enqueue: tasks(30) },
      { enqueue: tasks(10) },
      { enqueue: plain },
    ]);
    expect(results[0]).toMatchObject({ enqueued: Array.from({ length: 40 }, () => ({})) });
    expect(results[1]).toMatchObject({ reason: 'OVERLOADED' });
    expect(results[2]).toMatchObject({ enqueued: Array.from({ length: 10 }, () => ({})) });
    expect(results[3]).toMatchObject({ enqueued: plain.map(({ pid }) => ({ pid })) });
    expect(await sizeOf(h, `shop#${long}0`)).toBe(50);
  });

  test('is refused if many filters would have to look at it, before they do', async () => {
    await using h = await engineHarness();
    const filter: HeaderFilter = [{ kind: 'exists', key: 'urgent', exists: true }];
    for (let at = 0; at < 100; at++) await subscribe(h, `shop#q${at}`, { filter });
    const few = Array.from({ length: limits.filterLooks / 200 }, (_, at) => publication(`${at}`));
    const many = Array.from({ length: limits.filterLooks / 100 + 1 }, (_, at) => publication(`${at}`));
    await expect(h.update({ enqueue: many })).rejects.toMatchObject({
      reason: 'TOO_MANY_ITEMS',
      metadata: { value: '100100', limit: '100000' },
    });
    const results = await h.batch([
      { enqueue: many },
      { enqueue: few },
      { enqueue: few },
      { enqueue: few },
      { enqueue: [{ queue: 'shop#log', pid: 'x' }] },
    ]);
    expect(results[0]).toMatchObject({ reason: 'TOO_MANY_ITEMS' });
    expect(results[2]).toMatchObject({ enqueued: few.map(() => ({ published: [] })) });
    expect(results[3]).toMatchObject({ reason: 'OVERLOADED' });
    expect(results[4]).toMatchObject({ enqueued: [{ pid: 'x' }] });
  });

  test('counts with all its copies among the bytes in flight, before they are made', async () => {
    const maxInFlightBytes = 1024 * 1024;
    await using h = await engineHarness({ syncMs: 100, config: { maxInFlightBytes } });
    for (let at = 0; at < 100; at++) await h.clock.run(subscribe(h, `shop#q${at}`));
    const data = 'x'.repeat(2_048);
    const calls = Array.from({ length: 30 }, (_, at) => h.update({ enqueue: [publication(`${at}`, { data })] }));
    expect(h.engine.figures().inFlightBytes).toBeGreaterThan(3 * 100 * data.length);
    expect(h.engine.figures().inFlightBytes).toBeLessThan(maxInFlightBytes);
    const outcomes = await h.clock.run(Promise.allSettled(calls));
    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(refused).toHaveLength(27);
    for (const refusal of refused) expect(refusal).toMatchObject({ reason: 'OVERLOADED' });
    expect(h.engine.figures().inFlightBytes).toBe(0);
    expect(await sizeOf(h, 'shop#q0')).toBe(3);
    // An enqueue of the same size is small.
    await h.clock.run(h.update({ enqueue: [{ queue: 'shop#log', pid: 'x', data }] }));
  });

  test('is refused if it would be more than half of what the node may have in flight', async () => {
    await using h = await engineHarness({ config: { maxInFlightBytes: 100_000 } });
    for (let at = 0; at < 10; at++) await subscribe(h, `shop#q${at}`);
    const large = publication('large', { data: 'x'.repeat(5_001) });
    await expect(h.update({ enqueue: [large] })).rejects.toMatchObject({
      reason: 'REQUEST_TOO_LARGE',
      metadata: { field: 'update', value: '50010', limit: '50000' },
    });
    await h.update({ enqueue: [publication('fits', { data: 'x'.repeat(5_000) })] });
    expect(await sizeOf(h, 'shop#q0')).toBe(1);
  });
});

describe('a subscription', () => {
  test('is replaced by another one of the same queue, ends, and is there after a crash', async () => {
    await using h = await engineHarness();
    expect(await subscribe(h, 'shop#mail')).toEqual({ created: true, until: undefined });
    const filter: HeaderFilter = [{ kind: 'exists', key: 'x', exists: true }];
    expect(await subscribe(h, 'shop#mail', { filter })).toMatchObject({ created: false });
    await h.crash();
    expect(await publish(h, 'a')).toEqual([]);
    expect(await publish(h, 'b', { x: '' })).toEqual(['shop#mail']);
    await h.clock.advance(2_000);
    await h.crash();
    expect(await h.engine.topics.list('shop', parseQueueName(TOPIC))).toMatchObject([{ filter, until: undefined }]);
    expect(await h.engine.topics.unsubscribe(keyOf('shop#mail'))).toEqual({ existed: true, deletedTasks: 0 });
    expect(await h.engine.topics.unsubscribe(keyOf('shop#mail'))).toEqual({ existed: false, deletedTasks: 0 });
    await h.crash();
    expect(await publish(h, 'c', { x: '' })).toEqual([]);
    expect(await sizeOf(h, 'shop#mail')).toBe(1);
  });

  test('with a time to live gets nothing from its end on, before and after it is removed, and also after a crash', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#mail', { ttlMs: 1_500 });
    await subscribe(h, 'shop#stock', { ttlMs: 5_000 });
    await h.clock.advance(1_499);
    expect(await publish(h, 'a')).toEqual(['shop#mail', 'shop#stock']);
    await h.clock.advance(1);
    expect(await publish(h, 'b')).toEqual(['shop#stock']);
    expect(await shown(h)).toEqual(['shop#stock']);
    await h.crash();
    expect(await publish(h, 'c')).toEqual(['shop#stock']);
    await h.clock.advance(1_100);
    const records = { queue: parseQueueName('shop#$taskmaster/subscriptions'), limit: 10, includeData: false };
    expect(await h.engine.peekTasks({ ...records, kind: 'head' })).toEqual([]);
    expect(await h.engine.peekTasks({ ...records, kind: 'delayed' })).toHaveLength(1);
    await h.crash();
    expect(await publish(h, 'd')).toEqual(['shop#stock']);
  });

  test('that has ended is not alive again because its record is shown', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#mail', { ttlMs: 1_000 });
    h.lose();
    await h.open();
    await h.clock.advance(1_000);
    const records = parseQueueName('shop#$taskmaster/subscriptions');
    await h.engine.getTasks({ queue: records, pids: ['x' as Pid], includeData: false });
    expect(await publish(h, 'a')).toEqual([]);
    await h.crash();
    expect(await publish(h, 'b')).toEqual([]);
    expect(await subscribe(h, 'shop#mail', { ttlMs: 1_000 })).toMatchObject({ created: true });
    expect(await publish(h, 'c')).toEqual(['shop#mail']);
  });

  test('that is renewed lasts from then on, and a renewal writes its payload once', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#mail', { ttlMs: 3_000 });
    for (let at = 0; at < 5; at++) {
      await h.clock.advance(2_000);
      expect(await subscribe(h, 'shop#mail', { ttlMs: 3_000 })).toEqual({
        created: false,
        until: h.clock.now() + 3_000,
      });
      if (at === 2) await h.crash();
    }
    expect(await publish(h, 'a')).toEqual(['shop#mail']);
    expect(h.taskRows()).toBe(2);
  });

  test('that ends takes its queue with it if it was made so', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#kept', { ttlMs: 2_000 });
    await subscribe(h, 'shop#gone', { ttlMs: 2_000, deleteQueue: true });
    await subscribe(h, 'shop#left', { deleteQueue: true });
    await publish(h, 'a');
    await h.lease('shop#gone');
    await publish(h, 'b');
    expect(await h.engine.topics.unsubscribe(keyOf('shop#left'))).toEqual({ existed: true, deletedTasks: 2 });
    await h.clock.advance(3_100);
    const counts = { available: 0, leased: 0, delayed: 0 };
    expect(await h.counts('shop#gone')).toEqual(counts);
    expect(await h.counts('shop#left')).toEqual(counts);
    expect(await sizeOf(h, 'shop#kept')).toBe(2);
    await h.crash();
    expect(await h.counts('shop#gone')).toEqual(counts);
    expect(pidsOf(await h.lease('shop#kept', { max: 9 }))).toEqual(['a', 'b']);
  });

  test('that ends takes its queue with it, also after a listing and a restart', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#gone', { ttlMs: 20, deleteQueue: true });
    await publish(h, 'a');
    await h.clock.advance(20);
    const filter = {
      matches: undefined,
      group: undefined,
      minAvailable: undefined,
      maxAvailable: undefined,
      minLeased: undefined,
      maxLeased: undefined,
      minDelayed: undefined,
      maxDelayed: undefined,
    };
    await h.clock.run(h.engine.listQueues({ filter, limit: 10, after: undefined }));
    await h.crash();
    await h.clock.advance(1_100);
    expect(await sizeOf(h, 'shop#gone')).toBe(0);
  });

  test('leaves its queue to other topics, until the last subscription ends', async () => {
    await using h = await engineHarness();
    const more = { deleteQueue: true };
    await subscribe(h, 'shop#mail', more);
    await subscribe(h, 'shop#mail', { ...more, ttlMs: 1_000 }, 'shop#returns');
    await subscribe(h, 'shop#mail', { ...more, ttlMs: 3_000 }, 'shop#offers');
    await publish(h, 'a');
    await h.clock.advance(2_100);
    expect(await h.engine.topics.unsubscribe(keyOf('shop#mail'))).toEqual({ existed: true, deletedTasks: 0 });
    expect(await sizeOf(h, 'shop#mail')).toBe(1);
    await h.clock.advance(2_000);
    expect(await sizeOf(h, 'shop#mail')).toBe(0);
  });

  test('is refused beyond the limit of its group, which ended ones do not use up', async () => {
    await using h = await engineHarness();
    for (let at = 0; at < limits.subscriptions; at++)
      await subscribe(h, `shop#q${at}`, at === 0 ? { ttlMs: 1_000 } : {});
    await expect(subscribe(h, 'shop#more')).rejects.toMatchObject({ reason: 'TOO_MANY_SUBSCRIPTIONS' });
    expect(await subscribe(h, 'shop#q1', { ttlMs: 9_000 })).toMatchObject({ created: false });
    await subscribe(h, 'other#more', {}, 'other#orders');
    await h.clock.advance(1_000);
    expect(await subscribe(h, 'shop#more')).toMatchObject({ created: true });
  });

  test('names that would look alike in one text are different ones', async () => {
    await using h = await engineHarness();
    await subscribe(h, 'shop#b\0c', {}, 'shop#a');
    await subscribe(h, 'shop#c', {}, 'shop#a\0b');
    expect(await h.engine.topics.list('shop', undefined)).toHaveLength(2);
  });
});

const EVERYTHING = {
  matches: undefined,
  group: 'shop',
  minAvailable: 1,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};
