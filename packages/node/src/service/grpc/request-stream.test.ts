import { once } from 'node:events';
import { type ClientDuplexStream, type ServiceError, status } from '@grpc/grpc-js';
import type { Instant, LeaseCommand, LeasedTask, LeaseToken, Pid, UpdateCommand } from '@taskmaster/engine/domain';
import { limits, type StreamCall, type StreamRequest, type StreamResponse, type StreamResult } from '@taskmaster/proto';
import {
  aLease,
  anEnqueue,
  anUpdate,
  bytes,
  errorInfoOf,
  grpcClient,
  SleepingClient,
} from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { startNodeServer } from '../../testing/start-node-server.ts';
import { type Instead, openWatchedEngine } from '../../testing/watched-engine.ts';

type Stream = ClientDuplexStream<StreamRequest, StreamResponse>;

const update = (id: number, pid = 'a'): StreamCall => ({
  id,
  call: { $case: 'update', value: anUpdate({ enqueue: [anEnqueue({ queue: 'shop#other', pid: bytes(pid) })] }) },
});
const lease = (id: number, waitMs = 0): StreamCall => ({ id, call: { $case: 'lease', value: aLease({ waitMs }) } });
const cancel = (id: number): StreamCall => ({ id, call: { $case: 'cancel', value: {} } });

const applied = async () => ({ enqueued: [], renewed: [], released: [] });

const aTask = (data: Uint8Array = bytes('data')): LeasedTask => ({
  queue: { group: 'shop', name: 'mail' },
  pid: 'a' as Pid,
  data,
  token: 1 as LeaseToken,
  until: 2 as Instant,
  attempt: 1,
  enqueuedAt: 1 as Instant,
  maxAttempts: 20,
  leaseDurationMs: undefined,
  timeLimitMs: 0,
  history: undefined,
  headerBytes: 0,
});

/** Reads this many answers, grouped by message. */
async function answers(stream: Stream, count: number): Promise<StreamResult[][]> {
  const messages: StreamResult[][] = [];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onData = ({ results }: StreamResponse) => {
    messages.push(results);
    if (messages.flat().length >= count) resolve();
  };
  stream.on('data', onData).once('error', reject);
  await promise.finally(() => stream.off('data', onData).off('error', reject));
  return messages;
}

async function setUp(instead: Instead, options: Parameters<typeof startNodeServer>[1] = {}) {
  const engine = await openWatchedEngine(instead);
  const server = await startNodeServer(engine, options);
  const client = grpcClient(server.port);
  const stream: Stream = client.raw.stream();
  stream.on('error', () => {}); // Every way for a stream to end but one is an error of it; tests look where it matters.
  return {
    server,
    stream,
    engine,
    [Symbol.asyncDispose]: async () => {
      stream.cancel();
      client[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

describe('a stream', () => {
  test('answers each call under its id, in the order in which they become ready', async () => {
    const first = Promise.withResolvers<void>();
    const apply = async ({ enqueue }: UpdateCommand) => {
      if (enqueue[0]?.pid === 'slow') await first.promise;
      return applied();
    };
    await using it = await setUp({ updates: { apply } });
    it.stream.write({ calls: [update(1, 'slow'), update(2)] });
    expect((await answers(it.stream, 1)).flat()).toMatchObject([{ id: 2, result: { $case: 'update' } }]);
    first.resolve();
    expect((await answers(it.stream, 1)).flat()).toMatchObject([{ id: 1, result: { $case: 'update' } }]);
  });

  test('joins the answers that became ready together', async () => {
    const committed = Promise.withResolvers<void>();
    await using it = await setUp({ updates: { apply: () => committed.promise.then(applied) } });
    const calls = Array.from({ length: 500 }, (_, id) => update(id, `${id}`));
    it.stream.write({ calls });
    await expect.poll(() => it.engine.asked.length).toBe(500);
    committed.resolve();
    expect(await answers(it.stream, 500)).toHaveLength(1);
  });

  test('splits answers that are too large for one message', async () => {
    const data = Buffer.alloc(700_000);
    await using it = await setUp({ leaseTasks: async () => [aTask(data)] });
    it.stream.write({ calls: [lease(1), lease(2), lease(3)] });
    expect(await answers(it.stream, 3)).toHaveLength(3);
  });

  test('refuses a bad call and serves the good one in the same message', async () => {
    await using it = await setUp({});
    it.stream.write({
      calls: [{ id: 1, call: { $case: 'update', value: anUpdate() } }, { id: 2, call: undefined }, update(3)],
    });
    const results = (await answers(it.stream, 3)).flat().sort((a, b) => a.id - b.id);
    expect(results).toMatchObject([
      { id: 1, result: { $case: 'error', value: { reason: 'EMPTY_REQUEST' } } },
      { id: 2, result: { $case: 'error', value: { reason: 'MALFORMED_REQUEST' } } },
      { id: 3, result: { $case: 'update' } },
    ]);
  });

  test('ends after all answers when the client has half-closed it', async () => {
    await using it = await setUp({});
    it.stream.write({ calls: [update(1)] });
    it.stream.end();
    const answered = answers(it.stream, 1);
    const [status] = await once(it.stream, 'status');
    expect(status).toMatchObject({ code: 0 });
    expect((await answered).flat()).toHaveLength(1);
  });
});

describe('calls that are cheap to make', () => {
  const nameless = (count: number): StreamCall[] => Array.from({ length: count }, (_, id) => ({ id, call: undefined }));

  test('are accepted up to the limit for one message', async () => {
    await using it = await setUp({});
    it.stream.write({ calls: nameless(limits.streamCalls) });
    expect((await answers(it.stream, limits.streamCalls)).flat()).toHaveLength(limits.streamCalls);
  });

  test('above the limit end the stream', async () => {
    await using it = await setUp({});
    const ended = once(it.stream, 'error');
    it.stream.write({ calls: [update(0), ...nameless(limits.streamCalls)] });
    const [error] = await ended;
    expect(errorInfoOf(error as ServiceError)).toMatchObject({
      reason: 'TOO_MANY_ITEMS',
      metadata: { field: 'calls', limit: '10000' },
    });
    expect(it.engine.asked).toEqual([]);
  });

  test('are not answered further while the client does not read, even if they are refused', async () => {
    const asked = await openWatchedEngine({});
    const streamLimits = { callsInFlight: 1_000, requestBytes: 1e6, unreadBytes: 1e6 };
    await using server = await startNodeServer(asked, { streamLimits });
    using client = new SleepingClient(server.port);
    for (let message = 0; message < 3; message++) client.ask(nameless(limits.streamCalls));
    client.ask([update(1)]);
    await expect.poll(() => server.server.unreadReplyBytes, { timeout: 20_000 }).toBeGreaterThan(1e6);
    // At most a thousand answers beyond the bound, and not those to two whole messages, 1.16 MB.
    expect(server.server.unreadReplyBytes).toBeLessThan(1.1e6);
    expect(asked.asked).toEqual([]);
    await client.wake(1.5e6);
    await expect.poll(() => asked.asked.length, { timeout: 20_000 }).toBe(1);
  });
});

describe('a waiting lease on a stream', () => {
  test('is answered CANCELLED when the client cancels it', async () => {
    await using it = await setUp({});
    it.stream.write({ calls: [lease(1, 60_000), lease(2, 60_000)] });
    await expect.poll(() => it.engine.asked.length).toBe(2);
    it.stream.write({ calls: [cancel(1), cancel(99)] });
    expect((await answers(it.stream, 1)).flat()).toMatchObject([
      { id: 1, result: { $case: 'error', value: { reason: 'CANCELLED' } } },
    ]);
  });

  test('is cancelled when the stream breaks, and its tasks are released', async () => {
    const granted = Promise.withResolvers<readonly LeasedTask[]>();
    const aborted = Promise.withResolvers<void>();
    const givenBack = Promise.withResolvers<UpdateCommand>();
    const leaseTasks = (_command: LeaseCommand, context?: { readonly signal?: AbortSignal | undefined }) => {
      context?.signal?.addEventListener('abort', () => aborted.resolve());
      return granted.promise;
    };
    const apply = async (command: UpdateCommand) => {
      givenBack.resolve(command);
      return applied();
    };
    await using it = await setUp({ leaseTasks, updates: { apply } });
    it.stream.write({ calls: [lease(1, 60_000)] });
    await expect.poll(() => it.engine.asked.length).toBe(1);
    it.stream.cancel();
    await aborted.promise;
    granted.resolve([aTask()]);
    expect(await givenBack.promise).toMatchObject({ release: [{ pid: 'a', token: 1, refundAttempt: true }] });
  });

  test('has an id that no other call may use', async () => {
    await using it = await setUp({});
    it.stream.write({ calls: [lease(1, 60_000), lease(1, 60_000)] });
    expect((await answers(it.stream, 1)).flat()).toMatchObject([
      { id: 1, result: { $case: 'error', value: { reason: 'INVALID_ARGUMENT' } } },
    ]);
  });

  test('ends without tasks when the server stops, and then the stream ends', async () => {
    await using it = await setUp({});
    it.stream.write({ calls: [lease(1, 60_000)] });
    await expect.poll(() => it.engine.asked.length).toBe(1);
    const ended = once(it.stream, 'error');
    const answered = answers(it.stream, 1);
    const stopped = it.server.server.stop(10_000);
    expect((await answered).flat()).toMatchObject([{ id: 1, result: { $case: 'lease', value: { tasks: [] } } }]);
    const [error] = await ended;
    expect(errorInfoOf(error as ServiceError).reason).toBe('SHUTTING_DOWN');
    await stopped;
  });
});

test('a stream ends at its maximum age, after its last answer', async () => {
  await using it = await setUp({}, { maxConnectionAgeMs: 200, maxConnectionAgeGraceMs: 60_000 });
  const ended = once(it.stream, 'error');
  const answered = answers(it.stream, 1);
  it.stream.write({ calls: [lease(1, 600_000)] });
  expect((await answered).flat()).toMatchObject([{ id: 1, result: { $case: 'lease', value: { tasks: [] } } }]);
  const [error] = await ended;
  expect(error).toMatchObject({ code: status.UNAVAILABLE, details: expect.stringContaining('maximum age') });
});

describe('a stream whose client sends more than it may', () => {
  test('is not read while its calls in flight are at their limit', async () => {
    const release = Promise.withResolvers<void>();
    const streamLimits = { callsInFlight: 3, requestBytes: 1e6, unreadBytes: 1e6 };
    await using it = await setUp({ updates: { apply: () => release.promise.then(applied) } }, { streamLimits });
    it.stream.write({ calls: [update(1), update(2), update(3), update(4)] });
    it.stream.write({ calls: [update(5)] });
    await expect.poll(() => it.engine.asked.length).toBe(3);
    release.resolve();
    expect((await answers(it.stream, 5)).flat().map(({ id }) => id)).toEqual([1, 2, 3, 4, 5]);
  });

  test('is read while leases wait: leases beyond their share are refused', async () => {
    const streamLimits = { callsInFlight: 8, requestBytes: 1e6, unreadBytes: 1e6 };
    await using it = await setUp({}, { streamLimits });
    it.stream.write({ calls: Array.from({ length: 8 }, (_, id) => lease(id, 60_000)) });
    const refused = { reason: 'TOO_MANY_WAITERS', metadata: { limit: '6' } };
    expect((await answers(it.stream, 2)).flat()).toMatchObject([
      { id: 6, result: { $case: 'error', value: refused } },
      { id: 7, result: { $case: 'error', value: refused } },
    ]);
    for (let id = 8; id < 28; id++) {
      it.stream.write({ calls: [update(id)] });
      expect((await answers(it.stream, 1)).flat()).toMatchObject([{ id, result: { $case: 'update' } }]);
    }
    // What ends makes room.
    it.stream.write({ calls: [cancel(0)] });
    expect((await answers(it.stream, 1)).flat()).toMatchObject([{ id: 0, result: { $case: 'error' } }]);
    it.stream.write({ calls: [lease(100, 60_000), lease(101, 60_000)] });
    expect((await answers(it.stream, 1)).flat()).toMatchObject([{ id: 101, result: { value: refused } }]);
  });

  test('is read while leases wait that came in a message with large updates', async () => {
    const streamLimits = { callsInFlight: 1_000, requestBytes: 1e6, unreadBytes: 1e6 };
    await using it = await setUp({}, { streamLimits });
    const large = (id: number): StreamCall => ({
      id,
      call: {
        $case: 'update',
        value: anUpdate({ enqueue: [anEnqueue({ queue: 'shop#other', data: Buffer.alloc(300_000) })] }),
      },
    });
    for (let id = 0; id < 10; id += 2) {
      it.stream.write({ calls: [lease(id, 60_000), large(id + 1)] });
      expect((await answers(it.stream, 1)).flat()).toMatchObject([{ id: id + 1, result: { $case: 'update' } }]);
    }
  });

  test('is not read while the names in waiting leases are at their limit', async () => {
    const release = Promise.withResolvers<void>();
    const streamLimits = { callsInFlight: 1_000, requestBytes: 10_000, unreadBytes: 1e6 };
    const leaseTasks = () => release.promise.then(() => []);
    await using it = await setUp({ leaseTasks }, { streamLimits });
    const queues = Array.from({ length: 10 }, (_, i) => `shop#${'q'.repeat(200)}${i}`);
    for (let id = 1; id <= 8; id++) {
      it.stream.write({ calls: [{ id, call: { $case: 'lease', value: aLease({ queues, waitMs: 60_000 }) } }] });
    }
    await expect.poll(() => it.engine.asked.length).toBe(5);
    release.resolve();
    expect((await answers(it.stream, 8)).flat().map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  const data = Buffer.alloc(500_000);
  // Leases for a client that is gone are given back.
  const engine = () => openWatchedEngine({ leaseTasks: async () => [aTask(data)], updates: { apply: applied } });

  test('is not served while it does not read its answers', async () => {
    const asked = await engine();
    const streamLimits = { callsInFlight: 1, requestBytes: 1e6, unreadBytes: 1e6 };
    await using server = await startNodeServer(asked, { streamLimits });
    using client = new SleepingClient(server.port);
    for (let id = 0; id < 20; id++) client.ask([lease(id)]);
    // The first two answers make a million bytes, of which the client's window takes a few.
    await expect.poll(() => server.server.unreadReplyBytes).toBeGreaterThan(1e6);
    expect(asked.asked).toHaveLength(2);
    await client.wake(20 * data.length);
    expect(asked.asked).toHaveLength(20);
    await expect.poll(() => server.server.unreadReplyBytes).toBe(0);
  });

  test('loses its connection if it has too many unread answers, without an effect on other connections', async () => {
    await using server = await startNodeServer(await engine(), { maxUnreadReplyBytes: 8e6 });
    using reader = grpcClient(server.port);
    using sleeper = new SleepingClient(server.port);
    sleeper.ask(Array.from({ length: 100 }, (_, id) => lease(id)));
    await sleeper.closed;
    expect(server.log.lines).toMatchObject([{ level: 'warn', message: expect.stringContaining('does not read') }]);
    await expect.poll(() => server.server.unreadReplyBytes).toBe(0);
    expect((await reader.leaseTasks(aLease())).tasks).toHaveLength(1);
  });
});
