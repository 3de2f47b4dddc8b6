import { EnqueueMode, EnqueueResult, type HeaderFilter, methods, type SubscribeRequest } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { Transport } from '../../transport/transport.ts';
import { enqueue, get, lease, text } from './transport-requests.ts';

const TOPIC = 'shop#orders';
const subscription = (queue: string, change: Partial<SubscribeRequest> = {}): SubscribeRequest => ({
  topic: TOPIC,
  queue,
  filter: undefined,
  ttlMs: 0,
  deleteQueue: false,
  ...change,
});
const publish = (pid: string, headers: Record<string, string> = {}) =>
  enqueue(pid, { queue: '', topic: TOPIC, headers });

/** The part of the transport contract about topics. */
export function topicsContract(
  start: () => Promise<AsyncDisposable & { readonly transport: Transport; settle<T>(promise: Promise<T>): Promise<T> }>,
): void {
  test('what is published goes to the queues that are subscribed and whose filters it passes', async () => {
    await using world = await start();
    const { transport } = world;
    const filter: HeaderFilter = {
      all: [
        { key: 'tenant', test: { $case: 'in', value: { values: ['acme', ''] } } },
        { key: 'type', test: { $case: 'prefix', value: 'order.' } },
        { key: 'test', test: { $case: 'exists', value: false } },
      ],
    };
    expect((await transport.unary(methods.updateTasks, publish('none'))).enqueued).toMatchObject([
      { published: { tasks: [] } },
    ]);
    expect(await transport.unary(methods.subscribe, subscription('shop#mail'))).toEqual({
      created: true,
      expiresUnixMs: 0,
    });
    await transport.unary(methods.subscribe, subscription('shop#audit', { filter }));
    await transport.unary(methods.subscribe, subscription('shop#other', { topic: 'shop#returns' }));
    const created = EnqueueResult.ENQUEUE_RESULT_CREATED;
    const { enqueued } = await transport.unary(
      methods.updateTasks,
      publish('a', { tenant: 'acme', type: 'order.new' }),
    );
    expect(enqueued).toMatchObject([
      {
        result: EnqueueResult.ENQUEUE_RESULT_PUBLISHED,
        published: {
          tasks: [
            { queue: 'shop#audit', result: created, leased: false },
            { queue: 'shop#mail', result: created, leased: false },
          ],
        },
      },
    ]);
    const again = await transport.unary(
      methods.updateTasks,
      publish('b', { tenant: 'acme', type: 'order.new', test: '' }),
    );
    expect(again.enqueued[0]?.published?.tasks.map(({ queue }) => queue)).toEqual(['shop#mail']);
    const { tasks } = await transport.unary(methods.leaseTasks, {
      ...lease(),
      queues: ['shop#audit', 'shop#mail', 'shop#other'],
    });
    expect(tasks.map(({ queue, data }) => [queue, text(data)])).toEqual([
      ['shop#audit', 'data of a'],
      ['shop#mail', 'data of a'],
      ['shop#mail', 'data of b'],
    ]);
    const { subscriptions } = await transport.unary(methods.listSubscriptions, { topic: TOPIC });
    const ended = { expiresUnixMs: 0 };
    expect(subscriptions).toEqual([
      { ...subscription('shop#audit', { filter }), ...ended },
      { ...subscription('shop#mail'), ...ended },
    ]);
    const all = await transport.unary(methods.listSubscriptions, { topic: 'shop#' });
    expect(all.subscriptions.map(({ topic }) => topic)).toEqual([TOPIC, TOPIC, 'shop#returns']);
    expect((await transport.unary(methods.listSubscriptions, { topic: '#' })).subscriptions).toEqual([]);
  });

  test('a subscription is replaced, ends, and takes its queue with it if that was asked for', async () => {
    await using world = await start();
    const { transport } = world;
    await transport.unary(methods.subscribe, subscription('shop#mail'));
    const deleteQueue = true;
    const renewed = await transport.unary(methods.subscribe, subscription('shop#mail', { ttlMs: 60_000, deleteQueue }));
    expect(renewed.created).toBe(false);
    expect(renewed.expiresUnixMs).toBeGreaterThan(0);
    await transport.unary(methods.updateTasks, publish('a'));
    const key = { topic: TOPIC, queue: 'shop#mail' };
    expect(await transport.unary(methods.unsubscribe, key)).toEqual({ existed: true, deletedTasks: 1 });
    expect(await transport.unary(methods.unsubscribe, key)).toEqual({ existed: false, deletedTasks: 0 });
    expect((await transport.unary(methods.updateTasks, publish('b'))).enqueued[0]?.published).toEqual({ tasks: [] });
    const { tasks } = await transport.unary(methods.getTasks, get('a', false));
    expect(tasks).toMatchObject([{ attempts: 0, enqueuedUnixMs: 0 }]);
  });

  test('a publication fails as a whole, with the item and the topic', async () => {
    await using world = await start();
    const { transport } = world;
    for (const queue of ['shop#mail', 'shop#stock']) await transport.unary(methods.subscribe, subscription(queue));
    await transport.unary(methods.updateTasks, enqueue('a', { queue: 'shop#stock' }));
    const failing = { ...publish('a').enqueue[0], mode: EnqueueMode.ENQUEUE_MODE_FAIL };
    const refused = transport.unary(methods.updateTasks, enqueue('a', failing));
    await expect(refused).rejects.toMatchObject({ reason: 'TASK_EXISTS', items: [{ kind: 'enqueue', index: 0 }] });
    const { tasks } = await transport.unary(methods.leaseTasks, { ...lease(), queues: ['shop#mail'] });
    expect(tasks).toEqual([]);
  });
}
