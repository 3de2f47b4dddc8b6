import { promisify } from 'node:util';
import { type ServiceError, status } from '@grpc/grpc-js';
import type {
  ExternalScalerClient,
  GetMetricSpecResponse,
  GetMetricsRequest,
  GetMetricsResponse,
  IsActiveResponse,
  ScaledObjectRef,
} from '@taskmaster/proto';
import { errorInfoOf } from '@taskmaster/server/testing';
import { describe, expect, test, vi } from 'vitest';
import { refused, unsent } from '../testing/fake-upstream.ts';
import { activityOf, failureOf, POLL_MS, scaledObject, startScaler } from '../testing/start-scaler.ts';

const MAIL = { group: 'shop', queue: 'mail', targetTasks: '20' };
const AGE = { group: 'shop', pattern: '#mail-', metric: 'oldestAgeSeconds', targetAgeSeconds: '30' };

/** The unary calls with promises. */
function unary(client: ExternalScalerClient) {
  const promised =
    <Q, R>(method: (request: Q, callback: (error: ServiceError | null, reply: R) => void) => unknown) =>
    (request: Q): Promise<R> =>
      promisify<Q, R>((given, callback) => method.call(client, given, callback))(request);
  return {
    isActive: promised<ScaledObjectRef, IsActiveResponse>(client.isActive),
    getMetricSpec: promised<ScaledObjectRef, GetMetricSpecResponse>(client.getMetricSpec),
    getMetrics: promised<GetMetricsRequest, GetMetricsResponse>(client.getMetrics),
  };
}

describe('a scaler is asked', () => {
  test('for the tasks of a queue: available and leased ones, not delayed ones', async () => {
    const { client, queues } = await startScaler();
    const scaler = unary(client);
    queues.set('shop#mail', { available: 3, leased: 4, delayed: 100 });
    const scaledObjectRef = scaledObject(MAIL);
    expect(await scaler.getMetricSpec(scaledObjectRef)).toEqual({
      metricSpecs: [{ metricName: 'taskmaster-tasks', targetSize: 20, targetSizeFloat: 20 }],
    });
    expect(await scaler.getMetrics({ scaledObjectRef, metricName: 'taskmaster-tasks' })).toEqual({
      metricValues: [{ metricName: 'taskmaster-tasks', metricValue: 7, metricValueFloat: 7 }],
    });
    expect(await scaler.isActive(scaledObjectRef)).toEqual({ result: true });
    queues.set('shop#mail', { delayed: 100 });
    expect(await scaler.isActive(scaledObjectRef)).toEqual({ result: false });
  });

  test('for no workers for a paused queue, but for those that have tasks of it', async () => {
    const { client, queues } = await startScaler();
    const scaler = unary(client);
    const pause = { queues: 'shop#*', reason: '', pausedBy: 'ann', sinceUnixMs: 1, untilUnixMs: 0 };
    const tasks = { scaledObjectRef: scaledObject(MAIL), metricName: 'taskmaster-tasks' };
    const age = { scaledObjectRef: scaledObject(AGE), metricName: 'taskmaster-oldest-age-seconds' };
    const figure = async (of: typeof tasks) => (await scaler.getMetrics(of)).metricValues[0]?.metricValueFloat;
    queues.set('shop#mail', { available: 30, leased: 2, pause });
    queues.set('shop#mail-a', { available: 1, oldestAgeMs: 99_000, pause });
    queues.set('shop#mail-b', { available: 1, oldestAgeMs: 4_000 });
    expect([await figure(tasks), await figure(age)]).toEqual([2, 4]);
    queues.set('shop#mail', { available: 30, pause });
    queues.set('shop#mail-a', { leased: 1, oldestAgeMs: 99_000, pause });
    expect([await figure(tasks), await figure(age)]).toEqual([0, 99]);
    expect(await scaler.isActive(tasks.scaledObjectRef)).toEqual({ result: false });
  });

  test('for the oldest age of the queues that match a pattern', async () => {
    const { client, queues } = await startScaler();
    const scaler = unary(client);
    queues.set('shop#mail-a', { available: 1, oldestAgeMs: 1_200 });
    queues.set('shop#mail-b', { leased: 1, oldestAgeMs: 61_500 });
    queues.set('shop#bills', { available: 1, oldestAgeMs: 99_000 });
    queues.set('other#mail-a', { available: 1, oldestAgeMs: 99_000 });
    const metricName = 'taskmaster-oldest-age-seconds';
    expect(await scaler.getMetricSpec(scaledObject({ ...AGE, targetAgeSeconds: '0.5' }))).toEqual({
      metricSpecs: [{ metricName, targetSize: 1, targetSizeFloat: 0.5 }],
    });
    expect(await scaler.getMetrics({ scaledObjectRef: scaledObject(AGE), metricName })).toEqual({
      metricValues: [{ metricName, metricValue: 62, metricValueFloat: 61.5 }],
    });
  });

  test.each([
    ['60', true],
    ['61.5', false],
  ])('whether its value is above the threshold of %s', async (activationAgeSeconds, result) => {
    const { client, queues } = await startScaler();
    queues.set('shop#mail-b', { leased: 1, oldestAgeMs: 61_500 });
    expect(await unary(client).isActive(scaledObject({ ...AGE, activationAgeSeconds }))).toEqual({ result });
  });

  test('with wrong metadata: every call is refused, and nothing is asked of a node', async () => {
    const { client, upstream } = await startScaler();
    const scaler = unary(client);
    const bad = scaledObject({ ...MAIL, targetTasks: 'many' });
    const failures = await Promise.all([
      failureOf(scaler.isActive(bad)),
      failureOf(scaler.getMetricSpec(bad)),
      failureOf(scaler.getMetrics({ scaledObjectRef: bad, metricName: '' })),
      activityOf(client.streamIsActive(bad)).end,
      failureOf(client.streamMetricSpec(bad).toArray()),
    ]);
    for (const failure of failures) {
      if (failure === 'complete') return expect.unreachable('the stream has ended without a refusal');
      expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT });
      expect(failure.details).toContain('scalerMetadata.targetTasks is "many"');
      expect(errorInfoOf(failure)).toMatchObject({ reason: 'INVALID_ARGUMENT', domain: 'taskmaster' });
    }
    expect(upstream.asked).toEqual([]);
  });

  test('for another metric, without a trigger, or with too many keys: it refuses', async () => {
    const { client } = await startScaler();
    const { getMetrics } = unary(client);
    const reasonOf = async (request: GetMetricsRequest) => errorInfoOf(await failureOf(getMetrics(request)));
    const asked = { scaledObjectRef: scaledObject(MAIL), metricName: 's0-cpu' };
    expect(await reasonOf(asked)).toMatchObject({ reason: 'INVALID_ARGUMENT', metadata: { field: 'metricName' } });
    expect(await reasonOf({ ...asked, scaledObjectRef: undefined })).toMatchObject({
      metadata: { field: 'scalerMetadata.group' },
    });
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`k${i}`, '']));
    expect(await reasonOf({ ...asked, scaledObjectRef: scaledObject(many) })).toMatchObject({
      reason: 'TOO_MANY_ITEMS',
    });
  });

  test('for a queue whose node does not answer: it refuses and reports no 0', async () => {
    const { client, upstream, clock } = await startScaler();
    upstream.answer = () => Promise.reject(unsent());
    const failed = failureOf(unary(client).isActive(scaledObject(MAIL)));
    const error = await advanceUntil(clock, failed);
    expect(errorInfoOf(error)).toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
  });
});

/** Moves time on until a call over a real connection is answered. */
async function advanceUntil<T>(clock: { advance(ms: number): Promise<void> }, answer: Promise<T>): Promise<T> {
  let settled = false;
  const done = (): void => {
    settled = true;
  };
  answer.then(done, done);
  await vi.waitFor(
    async () => {
      await clock.advance(100);
      expect(settled).toBe(true);
    },
    { timeout: 20_000, interval: 5 },
  );
  return answer;
}

describe('a stream of activity', () => {
  test('tells the present state at once and each change, and nothing between', async () => {
    const { client, queues, clock, upstream } = await startScaler();
    const { told } = activityOf(client.streamIsActive(scaledObject(MAIL)));
    await vi.waitUntil(() => told.length === 1);
    await clock.advance(5 * POLL_MS);
    expect(told).toEqual([false]);
    queues.set('shop#mail', { available: 1 });
    await clock.advance(POLL_MS);
    await vi.waitUntil(() => told.length === 2);
    queues.set('shop#mail', { leased: 1 });
    await clock.advance(5 * POLL_MS);
    queues.delete('shop#mail');
    await clock.advance(POLL_MS);
    await vi.waitUntil(() => told.length === 3);
    expect(told).toEqual([false, true, false]);
    expect(upstream.asked).toHaveLength(13);
  });

  test('shares the reads of its queue with all others, also of another metric', async () => {
    const { client, queues, clock, upstream } = await startScaler();
    queues.set('shop#mail', { available: 5, oldestAgeMs: 10 });
    const { group, queue } = MAIL;
    const byAge = { group, queue, metric: 'oldestAgeSeconds', targetAgeSeconds: '1', activationAgeSeconds: '1' };
    const triggers = [MAIL, { ...MAIL, activationTasks: '5' }, byAge, MAIL];
    const streams = triggers.map((trigger) => activityOf(client.streamIsActive(scaledObject(trigger))));
    await vi.waitUntil(() => streams.every(({ told }) => told.length === 1));
    expect(streams.flatMap(({ told }) => told)).toEqual([true, false, false, true]);
    await clock.advance(3 * POLL_MS);
    expect(upstream.asked).toHaveLength(4);
    const late = activityOf(client.streamIsActive(scaledObject(MAIL)));
    await vi.waitUntil(() => late.told.length === 1);
    expect(upstream.asked).toHaveLength(4);
  });

  test('ends at once when it is cancelled, and with the last one the reads end', async () => {
    const { client, clock, upstream, scaler } = await startScaler();
    const [first, second] = [MAIL, MAIL].map((trigger) => activityOf(client.streamIsActive(scaledObject(trigger))));
    await vi.waitUntil(() => first?.told.length === 1 && second?.told.length === 1);
    expect(scaler.streams).toBe(2);
    first?.cancel();
    await vi.waitUntil(() => scaler.streams === 1);
    await clock.advance(POLL_MS);
    expect(upstream.asked).toHaveLength(2);
    second?.cancel();
    await vi.waitUntil(() => scaler.streams === 0);
    await clock.advance(10 * POLL_MS);
    expect(upstream.asked).toHaveLength(2);
  });

  test('that is cancelled during a read ends the read', async () => {
    const { client, upstream, scaler } = await startScaler();
    upstream.answer = () => new Promise(() => {});
    const { cancel } = activityOf(client.streamIsActive(scaledObject(MAIL)));
    await vi.waitUntil(() => upstream.asked.length === 1);
    cancel();
    await vi.waitUntil(() => scaler.streams === 0);
    expect(upstream.asked[0]?.options.signal?.aborted).toBe(true);
  });

  test('ends complete when the server drains', async () => {
    const { client, server, scaler } = await startScaler();
    const activity = activityOf(client.streamIsActive(scaledObject(MAIL)));
    await vi.waitUntil(() => activity.told.length === 1);
    server.server.drain();
    expect(await activity.end).toBe('complete');
    await vi.waitUntil(() => scaler.streams === 0);
  });

  test('keeps its state while the node does not answer; the log says so once', async () => {
    const { client, queues, clock, upstream, log } = await startScaler();
    queues.set('shop#mail', { available: 1 });
    const activity = activityOf(client.streamIsActive(scaledObject(MAIL)));
    await vi.waitUntil(() => activity.told.length === 1);
    const answer = upstream.answer;
    upstream.answer = () => Promise.reject(refused('HOLDER_UNREACHABLE', status.UNAVAILABLE));
    await clock.advance(30 * POLL_MS);
    expect(activity.told).toEqual([true]);
    expect(log.lines).toMatchObject([{ level: 'warn', details: { reason: 'HOLDER_UNREACHABLE' } }]);
    upstream.answer = answer;
    queues.delete('shop#mail');
    await clock.advance(30 * POLL_MS);
    await vi.waitUntil(() => activity.told.length === 2);
    expect(activity.told).toEqual([true, false]);
    expect(log.lines).toMatchObject([{ level: 'warn' }, { level: 'info' }]);
  });

  test('ends if the node finds the request wrong, or if its answer cannot be read', async () => {
    const { client, upstream } = await startScaler();
    const endsWith = async (): Promise<ServiceError | 'complete'> =>
      activityOf(client.streamIsActive(scaledObject(MAIL))).end;
    upstream.answer = () => Promise.reject(refused('INVALID_QUEUE', status.INVALID_ARGUMENT));
    expect(await endsWith()).toMatchObject({ code: status.INVALID_ARGUMENT });
    upstream.answer = () => Buffer.from([0xff]);
    expect(await endsWith()).toMatchObject({ code: status.INTERNAL });
  });

  test('is refused above the limit of the proxy, and above that of its connection', async () => {
    const { client, scaler } = await startScaler({ limits: { maxStreams: 2 } });
    const open = [MAIL, MAIL].map((trigger) => activityOf(client.streamIsActive(scaledObject(trigger))));
    await vi.waitUntil(() => scaler.streams === 2);
    const third = await failureOf(client.streamMetricSpec(scaledObject(MAIL)).toArray());
    expect(errorInfoOf(third)).toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '2' } });
    open[0]?.cancel();
    await vi.waitUntil(() => scaler.streams === 1);

    const small = await startScaler({ maxConcurrentCallsPerConnection: 2 });
    const { told } = activityOf(small.client.streamIsActive(scaledObject(MAIL)));
    await vi.waitUntil(() => told.length === 1);
    const second = await failureOf(small.client.streamMetricSpec(scaledObject(MAIL)).toArray());
    expect(errorInfoOf(second)).toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '1' } });
    expect(small.scaler.streams).toBe(1);
  });
});

test('a stream of the target tells it once and stays open until the server drains', async () => {
  const { client, server, scaler } = await startScaler();
  const stream = client.streamMetricSpec(scaledObject(MAIL));
  const all = stream.toArray();
  await vi.waitUntil(() => scaler.streams === 1);
  server.server.drain();
  expect(await all).toEqual([
    { metricSpecs: [{ metricName: 'taskmaster-tasks', targetSize: 20, targetSizeFloat: 20 }] },
  ]);
  await vi.waitUntil(() => scaler.streams === 0);
});
