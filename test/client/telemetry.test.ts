import { metrics, propagation, type Span, type TextMapPropagator, trace } from '@opentelemetry/api';
import { connect, type LeasedTask, taskLogFields, UnrecoverableError } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { overloaded } from '@taskmaster/client/testing';
import { openMemory } from '@taskmaster/node/memory';
import { limits } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { isSpan, RecordedMetrics, RecordedSpans, registeredSdk, SpanKind } from './support/recorded-telemetry.ts';
import { TestNode } from './support/test-node.ts';
import { workerSetUp } from './support/worker-set-up.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const TRACEPARENT = `00-${TRACE}-b7ad6b7169203331-01`;

describe('one trace', () => {
  test('has all stages of a pipeline, whose handlers return the next stage', async () => {
    using spans = registeredSdk();
    const { client, timing } = workerSetUp();
    const [first, second, third] = ['one', 'two', 'three'].map((name) => client.queue<string>(`g#${name}`));
    if (first === undefined || second === undefined || third === undefined) throw new Error('there are three');
    await using a = client.worker(first, (task) => ({ enqueue: [second.task(task.data)] }));
    await using b = client.worker(second, (task) => ({ enqueue: [third.task(task.data)] }));
    await using c = client.worker(third, () => {});
    for (const worker of [a, b, c]) worker.start();
    await first.enqueue('x', { pid: 'p' });
    await timing.settled();
    const path = ['one', 'two', 'three'].flatMap((name) => [`enqueue g#${name}`, `process g#${name}`]);
    expect(spans.pathTo(spans.one('complete g#three'))).toEqual([...path, 'complete g#three']);
    expect(spans.pathTo(spans.one('complete g#one'))).toEqual(['enqueue g#one', 'process g#one', 'complete g#one']);
  });

  test('has the triggers of schedules below the span that is active', async () => {
    using spans = registeredSdk();
    await using client = await openMemory();
    await client.schedules.put('g#nightly', { queue: 'g#q', data: 1, cron: '0 3 * * *' });
    const { pid } = await trace.getTracer('of the user').startActiveSpan('a click', async (span: Span) => {
      const reply = await client.schedules.trigger('g#nightly');
      span.end();
      return reply;
    });
    const found = spans.one('trigger g#q');
    expect(spans.pathTo(found)).toEqual(['a click', 'trigger g#q']);
    expect(found.kind).toBe(SpanKind.PRODUCER);
    expect(found.attributes).toMatchObject({
      'messaging.operation.type': 'send',
      'messaging.destination.name': 'g#q',
      'messaging.message.id': new TextDecoder().decode(pid),
    });
    await expect(client.schedules.trigger('g#none')).rejects.toMatchObject({ reason: 'SCHEDULE_NOT_FOUND' });
    expect(spans.one('trigger').attributes).toMatchObject({ 'error.type': 'SCHEDULE_NOT_FOUND' });
  });

  test('has the spans of a handler, and what it enqueues by itself', async () => {
    using spans = registeredSdk();
    const { client, queue, timing } = workerSetUp();
    const other = client.queue<string>('other#q');
    await using worker = client.worker(queue, async () => {
      await trace.getTracer('of the user').startActiveSpan('own work', async (span: Span) => {
        await other.enqueue('y');
        span.end();
      });
    });
    worker.start();
    await queue.enqueue('x');
    await timing.settled();
    expect(spans.pathTo(spans.one('enqueue other#q'))).toEqual([
      'enqueue g#q',
      'process g#q',
      'own work',
      'enqueue other#q',
    ]);
    // A worker that runs for long does not belong to the span in which it was started.
    expect(spans.one('lease g#q').parentSpanContext).toBeUndefined();
  });

  test('has all attempts, why each failed, and where the task went', async () => {
    using spans = registeredSdk();
    const { client, queue, timing } = workerSetUp();
    await using worker = client.worker(queue, () => {
      throw new RangeError('too small');
    });
    worker.start();
    await queue.enqueue('x', { pid: 'p', retry: { maxAttempts: 2, backoff: { initial: '1s' } } });
    await timing.settled();
    await timing.advance(1_000);
    await timing.settled();
    const enqueued = spans.one('enqueue g#q');
    const [first, second] = spans.named('process g#q');
    for (const [at, span] of [first, second].entries()) {
      expect(isSpan(span?.parentSpanContext, enqueued)).toBe(true);
      expect(span).toMatchObject({
        kind: SpanKind.CONSUMER,
        attributes: { 'messaging.taskmaster.attempt': at + 1, 'error.type': 'RangeError' },
        status: { message: 'too small' },
        events: [{ name: 'exception' }],
      });
    }
    const settled = spans.named('release g#q').map(({ attributes }) => attributes);
    expect(settled).toMatchObject([
      { 'messaging.taskmaster.attempt': 1, 'messaging.taskmaster.release.reason': 'failed' },
      { 'messaging.taskmaster.attempt': 2, 'messaging.taskmaster.dead_letter_queue': 'g#q.dead' },
    ]);
    expect(settled[0]).not.toHaveProperty('messaging.taskmaster.dead_letter_queue');
  });

  test('goes on where a task is worked on without a handler', async () => {
    using spans = registeredSdk();
    const { client, queue } = workerSetUp();
    await queue.enqueue('x', { pid: 'p' });
    const [task] = await queue.lease();
    await task?.complete({ enqueue: [client.queue('g#next').task('y')] });
    expect(spans.pathTo(spans.one('complete g#q'))).toEqual(['enqueue g#q', 'complete g#q']);
    expect(spans.pathTo(spans.one('enqueue g#next'))).toEqual(['enqueue g#q', 'enqueue g#next']);
    const [link] = spans.one('lease g#q').links;
    expect(isSpan(link?.context, spans.one('enqueue g#q'))).toBe(true);
  });

  test('has what a program publishes to a topic', async () => {
    using spans = registeredSdk();
    const { client, queue, timing } = workerSetUp();
    const topic = client.topic<string>('g#orders');
    await topic.subscribe(queue);
    await using worker = client.worker(queue, () => {});
    worker.start();
    await topic.publish('x');
    await timing.settled();
    expect(spans.pathTo(spans.one('process g#q'))).toEqual(['publish g#orders', 'process g#q']);
  });
});

test('spans follow the conventions for messaging', async () => {
  using spans = registeredSdk();
  const { queue, client, timing } = workerSetUp();
  await using worker = client.worker(queue, () => {
    throw new UnrecoverableError('no');
  });
  worker.start();
  await queue.enqueue('four', { pid: 'p' });
  await timing.settled();
  await queue.enqueueMany([{ data: 'a' }, { data: 'b' }]);
  const common = { 'messaging.system': 'taskmaster', 'messaging.destination.name': 'g#q' };
  const one = { ...common, 'messaging.message.id': 'p', 'messaging.message.body.size': 6 };
  const [single, many] = spans.named('enqueue g#q');
  expect(single).toMatchObject({ kind: SpanKind.PRODUCER, links: [] });
  expect(single?.attributes).toEqual({
    ...one,
    'messaging.operation.name': 'enqueue',
    'messaging.operation.type': 'send',
  });
  expect(many?.attributes).toMatchObject({ ...common, 'messaging.batch.message_count': 2 });
  const [leased] = spans.named('lease g#q');
  expect(leased).toMatchObject({ kind: SpanKind.CLIENT });
  expect(leased?.attributes).toEqual({
    ...one,
    'messaging.operation.name': 'lease',
    'messaging.operation.type': 'receive',
    'messaging.taskmaster.attempt': 1,
  });
  const [processed] = spans.named('process g#q');
  expect(processed?.attributes).toMatchObject({ ...one, 'messaging.operation.type': 'process' });
  expect(isSpan(processed?.links[0]?.context, single as typeof many & object)).toBe(true);
  const [settled] = spans.named('dead_letter g#q');
  expect(settled).toMatchObject({
    kind: SpanKind.CLIENT,
    attributes: { 'messaging.operation.type': 'settle', 'messaging.taskmaster.dead_letter_queue': 'g#q.dead' },
  });
});

test('an assigned PID is in the span of its enqueue', async () => {
  using spans = registeredSdk();
  const { queue } = workerSetUp();
  const { pid } = await queue.enqueue('x');
  expect(spans.one('enqueue g#q').attributes['messaging.message.id']).toBe(Buffer.from(pid).toString());
});

test('a call of a handler with several tasks links to all of them, and each goes on in its own trace', async () => {
  using spans = registeredSdk();
  const { client, queue, timing } = workerSetUp();
  const next = client.queue<string>('g#next');
  for (const pid of ['a', 'b']) await queue.enqueue(pid, { pid });
  const fail = (tasks: readonly LeasedTask<string>[]) =>
    tasks.map((task) => (task.data === 'b' ? new Error('b fails') : { enqueue: [next.task(task.data)] }));
  await using worker = client.worker(queue, fail, { batch: { max: 2 } });
  worker.start();
  await timing.settled();
  const call = spans.one('process g#q');
  const [a, b] = spans.named('enqueue g#q');
  expect(call.parentSpanContext).toBeUndefined();
  expect(call.attributes['messaging.batch.message_count']).toBe(2);
  expect(call.links.map(({ attributes }) => attributes?.['messaging.message.id'])).toEqual(['a', 'b']);
  expect(call.links.map(({ context }) => context.spanId)).toEqual([a, b].map((span) => span?.spanContext().spanId));
  for (const [name, from] of [['enqueue g#next', a] as const, ['release g#q', b] as const]) {
    expect(spans.one(name).parentSpanContext?.spanId).toBe(from?.spanContext().spanId);
  }
  expect(spans.one('release g#q').links.some(({ context }) => isSpan(context, call))).toBe(true);
});

describe('headers', () => {
  /** The headers of a task that is enqueued while an SDK is registered. */
  async function headersOf(
    headers: Readonly<Record<string, string>> | undefined,
    data = 'x',
  ): Promise<Readonly<Record<string, string>>> {
    const { client } = workerSetUp();
    const queue = client.queue<string>('g#q', { codec: text });
    await queue.enqueue(data, { pid: 'p', headers });
    const [task] = await queue.lease();
    return task?.headers ?? {};
  }
  const text = {
    encode: (value: string) => Buffer.from(value),
    decode: (bytes: Uint8Array) => Buffer.from(bytes).toString(),
  };
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`h${at}`, 'v']));

  test('get the context beside those of the user', async () => {
    using spans = registeredSdk();
    const { tenant, traceparent } = await headersOf({ tenant: 'acme' });
    const { traceId, spanId } = spans.one('enqueue g#q').spanContext();
    expect({ tenant, traceparent }).toEqual({ tenant: 'acme', traceparent: `00-${traceId}-${spanId}-01` });
  });

  test.each([
    ['are full by number', many(limits.headers), 'x'],
    ['are full by size', { large: 'v'.repeat(limits.headersBytes - 10) }, 'x'],
    ['belong to a payload that is full', {}, 'v'.repeat(limits.dataBytes)],
  ])('that %s stay as they are, and the task is enqueued', async (_what, headers, data) => {
    using spans = registeredSdk();
    expect(await headersOf(headers, data)).toEqual(headers);
    expect(spans.one('enqueue g#q').status.message).toBeUndefined();
  });

  test('with room for exactly one more get the context', async () => {
    using _spans = registeredSdk();
    expect(await headersOf(many(limits.headers - 1))).toHaveProperty('traceparent');
  });

  test('with a context of the user keep it, and the span links to it', async () => {
    using spans = registeredSdk();
    expect(await headersOf({ traceparent: TRACEPARENT })).toEqual({ traceparent: TRACEPARENT });
    expect(spans.one('enqueue g#q').links.map(({ context }) => context.traceId)).toEqual([TRACE]);
  });

  test('that a handler passes on have the context of the new task', async () => {
    using spans = registeredSdk();
    const { client, queue, timing } = workerSetUp();
    const next = client.queue<string>('g#next');
    await using worker = client.worker(queue, ({ data, headers }) => ({ enqueue: [next.task(data, { headers })] }));
    worker.start();
    await queue.enqueue('x', { headers: { tenant: 'acme' } });
    await timing.settled();
    const [task] = await next.lease();
    const { spanId } = spans.one('enqueue g#next').spanContext();
    expect(task?.headers).toMatchObject({ tenant: 'acme', traceparent: expect.stringContaining(spanId) });
  });

  test('of an update that has no room for them stay as they are', async () => {
    using _spans = registeredSdk();
    const { client } = workerSetUp();
    const large = client.queue<string>('g#q', { codec: text });
    const bytes = limits.requestBytes / 4 - 1_000;
    const update = client.update();
    for (const pid of ['a', 'b', 'c', 'd']) update.enqueue(large, 'v'.repeat(bytes), { pid });
    update.enqueue(large, 'v'.repeat(limits.requestBytes - 4 * bytes - 450), { pid: 'q' });
    await update.commit();
    const [task] = await large.get(['q']);
    expect(task).toMatchObject({ state: 'available', headers: {} });
  });

  test.each([
    'x',
    '00-00000000000000000000000000000000-b7ad6b7169203331-01',
    `ff-${TRACE}-b7ad6b7169203331-01`,
    `00-${TRACE}-b7ad6b7169203331-01-and-more`,
    '%'.repeat(500),
  ])('with the hostile context %j begin a new trace', async (traceparent) => {
    using spans = registeredSdk();
    const { client, queue, engine, timing } = workerSetUp();
    await queue.enqueue('x', { headers: { traceparent, tracestate: '=,=;\u00e9' } });
    await using worker = client.worker(queue, () => {});
    worker.start();
    await timing.settled();
    expect(spans.one('process g#q').parentSpanContext).toBeUndefined();
    expect(await engine.pids('g#q')).toEqual([]);
  });

  test('that a propagator cannot read fail no task', async () => {
    const broken: TextMapPropagator = {
      inject: () => {},
      extract: () => {
        throw new Error('cannot read this');
      },
      fields: () => [],
    };
    using spans = registeredSdk(broken);
    const { client, queue, engine, timing } = workerSetUp();
    await queue.enqueue('x', { headers: { some: 'header' } });
    await using worker = client.worker(queue, () => {});
    worker.start();
    await timing.settled();
    expect(spans.names).toContain('complete g#q');
    expect(await engine.pids('g#q')).toEqual([]);
  });

  test('go by the propagator of the user', async () => {
    const own: TextMapPropagator = {
      inject: (_context, carrier, setter) => setter.set(carrier, 'x-own', 'here'),
      extract: (within) => within,
      fields: () => ['x-own'],
    };
    using _spans = registeredSdk(own);
    expect(await headersOf(undefined)).toEqual({ 'x-own': 'here' });
  });

  test.each(['no letter', 'x'.repeat(65), ''])('that nodes would refuse are not written: %j', async (key) => {
    using _spans = registeredSdk({
      inject: (_context, carrier, setter) => setter.set(carrier, key, 'v'),
      extract: (within) => within,
      fields: () => [key],
    });
    expect(await headersOf({ tenant: 'acme' })).toEqual({ tenant: 'acme' });
  });
});

describe('without an SDK', () => {
  test('no header is added, and no request changes', async () => {
    const { client, queue, engine, timing } = workerSetUp();
    const next = client.queue<string>('g#next');
    await using worker = client.worker(queue, (task) => ({ enqueue: [next.task(task.data)] }));
    worker.start();
    await queue.enqueue('x', { headers: { tenant: 'acme' } });
    await timing.settled();
    const enqueues = engine.updates.flatMap(({ enqueue }) => enqueue);
    expect(enqueues.map(({ headers }) => Object.keys(headers))).toEqual([['tenant'], []]);
  });

  test('`telemetry: false` adds none either, although one is registered', async () => {
    using spans = registeredSdk();
    await using client = await openMemory({ client: { telemetry: false } });
    const queue = client.queue<string>('g#q');
    const seen = Promise.withResolvers<object>();
    await using worker = client.worker(queue, ({ headers }) => seen.resolve(headers));
    worker.start();
    await queue.enqueue('x');
    expect(await seen.promise).toEqual({});
    expect(spans.names).toEqual([]);
  });

  test('`telemetry` of a worker is for its leases, handlers and settlements', async () => {
    using spans = registeredSdk();
    const own = new RecordedSpans();
    const { client, queue, timing } = workerSetUp();
    const next = client.queue<string>('g#next');
    const handler = async (): Promise<void> => void (await next.enqueue('y'));
    await using silent = client.worker(queue, handler, { telemetry: false });
    silent.start();
    await using recorded = client.worker(next, () => {}, { telemetry: { tracerProvider: own.provider } });
    recorded.start();
    await queue.enqueue('x');
    await timing.settled();
    expect(spans.names).toEqual(['enqueue g#q', 'enqueue g#next']);
    expect(own.names.toSorted()).toEqual(['complete g#next', 'lease g#next', 'process g#next']);
    const mistake = { telemetry: { provider: own.provider } } as object;
    expect(() => client.worker(queue, () => {}, mistake)).toThrow('provider');
  });

  test('the providers of the options record', async () => {
    const spans = new RecordedSpans();
    const recorded = new RecordedMetrics();
    await using client = await openMemory({
      client: { workerLabel: 'label', telemetry: { tracerProvider: spans.provider, meterProvider: recorded.provider } },
    });
    await client.queue('g#q').enqueue('x');
    expect(spans.one('enqueue g#q').attributes['messaging.client.id']).toBe('label');
    expect(await recorded.points('messaging.client.sent.messages')).toHaveLength(1);
  });

  test('one that is registered later records from then on', async () => {
    const { client, queue, timing } = workerSetUp();
    await using worker = client.worker(queue, () => {});
    worker.start();
    await queue.enqueue('x');
    await timing.settled();
    using spans = registeredSdk();
    await queue.enqueue('y');
    await timing.settled();
    // The lease request of the second task was on its way before.
    expect(spans.names.toSorted()).toEqual(['complete g#q', 'enqueue g#q', 'process g#q']);
  });
});

describe('metrics', () => {
  async function recording<R>(work: (recorded: RecordedMetrics) => Promise<R>): Promise<R> {
    const recorded = new RecordedMetrics();
    metrics.setGlobalMeterProvider(recorded.provider);
    try {
      return await work(recorded);
    } finally {
      metrics.disable();
    }
  }

  test('count and time what the client does, also without traces', async () => {
    await recording(async (recorded) => {
      const { client, queue, transport, timing } = workerSetUp();
      let running = 0;
      await using worker = client.worker(queue, async () => {
        const [point] = await recorded.points('taskmaster.client.running_tasks');
        running = point?.value as number;
        throw new RangeError('no');
      });
      worker.start();
      await queue.enqueueMany([{ data: 'a' }]);
      await timing.settled();
      await worker.stop();
      transport.faults.updateTasks.push({ when: 'before', error: overloaded() });
      await expect(queue.enqueue('b', { maxAttempts: 1 })).rejects.toThrow();
      const common = { 'messaging.system': 'taskmaster', 'messaging.destination.name': 'g#q' };
      const sent = await recorded.points('messaging.client.sent.messages');
      expect(sent.map(({ attributes, value }) => [attributes['error.type'], value])).toEqual([
        [undefined, 1],
        ['OVERLOADED', 1],
      ]);
      expect(await recorded.points('messaging.client.consumed.messages')).toMatchObject([
        { value: 1, attributes: { ...common, 'messaging.operation.name': 'lease' } },
      ]);
      const durations = await recorded.points('messaging.client.operation.duration');
      expect(durations.map(({ attributes }) => attributes['messaging.operation.name']).toSorted()).toEqual([
        'enqueue',
        'enqueue',
        'lease',
        'release',
      ]);
      expect(await recorded.points('messaging.process.duration')).toMatchObject([
        { value: { count: 1 }, attributes: { ...common, 'error.type': 'RangeError' } },
      ]);
      expect(running).toBe(1);
      expect(await recorded.points('taskmaster.client.running_tasks')).toMatchObject([{ value: 0 }]);
    });
  });

  test('tell 100 queues apart, and count the others together', async () => {
    await recording(async (recorded) => {
      const { client } = workerSetUp();
      for (let number = 0; number < 120; number++) await client.queue(`g#q${number}`).enqueue('x');
      const points = await recorded.points('messaging.client.sent.messages');
      expect(points).toHaveLength(101);
      const rest = points.find(({ attributes }) => attributes['messaging.destination.name'] === undefined);
      expect(rest?.value).toBe(20);
    });
  });
});

test.each([true, false])('lines of the log of a node about a call name its trace (stream: %s)', async (useStream) => {
  using spans = registeredSdk();
  await using node = await TestNode.start();
  node.refusal = makeError('broken', { reason: 'INTERNAL' });
  await using client = await connect({ endpoints: node.endpoint, useStream, retry: { maxAttempts: 1 } });
  const queue = client.queue('g#q');
  await expect(queue.enqueue('x', { pid: 'p', requestId: 'my id' })).rejects.toThrow('broken');
  await trace.getTracer('of the user').startActiveSpan('own work', async (span: Span) => {
    await expect(queue.peek()).rejects.toThrow('broken');
    span.end();
  });
  const [update, peek] = node.failedCalls;
  const [enqueue, own] = ['enqueue g#q', 'own work'].map((name) => spans.one(name).spanContext());
  const items = useStream && { request_id: Buffer.from('my id').toString('hex'), queue: 'g#q', pid: 'p' };
  expect(update).toEqual({
    err: expect.any(Error),
    call: 'UpdateTasks',
    trace_id: enqueue?.traceId,
    span_id: enqueue?.spanId,
    ...items,
  });
  expect(peek).toMatchObject({ call: 'PeekTasks', trace_id: own?.traceId, span_id: own?.spanId });
});

describe.each([true, false])('the log of a node names the span of a lease (stream: %s)', (useStream) => {
  test('of a call, also below a span of the program', async () => {
    using spans = registeredSdk();
    await using node = await TestNode.start();
    node.refusal = makeError('broken', { reason: 'INTERNAL' });
    await using client = await connect({ endpoints: node.endpoint, useStream, retry: { maxAttempts: 1 } });
    await trace.getTracer('of the user').startActiveSpan('own work', async (span: Span) => {
      await expect(client.queue('g#q').lease({ wait: '1s' })).rejects.toThrow('broken');
      span.end();
    });
    const lease = spans.one('lease g#q');
    expect(spans.pathTo(lease)).toEqual(['own work', 'lease g#q']);
    expect(lease.attributes).toMatchObject({ 'error.type': 'INTERNAL', 'messaging.batch.message_count': 0 });
    const { traceId: trace_id, spanId: span_id } = lease.spanContext();
    expect(node.failedCalls).toMatchObject([{ call: 'LeaseTasks', trace_id, span_id }]);
  });

  test('of a worker', async () => {
    using spans = registeredSdk();
    await using node = await TestNode.start();
    node.refusal = makeError('broken', { reason: 'INTERNAL' });
    await using client = await connect({ endpoints: node.endpoint, useStream, retry: { maxAttempts: 1 } });
    const failed = Promise.withResolvers<void>();
    await using worker = client.worker('g#q', () => {}, { onAttemptFailed: () => failed.resolve() });
    worker.start();
    await failed.promise;
    const [lease] = spans.named('lease g#q');
    const { traceId: trace_id, spanId: span_id } = lease?.spanContext() ?? {};
    expect(trace_id).toHaveLength(32);
    expect(node.failedCalls[0]).toMatchObject({ call: 'LeaseTasks', trace_id, span_id });
  });
});

describe('the span of a lease that gets nothing', () => {
  test('ends with no tasks', async () => {
    using spans = registeredSdk();
    const { queue } = workerSetUp();
    expect(await queue.lease()).toEqual([]);
    expect(spans.one('lease g#q').attributes).toMatchObject({ 'messaging.batch.message_count': 0 });
  });

  test('goes on in a worker until it has tasks, or stops', async () => {
    using spans = registeredSdk();
    const { client, queue, timing } = workerSetUp();
    const worker = client.worker(queue, () => {}, { wait: '1s' });
    worker.start();
    await timing.settled();
    for (let request = 0; request < 3; request++) {
      await timing.advance(1_000);
      await timing.settled();
    }
    expect(spans.names).toEqual([]);
    await queue.enqueue('x', { pid: 'p' });
    await timing.settled();
    const lease = spans.one('lease g#q');
    expect(lease.attributes).toMatchObject({ 'messaging.message.id': 'p' });
    expect(lease.attributes).not.toHaveProperty('messaging.batch.message_count');
    await worker.stop();
    const [, last] = spans.named('lease g#q');
    expect(last?.attributes).toMatchObject({ 'messaging.batch.message_count': 0 });
  });
});

test('the fields of a task for logs name the task and its trace', async () => {
  using spans = registeredSdk();
  const { client, queue, timing } = workerSetUp();
  let fields: object = {};
  await using worker = client.worker(queue, (task) => {
    fields = taskLogFields(task);
  });
  worker.start();
  await queue.enqueue('x', { pid: 'p' });
  await timing.settled();
  const { traceId, spanId } = spans.one('process g#q').spanContext();
  const task = { queue: 'g#q', pid: 'p', attempt: 1, lease: expect.any(Number) };
  expect(fields).toEqual({ task, trace_id: traceId, span_id: spanId });
  propagation.disable();
  const other = client.queue('g#other');
  await other.enqueue('y', { pid: 'q' });
  const [leased] = await other.lease();
  expect(leased && taskLogFields(leased)).toEqual({ task: { ...task, queue: 'g#other', pid: 'q' } });
});
