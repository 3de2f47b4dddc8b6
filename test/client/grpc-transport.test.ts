import { createServer } from 'node:net';
import { promisify } from 'node:util';
import { Server, ServerCredentials, type ServerDuplexStream, type UntypedServiceImplementation } from '@grpc/grpc-js';
import {
  bytesCodec,
  clientOver,
  connect,
  LeaseLostError,
  type ReconnectEvent,
  type RetryEvent,
  spread,
  TaskExistsError,
  UnavailableError,
} from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { GrpcTransport } from '@taskmaster/client/testing';
import {
  Enqueue,
  EnqueueMode,
  EnqueueResult,
  limits,
  methods,
  type StreamRequest,
  type StreamResponse,
  TaskMasterServiceService,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import { TestNode } from './support/test-node.ts';

const patience = { timeout: 20_000, interval: 5 };

/** A port on which no process listens: it was free a moment ago. */
async function unusedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('a TCP port has a number');
  return address.port;
}

/** A server that ends its first stream without an error at the second call, as a node that shuts down does. */
async function endingServer() {
  /** The number of the stream, for each call. */
  const calls: number[] = [];
  let streams = 0;
  const server = new Server();
  server.addService(TaskMasterServiceService, {
    stream(call: ServerDuplexStream<StreamRequest, StreamResponse>) {
      const stream = ++streams;
      call.on('data', ({ calls: [asked] }: StreamRequest) => {
        calls.push(stream);
        const created = { pid: Buffer.from('a'), result: EnqueueResult.ENQUEUE_RESULT_CREATED, leased: false };
        const value = { enqueued: [{ ...created, published: undefined }], renewed: [], released: [], refused: [] };
        if (calls.length === 2) call.end();
        else call.write({ results: [{ id: asked?.id ?? 0, result: { $case: 'update', value } }] });
      });
      call.on('end', () => call.end());
    },
  } as unknown as UntypedServiceImplementation);
  const port = await promisify(server.bindAsync.bind(server))('127.0.0.1:0', ServerCredentials.createInsecure());
  return { calls, endpoint: `127.0.0.1:${port}`, [Symbol.asyncDispose]: async () => server.forceShutdown() };
}

/** Waits for the events that a test is about. */
function eventLog() {
  const events: string[] = [];
  const onReconnect = ({ endpoint, state }: ReconnectEvent): void => void events.push(`${state} ${endpoint}`);
  const until = (event: string): Promise<true> => vi.waitUntil(() => events.includes(event), patience);
  return { events, onReconnect, until };
}

describe('over a stream', () => {
  test('concurrent calls travel in one message', async () => {
    await using server = await TestNode.start();
    await using client = await connect(server.endpoint);
    const queue = client.queue<number>('q');
    // With request ids of their own they stay calls of their own.
    const calls = Array.from({ length: 100 }, (_, i) => queue.enqueue(i, { requestId: `${i}` }));
    const outcomes = await Promise.all(calls);
    expect(outcomes.every(({ result }) => result === 'created')).toBe(true);
    expect(server.messages).toEqual([100]);
    expect(server.unaryCalls).toEqual([]);
    expect(await queue.lease({ max: 100 })).toHaveLength(100);
    expect(server.streams).toBe(1);
  });

  test('a refusal comes as its error, with the items at fault', async () => {
    await using server = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint });
    const queue = client.queue<number>('q');
    await queue.enqueue(1, { pid: 'a' });
    await expect(queue.enqueue(1, { pid: 'a', mode: 'fail' })).rejects.toBeInstanceOf(TaskExistsError);
    const update = client.update().dequeue(queue, 'a', { leaseToken: 7 });
    await expect(update.commit()).rejects.toMatchObject({
      name: 'LeaseLostError',
      items: [{ kind: 'dequeue', index: 0, queue: 'q', pid: Buffer.from('a'), reason: 'LEASE_LOST' }],
    });
  });

  test('an update that every node would refuse is refused here, and does not break the stream for others', async () => {
    await using server = await TestNode.start();
    await using client = await connect(server.endpoint);
    const update = client.update();
    for (let i = 0; i < 3; i++) update.enqueue('q', 'x'.repeat(2_000_000));
    await expect(update.commit()).rejects.toMatchObject({ name: 'InvalidRequestError', reason: 'REQUEST_TOO_LARGE' });
    const many = client.update();
    for (let i = 0; i < 100_001; i++) many.enqueue('q', '');
    await expect(many.commit()).rejects.toMatchObject({ name: 'InvalidRequestError', reason: 'TOO_MANY_ITEMS' });
    expect(server.streams).toBe(0);
  });

  test('a wait that every node would refuse is refused here, and does not break the stream for others', async () => {
    await using server = await TestNode.start();
    await using transport = new GrpcTransport({ endpoints: server.endpoint });
    const client = clientOver(transport);
    const queue = client.queue<number>('q');
    const waiting = queue.lease({ wait: '1m' });
    await vi.waitUntil(() => server.waiting === 1, patience);
    const tasks = Array.from({ length: 1_000 }, () => ({ queue: 'q', pid: Buffer.alloc(limits.requestBytes / 1_000) }));
    await expect(transport.unary(methods.waitForTasks, { tasks, waitMs: 1 })).rejects.toMatchObject({
      name: 'InvalidRequestError',
      reason: 'REQUEST_TOO_LARGE',
    });
    await queue.enqueue(1);
    expect(await waiting).toHaveLength(1);
    expect(server.streams).toBe(1);
  });

  test('an update that fills a message alone is a unary call, and does not break the stream for others', async () => {
    await using server = await TestNode.start();
    await using client = await connect(server.endpoint);
    const queue = client.queue<number>('q');
    const waiting = queue.lease({ wait: '1m' });
    await vi.waitUntil(() => server.waiting === 1, patience);
    // One byte less than a node takes at most.
    const sizeOf = (bytes: number): number => {
      const update = { ...UpdateTasksRequest.decode(Buffer.alloc(0)), requestId: Buffer.alloc(16) };
      const task = { ...Enqueue.decode(Buffer.alloc(0)), queue: 'q2', mode: EnqueueMode.ENQUEUE_MODE_COLLAPSE };
      const payloads = [Buffer.alloc(2_000_000), Buffer.alloc(bytes)];
      const enqueue = payloads.map((data) => ({ ...task, data }));
      return UpdateTasksRequest.encode({ ...update, enqueue }).finish().byteLength;
    };
    let left = 2_000_000;
    while (sizeOf(left) !== limits.requestBytes - 1) left += limits.requestBytes - 1 - sizeOf(left);
    const large = client.queue<Uint8Array>('q2', { codec: bytesCodec });
    await client.update().enqueue(large, Buffer.alloc(2_000_000)).enqueue(large, Buffer.alloc(left)).commit();
    expect(server.unaryCalls).toEqual(['updateTasks']);
    await queue.enqueue(1);
    expect(await waiting).toHaveLength(1);
    expect(server.streams).toBe(1);
  });

  test('a cancelled lease is cancelled at the node as well', async () => {
    await using server = await TestNode.start();
    await using client = await connect(server.endpoint);
    const giveUp = new AbortController();
    const leasing = expect(client.queue('q').lease({ wait: '1m', signal: giveUp.signal })).rejects.toMatchObject({
      reason: 'CANCELLED',
    });
    await vi.waitUntil(() => server.waiting === 1, patience);
    giveUp.abort();
    await leasing;
    await vi.waitUntil(() => server.waiting === 0, patience);
  });
});

describe('in unary calls', () => {
  test('updates and leases have the same results', async () => {
    await using server = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint, useStream: false });
    const queue = client.queue<number>('q');
    await queue.enqueue(1, { pid: 'a' });
    const [task] = await queue.lease();
    await task?.complete();
    expect(server.unaryCalls).toEqual(['updateTasks', 'leaseTasks', 'updateTasks']);
    expect(server.streams).toBe(0);
  });

  test('a refusal carries its reason, items and delay in the trailer', async () => {
    await using server = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint, useStream: false, retry: { maxAttempts: 1 } });
    const queue = client.queue<number>('q');
    await queue.enqueue(1, { pid: 'a' });
    const error: unknown = await client
      .update()
      .dequeue(queue, 'a', { leaseToken: 7 })
      .commit()
      .catch((thrown) => thrown);
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(error).toMatchObject({
      message: expect.stringContaining('the lease token is no longer'),
      metadata: { queue: 'q' },
      items: [{ index: 0 }],
    });
    server.refusal = makeError('later', { reason: 'OVERLOADED', retryDelayMs: 1_250 });
    await expect(queue.stats()).rejects.toMatchObject({
      name: 'OverloadedError',
      retryDelayMs: 1_250,
      maybeApplied: false,
    });
  });

  test('a call that ends because the server ends is not a cancelled call', async () => {
    await using server = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint, useStream: false, retry: { maxAttempts: 1 } });
    const leasing = expect(client.queue('q').lease({ wait: '1m' })).rejects.toMatchObject({
      name: 'UnavailableError',
      retryable: true,
      maybeApplied: true,
    });
    await vi.waitUntil(() => server.waiting === 1, patience);
    server.kill();
    await leasing;
  });

  test('a cancelled lease is cancelled at the node', async () => {
    await using server = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint, useStream: false });
    const giveUp = new AbortController();
    const leasing = expect(client.queue('q').lease({ wait: '1m', signal: giveUp.signal })).rejects.toMatchObject({
      reason: 'CANCELLED',
    });
    await vi.waitUntil(() => server.waiting === 1, patience);
    giveUp.abort();
    await leasing;
    await vi.waitUntil(() => server.waiting === 0, patience);
  });

  test('a lease that is cancelled in the turn in which it is sent is cancelled, too', async () => {
    await using server = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint, useStream: false });
    for (let steps = 0; steps < 40; steps++) {
      const giveUp = new AbortController();
      const leasing = client.queue('q').lease({ wait: '1m', signal: giveUp.signal });
      for (let step = 0; step < steps; step++) await Promise.resolve();
      giveUp.abort();
      await expect(leasing).rejects.toMatchObject({ reason: 'CANCELLED' });
    }
    await client.queue('q').stats(); // Behind all of them.
    await vi.waitUntil(() => server.waiting === 0, patience);
  });

  test('listings and statistics work', async () => {
    await using server = await TestNode.start();
    await using client = await connect(server.endpoint);
    const queue = client.queue<number>('q');
    await queue.enqueue(1, { pid: 'a' });
    expect(await queue.stats()).toMatchObject({ queue: 'q', available: 1 });
    expect((await queue.peek())[0]).toMatchObject({ state: 'available', data: 1 });
    expect((await queue.get(['a']))[0]).toMatchObject({ state: 'available' });
    for await (const stats of client.listQueues()) expect(stats.queue).toBe('q');
    expect(await queue.resetLeases()).toBe(0);
    expect(await queue.delete()).toBe(1);
  });
});

describe('when a connection is lost', () => {
  test('calls wait until the node is back, and an applied update is not applied again', async () => {
    const { onReconnect, until } = eventLog();
    const server = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint, onReconnected: onReconnect, timeout: '20s' });
    const queue = client.queue<number>('q');
    await queue.enqueue(1);
    server.kill();
    await until(`lost ${server.endpoint}`);
    const enqueuing = queue.enqueue(2);
    await using again = await TestNode.start(server.port);
    expect((await enqueuing).result).toBe('created');
    expect(await again.pids('q')).toHaveLength(1);
  });

  test('other endpoints take over', async () => {
    const { onReconnect, until } = eventLog();
    const first = await TestNode.start();
    await using second = await TestNode.start();
    await using client = await connect({ endpoints: [first.endpoint, second.endpoint], onReconnected: onReconnect });
    await until(`connected ${first.endpoint}`);
    await until(`connected ${second.endpoint}`);
    const queue = client.queue<number>('q');
    for (let i = 0; i < 4; i++) await queue.enqueue(i);
    expect([first.updates.length, second.updates.length]).toEqual([2, 2]);
    first.kill();
    for (let i = 0; i < 4; i++) await queue.enqueue(i);
    expect((await second.pids('q')).length).toBeGreaterThanOrEqual(6);
  });

  test('enqueues that are spread go past a client without a connection before they are sent', async () => {
    const { onReconnect, until } = eventLog();
    const server = await TestNode.start();
    await using other = await TestNode.start();
    await using client = await connect({ endpoints: server.endpoint, onReconnected: onReconnect });
    await using second = await connect(other.endpoint);
    const failed: unknown[] = [];
    const queue = spread([client.queue<number>('q'), second.queue<number>('q')], {
      prefer: 'first',
      onFailOver: (error) => failed.push(error),
    });
    await queue.enqueue(1);
    expect(queue.targets.map(({ isUp }) => isUp)).toEqual([true, true]);
    server.kill();
    await until(`lost ${server.endpoint}`);
    expect(queue.targets.map(({ isUp }) => isUp)).toEqual([false, true]);
    await queue.enqueue(2);
    expect(failed).toEqual([]);
    expect(await other.pids('q')).toHaveLength(1);
    await using again = await TestNode.start(server.port);
    await vi.waitUntil(() => queue.targets[0]?.isUp, patience);
    await queue.enqueue(3);
    expect(await again.pids('q')).toHaveLength(1);
  });

  test('a stopping node gets no calls while there are others', async () => {
    const { onReconnect, until } = eventLog();
    await using first = await TestNode.start();
    await using second = await TestNode.start();
    const retried: string[] = [];
    const onRetry = ({ error }: RetryEvent): void => void retried.push(error.reason);
    await using client = await connect({
      endpoints: [first.endpoint, second.endpoint],
      onReconnected: onReconnect,
      onCallRetried: onRetry,
    });
    await until(`connected ${first.endpoint}`);
    await until(`connected ${second.endpoint}`);
    first.refusal = makeError('stopping', { reason: 'SHUTTING_DOWN', retryDelayMs: 60_000 });
    const queue = client.queue<number>('q');
    for (let i = 0; i < 6; i++) await queue.enqueue(i);
    expect(retried).toEqual(['SHUTTING_DOWN']);
    expect(second.updates).toHaveLength(6);
  });

  test('a node that ends its streams in order gets calls again', async () => {
    await using server = await endingServer();
    const retried: string[] = [];
    await using client = await connect({
      endpoints: server.endpoint,
      onCallRetried: ({ error }) => retried.push(error.reason),
    });
    const queue = client.queue<number>('q');
    await queue.enqueue(1);
    expect(await queue.enqueue(2)).toMatchObject({ result: 'created' });
    expect(retried).toEqual(['SHUTTING_DOWN']);
    expect(server.calls).toEqual([1, 1, 2]);
  });
});

test.each([true, false])(
  'a token that cannot be read fails the call, and the process goes on (stream: %s)',
  async (useStream) => {
    await using server = await TestNode.start();
    let isReadable = false;
    const token = (): string => {
      if (isReadable) return 'abc';
      throw new Error('no such file');
    };
    await using client = await connect({ endpoints: server.endpoint, token, useStream });
    const queue = client.queue<number>('q');
    const refused = {
      name: 'UnauthenticatedError',
      message: 'the token cannot be read: no such file',
      maybeApplied: false,
    };
    await expect(queue.enqueue(1)).rejects.toMatchObject(refused);
    await expect(queue.stats()).rejects.toMatchObject(refused);
    isReadable = true;
    expect(await queue.enqueue(1)).toMatchObject({ result: 'created' });
  },
);

describe('connect', () => {
  test('needs only one running endpoint', async () => {
    await using server = await TestNode.start();
    const down = `127.0.0.1:${await unusedPort()}`;
    await using client = await connect({ endpoints: [down, server.endpoint] });
    await client.queue('q').enqueue(1);
    expect(await server.pids('q')).toHaveLength(1);
  });

  test.each<[string, readonly unknown[]]>([
    ['endpoints', [undefined]],
    ['endpoints', [{}]],
    ['endpoints', [['a:1', 2]]],
    ['endpoints', [['a:1', '']]],
    ['rooting', [{ endpoints: 'a:1', rooting: 'direct' }]],
    ['routing', [{ endpoints: 'a:1', routing: 'dirct' }]],
    ['routing', ['a:1', { routing: 'direct' }]],
    ['worker', [{ endpoints: 'a:1', worker: 7 }]],
    ['retry.maxAttempts', [{ endpoints: 'a:1', retry: { maxAttempts: 0 } }]],
    ['timeout', [{ endpoints: 'a:1', timeout: '5 parsecs' }]],
  ])('refuses a wrong option by its name: %s of %j', async (name, args) => {
    const connecting = Reflect.apply(connect, undefined, args);
    await expect(connecting).rejects.toBeInstanceOf(TypeError);
    await expect(connecting).rejects.toThrow(name);
  });

  test('reports which endpoints it could not reach, and why', async () => {
    const down = `127.0.0.1:${await unusedPort()}`;
    const connecting = connect({ endpoints: down, connectTimeout: 50 });
    await expect(connecting).rejects.toBeInstanceOf(UnavailableError);
    await expect(connecting).rejects.toThrow(`no endpoint can be reached: ${down}`);
    await expect(connecting).rejects.toThrow('ECONNREFUSED');
    await expect(connecting).rejects.not.toThrow('Resolution note');
    await expect(connecting).rejects.toMatchObject({ code: 14, retryable: true });
  });

  test('can be cancelled', async () => {
    const down = `127.0.0.1:${await unusedPort()}`;
    const giveUp = new AbortController();
    const connecting = connect(down, { signal: giveUp.signal });
    giveUp.abort();
    await expect(connecting).rejects.toMatchObject({ reason: 'CANCELLED' });
  });

  test.each([
    ['no endpoint', { endpoints: [] }],
    ['an empty endpoint', { endpoints: 'a:1,,b:2' }],
    ['no calls in flight', { endpoints: 'a:1', maxCallsInFlight: 0 }],
    ['no attempts', { endpoints: 'a:1', retry: { maxAttempts: 0 } }],
  ])('with %s is a TypeError', async (_what, options) => {
    await expect(connect(options)).rejects.toBeInstanceOf(TypeError);
  });
});

test('a closed client refuses calls', async () => {
  await using server = await TestNode.start();
  const client = await connect(server.endpoint);
  const queue = client.queue('q');
  const waiting = expect(queue.lease({ wait: '1m' })).rejects.toMatchObject({ reason: 'CANCELLED' });
  await vi.waitUntil(() => server.waiting === 1, patience);
  await client.close();
  await waiting;
  await expect(queue.enqueue(1)).rejects.toMatchObject({ reason: 'CANCELLED' });
  await expect(queue.stats()).rejects.toMatchObject({ reason: 'CANCELLED' });
});
