import type { EveryWorker, EveryWorkerOptions } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { expect, test } from 'vitest';
import { type ClientSetUp, clientSetUp } from './support/client-set-up.ts';

interface EveryWorkers extends ClientSetUp {
  readonly got: string[];
  readonly heard: string[];
  worker(instance: string, options?: EveryWorkerOptions<string>): EveryWorker<string>;
  /** The queues that are subscribed. */
  queues(): Promise<string[]>;
  /** The queues whose subscriptions were ended. */
  readonly ended: string[];
}

function setUp(): EveryWorkers {
  const made = clientSetUp();
  const got: string[] = [];
  const heard: string[] = [];
  const ended: string[] = [];
  made.transport.answers.unsubscribe = async (request, send) => {
    const reply = await send();
    if (reply.existed) ended.push(request.queue);
    return reply;
  };
  const topic = made.client.topic<string>('g#news');
  return {
    ...made,
    got,
    heard,
    ended,
    worker: (instance, options = {}) => {
      const hooks = {
        onGap: () => heard.push(`gap of ${instance}`),
        onRenewalFailed: ({ reason }: { reason: string }) => heard.push(`${instance}: ${reason}`),
      };
      const handler = ({ data }: { data: string }): void => void got.push(`${instance}: ${data}`);
      return topic.onEveryWorker(handler, { instance, ...hooks, ...options });
    },
    queues: async () => (await topic.subscriptions()).map(({ queue }) => queue),
  };
}

test('every worker that runs gets what is published, each once', async () => {
  const { client, worker, got, queues, ended, timing } = setUp();
  const topic = client.topic<string>('g#news');
  const [a, b] = [worker('a'), worker('b', { filter: { kind: 'b' } })];
  await Promise.all([a.start(), b.start()]);
  expect(await queues()).toEqual(['g#news/a', 'g#news/b']);
  expect((await topic.publish('for a')).map(({ queue }) => queue)).toEqual(['g#news/a']);
  expect(await topic.publish('for both', { headers: { kind: 'b' } })).toHaveLength(2);
  await timing.settled();
  expect(got.toSorted()).toEqual(['a: for a', 'a: for both', 'b: for both']);
  await a.stop();
  expect(await queues()).toEqual(['g#news/b']);
  await client.close();
  expect(ended).toEqual(['g#news/a', 'g#news/b']);
});

test('it is steered as any worker: paused, resumed, with middleware and another concurrency', async () => {
  const { client, worker, got, heard, queues, timing } = setUp();
  const topic = client.topic<string>('g#news');
  await using every = worker('a').use(async (task, next) => {
    heard.push(`before ${task.data}`);
    await next();
  });
  await every.pause();
  await every.start();
  await topic.publish('one');
  await timing.settled();
  expect([every.isPaused, every.isRunning, got]).toEqual([true, true, []]);
  // The subscription goes on, so nothing is missed.
  await timing.advance(180_000);
  expect(await queues()).toEqual(['g#news/a']);
  every.resume();
  every.concurrency = 3;
  await timing.settled();
  expect([every.concurrency, got, heard]).toEqual([3, ['a: one'], ['before one']]);
  await topic.publish('two');
  await every.untilIdle();
  expect(got).toEqual(['a: one', 'a: two']);
});

test('its subscription is renewed while it runs', async () => {
  const { client, timing, worker, queues } = setUp();
  await worker('a', { ttl: '30s' }).start();
  await timing.advance(90_000);
  expect(await queues()).toEqual(['g#news/a']);
  expect(await client.topic('g#news').subscriptions()).toMatchObject([{ ttlMs: 30_000, deleteQueue: true }]);
  await client.close();
});

test('a renewal that fails is tried again, and a gap is told', async () => {
  const { client, timing, transport, worker, heard, queues } = setUp();
  await worker('a', { ttl: '3s' }).start();
  const error = makeError('no right', { reason: 'PERMISSION_DENIED' });
  transport.faults.subscribe.push({ when: 'before', error });
  await timing.advance(1_000);
  expect(heard).toEqual(['a: PERMISSION_DENIED']);
  await timing.advance(1_000);
  expect(await queues()).toEqual(['g#news/a']);
  // The process is paused for longer than its subscription lasts.
  timing.block(10_000);
  expect(await queues()).toEqual([]);
  await timing.advance(1_000);
  expect(await queues()).toEqual(['g#news/a']);
  expect(heard).toEqual(['a: PERMISSION_DENIED', 'gap of a']);
  await client.close();
});

test('is started once, needs no more than a second of life, and stops although it was not started', async () => {
  const { client, worker, ended } = setUp();
  const a = worker('a');
  await a.start();
  await expect(a.start()).rejects.toBeInstanceOf(TypeError);
  const b = worker('b');
  await b.stop();
  await expect(b.start()).rejects.toBeInstanceOf(TypeError);
  expect(() => worker('c', { ttl: '500ms' })).toThrow(new TypeError('ttl: at least 1000 ms'));
  const named = client.topic('g#news').onEveryWorker(() => {});
  expect(named.queue).toMatch(/^g#news\/[0-9a-f]{16}$/);
  await client.close();
  expect(ended).toEqual(['g#news/a']);
});

test('runs until the signal is aborted', async () => {
  const { client, worker, got, queues, timing } = setUp();
  const abort = new AbortController();
  const running = worker('a').run({ signal: abort.signal });
  await timing.settled();
  expect(await queues()).toEqual(['g#news/a']);
  await client.topic<string>('g#news').publish('x');
  await timing.settled();
  expect(got).toEqual(['a: x']);
  abort.abort();
  await running;
  expect(await queues()).toEqual([]);
});

test('a run ends when it is stopped, with its signal, and with the client', async () => {
  const { client, worker, timing, queues, ended } = setUp();
  const [stopped, aborted, closed] = [worker('a'), worker('b'), worker('c')];
  const controller = new AbortController();
  const runs = [stopped.run(), aborted.run({ signal: controller.signal }), closed.run()];
  await timing.settled();
  expect(await queues()).toEqual(['g#news/a', 'g#news/b', 'g#news/c']);
  await stopped.stop();
  await runs[0];
  controller.abort();
  await runs[1];
  expect(await queues()).toEqual(['g#news/c']);
  await client.close();
  await runs[2];
  expect(ended).toEqual(['g#news/a', 'g#news/b', 'g#news/c']);
  await timing.advance(60_000);
});

test('a worker whose queue is refused says so, and is not subscribed any more', async () => {
  const { client, worker, transport, queues } = setUp();
  transport.faults.leaseTasks.push({ when: 'before', error: makeError('no', { reason: 'MALFORMED_REQUEST' }) });
  await expect(worker('a').run()).rejects.toMatchObject({ reason: 'MALFORMED_REQUEST' });
  expect(await queues()).toEqual([]);
  await client.close();
});

test('a topic is not taken for a queue', async () => {
  const { client } = setUp();
  const topic = client.topic<string>('g#news');
  // @ts-expect-error A task for a topic is made with `topic.task()`.
  expect(() => client.update().enqueue(topic, 'a')).toThrow(TypeError);
  // @ts-expect-error A worker of a topic is made with `topic.onEveryWorker()`.
  expect(() => client.worker(topic, () => {})).toThrow(TypeError);
  await client.close();
});
