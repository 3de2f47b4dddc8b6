import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { type Client, credentials, makeGenericClientConstructor, type ServiceError, status } from '@grpc/grpc-js';
import {
  type CallSignal,
  type EngineHealth,
  type Instant,
  type LeasedTask,
  type LeaseToken,
  type Pid,
  Refusal,
  type UpdateCommand,
} from '@taskmaster/engine/domain';
import { EnqueueResult, limits, TaskMasterServiceService } from '@taskmaster/proto';
import { rawMethod } from '@taskmaster/server/requests';
import {
  aDequeue,
  aGet,
  aLease,
  anEnqueue,
  anUpdate,
  aPeek,
  bytes,
  checkHealth,
  errorInfoOf,
  grpcClient,
  listServices,
  watchHealth,
} from '@taskmaster/server/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startNodeServer } from '../../testing/start-node-server.ts';
import { openWatchedEngine } from '../../testing/watched-engine.ts';

const aTask = (change: Partial<LeasedTask> = {}): LeasedTask => ({
  queue: { group: 'shop', name: 'mail' },
  pid: '\xffa' as Pid,
  data: bytes('data'),
  token: 7 as LeaseToken,
  until: 1_700_000_030_000 as Instant,
  attempt: 1,
  enqueuedAt: 1_700_000_000_000 as Instant,
  maxAttempts: 20,
  leaseDurationMs: undefined,
  timeLimitMs: 0,
  history: undefined,
  headerBytes: 0,
  ...change,
});

/** Resolves once the caller is gone. */
const aborted = (signal: CallSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', resolve);
  });

const noOutcome = async () => ({ enqueued: [], renewed: [], released: [] });

describe('a call', () => {
  test('reaches the engine as a command, and its outcome is returned', async () => {
    const engine = await openWatchedEngine({
      updates: {
        apply: async () => ({
          enqueued: [{ pid: '\xff\0' as Pid, result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED, leased: true }],
          renewed: [],
          released: [{ until: undefined, deadLetterQueue: 'shop#dead' }],
        }),
      },
    });
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    expect(await client.updateTasks(anUpdate({ enqueue: [anEnqueue()] }))).toEqual({
      enqueued: [{ pid: Buffer.from([0xff, 0]), result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED, leased: true }],
      renewed: [],
      released: [{ hiddenUntilUnixMs: 0, deadLetterQueue: 'shop#dead' }],
      refused: [],
    });
    expect(engine.asked).toMatchObject([{ operation: 'updates.apply', command: { group: 'shop' } }]);
    expect(server.ended).toEqual([{ method: 'UpdateTasks', reason: undefined }]);
  });

  test('passes the address of the worker to the engine', async () => {
    const engine = await openWatchedEngine();
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ pid: Buffer.from([0xff, 0x61]) })] }));
    const { tasks } = await client.leaseTasks(aLease());
    expect(tasks).toMatchObject([{ queue: 'shop#mail', pid: Buffer.from([0xff, 0x61]), attempt: 1 }]);
    expect(engine.asked[1]?.command).toMatchObject({ workerAddress: expect.stringMatching(/^127\.0\.0\.1:\d+$/) });
  });

  test('that the engine refuses fails with the reason', async () => {
    const refuse = async () => {
      throw new Refusal('DISK_FULL', 'no space for new work', { retryDelayMs: 1_000 });
    };
    await using server = await startNodeServer(await openWatchedEngine({ updates: { apply: refuse } }));
    using client = grpcClient(server.port);
    const error = await client.updateTasks(anUpdate({ dequeue: [aDequeue()] })).catch((e: ServiceError) => e);
    expect(error).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: 'no space for new work' });
    expect(errorInfoOf(error as ServiceError).reason).toBe('DISK_FULL');
    expect(server.ended).toEqual([{ method: 'UpdateTasks', reason: 'DISK_FULL' }]);
  });

  test('that fails internally hides the cause from the client and logs it', async () => {
    const fail = async () => {
      throw new TypeError('secret');
    };
    await using server = await startNodeServer(await openWatchedEngine({ deleteQueue: fail }));
    using client = grpcClient(server.port);
    const error = await client.deleteQueue({ queue: 'mail' }).catch((e: ServiceError) => e);
    expect(error).toMatchObject({ code: status.INTERNAL, details: expect.not.stringContaining('secret') });
    expect(server.log.lines).toMatchObject([{ level: 'error', details: { err: { message: 'secret' } } }]);
  });

  test('that is cancelled aborts its wait', async () => {
    const engine = await openWatchedEngine();
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    const call = client.raw.leaseTasks(aLease({ waitMs: 60_000 }), () => {});
    await expect.poll(() => engine.figures().waiters).toBe(1);
    call.cancel();
    await expect.poll(() => engine.figures().waiters).toBe(0);
  });

  test('that many leases wait for aborts all of them, without a warning', async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => void warnings.push(message);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    const engine = await openWatchedEngine();
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    const requests = Array.from({ length: 50 }, () => aLease({ waitMs: 60_000 }));
    const call = client.raw.batchLeaseTasks({ requests }, () => {});
    await expect.poll(() => engine.figures().waiters).toBe(50);
    call.cancel();
    await expect.poll(() => engine.figures().waiters).toBe(0);
    expect(warnings).toEqual([]);
  });

  test('that is cancelled while its lease is granted releases the tasks', async () => {
    const granted = Promise.withResolvers<readonly LeasedTask[]>();
    const asked = Promise.withResolvers<CallSignal>();
    const givenBack = Promise.withResolvers<UpdateCommand>();
    const engine = await openWatchedEngine({
      leaseTasks: (_command, context) => {
        if (context?.signal) asked.resolve(context.signal);
        return granted.promise;
      },
      updates: {
        apply: async (command) => {
          givenBack.resolve(command);
          return noOutcome();
        },
      },
    });
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    const call = client.raw.leaseTasks(aLease({ waitMs: 60_000 }), () => {});
    const signal = await asked.promise;
    call.cancel();
    await aborted(signal);
    granted.resolve([aTask(), aTask({ pid: 'b' as Pid })]);
    expect(await givenBack.promise).toMatchObject({
      group: 'shop',
      release: [
        { pid: '\xffa', token: 7, delayMs: 0, refundAttempt: true },
        { pid: 'b', token: 7, delayMs: 0, refundAttempt: true },
      ],
    });
  });
});

describe('invalid bytes', () => {
  const path = TaskMasterServiceService.updateTasks.path;
  const RawClient = makeGenericClientConstructor({ updateTasks: rawMethod(path, false) }, 'raw');

  async function send(client: Client, message: Buffer): Promise<ServiceError> {
    const asIs = (b: Buffer) => b;
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, asIs, asIs, message, (error) => {
        if (error === null) reject(new TypeError('the bytes were accepted'));
        else resolve(error);
      });
    });
  }

  test.each([
    ['cut short', Buffer.from([0x0a, 0x7f, 0x01]), 'MALFORMED_REQUEST'],
    ['of an unknown wire type', Buffer.from([0x0f, 0xff]), 'MALFORMED_REQUEST'],
    ['behind a zero tag', Buffer.from([0, 0x0a, 0]), 'MALFORMED_REQUEST'],
    ['with a number beyond 2^53', Buffer.from('1a0c20ffffffffffffffff7f1a00'.slice(0, 26), 'hex'), 'INVALID_ARGUMENT'],
    ['longer than a request may be', Buffer.alloc(limits.requestBytes + 1), 'REQUEST_TOO_LARGE'],
  ])('%s are refused and affect no other call', async (_what, message, reason) => {
    const engine = await openWatchedEngine();
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    const raw = new RawClient(`127.0.0.1:${server.port}`, credentials.createInsecure());
    const error = await send(raw, message);
    raw.close();
    expect(errorInfoOf(error).reason).toBe(reason);
    expect(engine.asked).toEqual([]);
    expect(await client.updateTasks(anUpdate()).catch((e: ServiceError) => e.code)).toBe(status.INVALID_ARGUMENT);
  });

  test('that are not HTTP end their own connection only', async () => {
    await using server = await startNodeServer(await openWatchedEngine());
    using client = grpcClient(server.port);
    for (const garbage of [
      'GET / HTTP/1.1\r\n\r\n',
      '\0'.repeat(10_000),
      `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${'garbage '.repeat(9)}`,
    ]) {
      const socket = connect(server.port, '127.0.0.1').on('error', () => {});
      socket.write(garbage);
      socket.resume();
      await once(socket, 'close');
    }
    expect(await client.deleteQueue({ queue: 'mail' })).toEqual({ deletedTasks: 0 });
  });
});

describe('calls that wait for tasks on one connection', () => {
  test('leave room for others: waiting calls beyond half of its calls are refused, with the limit', async () => {
    const engine = await openWatchedEngine();
    await using server = await startNodeServer(engine, { maxConcurrentCallsPerConnection: 8 });
    using client = grpcClient(server.port);
    const poll = () => client.raw.leaseTasks(aLease({ waitMs: 60_000 }), () => {});
    const polls = Array.from({ length: 3 }, poll);
    const batch = client.raw.batchLeaseTasks({ requests: [1, 2, 3].map(() => aLease({ waitMs: 60_000 })) }, () => {});
    await expect.poll(() => engine.asked.length).toBe(6);

    const refused = (await client.leaseTasks(aLease({ waitMs: 60_000 })).catch((e: unknown) => e)) as ServiceError;
    expect(refused).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: expect.stringContaining('connection') });
    expect(errorInfoOf(refused)).toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '4' } });
    const { results } = await client.batchLeaseTasks({ requests: [aLease({ waitMs: 60_000 })] });
    expect(results).toMatchObject([{ result: { $case: 'error', value: { reason: 'TOO_MANY_WAITERS' } } }]);
    // Calls that do not wait, and other connections, are not affected.
    for (let i = 0; i < 20; i++) await client.getTasks(aGet());
    using other = grpcClient(server.port, { 'grpc.use_local_subchannel_pool': 1 });
    other.raw.leaseTasks(aLease({ waitMs: 60_000 }), () => {});
    await expect.poll(() => engine.asked.length).toBe(6 + 20 + 1);

    // What ends makes room, however it ends.
    polls[0]?.cancel();
    batch.cancel();
    await expect.poll(() => server.ended.length).toBe(2 + 20 + 2);
    poll();
    poll();
    await expect.poll(() => engine.asked.length).toBe(6 + 20 + 1 + 2);
  });
});

test('a connection survives thousands of cancelled calls', async () => {
  await using server = await startNodeServer(await openWatchedEngine());
  const session = connectHttp2(`http://127.0.0.1:${server.port}`);
  const { path } = TaskMasterServiceService.leaseTasks;
  const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  // Fewer than may be open at the same time.
  for (let wave = 0; wave < 10; wave++) {
    const calls = Array.from({ length: 400 }, () => session.request(headers).on('error', () => {}));
    for (const call of calls) call.close(constants.NGHTTP2_CANCEL);
    await Promise.all(calls.map((call) => once(call, 'close')));
    // The server answers the ping after the cancellations. Until then the cancelled calls count as open.
    await promisify(session.ping.bind(session))();
  }
  const call = session.request({ ...headers, ':path': TaskMasterServiceService.updateTasks.path });
  call.end(Buffer.alloc(5));
  const [answer] = await once(call, 'response');
  expect(answer).toMatchObject({ 'grpc-status': String(status.INVALID_ARGUMENT) });
  session.destroy();
});

describe('a reply', () => {
  const large = Buffer.alloc(3 * 1024 * 1024);
  const state = (dataBytes: number) => ({
    enqueuedAt: 1 as Instant,
    dueAt: 1 as Instant,
    dataBytes,
    headerBytes: 0,
    attempts: 0,
    token: 0 as LeaseToken,
    retry: undefined,
    visibility: { kind: 'available' } as const,
    history: undefined,
  });

  test('of leased tasks fits into a message: tasks that do not fit are released', async () => {
    const givenBack = Promise.withResolvers<UpdateCommand>();
    const engine = await openWatchedEngine({
      leaseTasks: async () => [aTask({ data: large }), aTask({ pid: 'b' as Pid, data: large })],
      updates: {
        apply: async (command) => {
          givenBack.resolve(command);
          return noOutcome();
        },
      },
    });
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    expect((await client.leaseTasks(aLease())).tasks).toHaveLength(1);
    expect(await givenBack.promise).toMatchObject({ release: [{ pid: 'b', refundAttempt: true }] });
  });

  test('to a batch of leases is shared between them', async () => {
    const engine = await openWatchedEngine({
      leaseTasks: async () => [aTask({ data: large })],
      updates: { apply: noOutcome },
    });
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    const { results } = await client.batchLeaseTasks({ requests: [aLease(), aLease(), aLease({ maxTasks: 0 })] });
    expect(results).toMatchObject([
      { result: { $case: 'response', value: { tasks: [{ pid: Buffer.from([0xff, 0x61]) }] } } },
      { result: { $case: 'error', value: { reason: 'OVERLOADED', retryDelayMs: 1 } } },
      { result: { $case: 'error', value: { reason: 'INVALID_ARGUMENT', metadata: { field: 'max_tasks' } } } },
    ]);
    expect(engine.asked.slice(0, 2)).toMatchObject([
      { command: { maxBytes: Math.floor(limits.replyDataBytes / 3) } },
      { command: { maxBytes: Math.floor(limits.replyDataBytes / 3) } },
    ]);
  });

  test('to a batch of updates has one result for each, also for refused ones', async () => {
    await using server = await startNodeServer(await openWatchedEngine());
    using client = grpcClient(server.port);
    const { results } = await client.batchUpdateTasks({ requests: [anUpdate(), anUpdate({ enqueue: [anEnqueue()] })] });
    expect(results).toMatchObject([
      { result: { $case: 'error', value: { reason: 'EMPTY_REQUEST' } } },
      { result: { $case: 'response' } },
    ]);
  });

  test('of peeked payloads shows as many as fit', async () => {
    const queue = { group: 'shop', name: 'mail' };
    const view = (pid: string, data: Uint8Array | undefined) => ({
      queue,
      pid: pid as Pid,
      state: state(large.length),
      data,
    });
    const engine = await openWatchedEngine({
      peekTasks: async () => [view('a', undefined), view('b', undefined)],
      getTasks: async ({ pids }) => pids.map((pid) => view(pid, large)),
    });
    await using server = await startNodeServer(engine);
    using client = grpcClient(server.port);
    const { tasks } = await client.peekTasks(aPeek({ includeData: true }));
    expect(tasks.map(({ pid, data }) => [String(pid), data.length])).toEqual([['a', large.length]]);
    const refused = await client.getTasks(aGet({ pids: [bytes('a'), bytes('b')], includeData: true })).catch((e) => e);
    expect(errorInfoOf(refused).reason).toBe('TOO_MANY_ITEMS');
  });
});

describe('a server', () => {
  test.each(['', 'taskmaster.v1.TaskMasterService', 'taskmaster.v1.ClusterService'])(
    'is healthy as the engine is: "%s"',
    async (service) => {
      let health: EngineHealth = { kind: 'serving' };
      const engine = await openWatchedEngine({
        get health() {
          return health;
        },
      });
      await using server = await startNodeServer(engine);
      expect(await checkHealth(server.port, service)).toEqual({ status: 'SERVING' });
      health = { kind: 'failed', cause: new Error('fsync') };
      await expect.poll(() => checkHealth(server.port, service)).toEqual({ status: 'NOT_SERVING' });
    },
  );

  test('ends health watches when it stops, after it has reported that it serves no more', async () => {
    await using server = await startNodeServer(await openWatchedEngine());
    using health = watchHealth(server.port);
    using reflection = listServices(server.port);
    await health.said('SERVING');
    await reflection.answered;
    // Longer than a test may take.
    await server.server.stop(600_000);
    await health.said('NOT_SERVING');
    for (const { ended } of [health, reflection]) {
      const error = await ended;
      expect(error.code).toBe(status.UNAVAILABLE);
      expect(errorInfoOf(error).reason).toBe('SHUTTING_DOWN');
    }
  });

  test('reports NOT_SERVING to watches that begin while it drains, and ends them', async () => {
    const asked = Promise.withResolvers<void>();
    const deleted = Promise.withResolvers<number>();
    const deleteQueue = () => {
      asked.resolve();
      return deleted.promise;
    };
    await using server = await startNodeServer(await openWatchedEngine({ deleteQueue }));
    using client = grpcClient(server.port);
    const call = client.deleteQueue({ queue: 'mail' });
    await asked.promise;
    server.server.drain();
    using health = watchHealth(client.raw);
    await health.said('NOT_SERVING');
    expect(errorInfoOf(await health.ended).reason).toBe('SHUTTING_DOWN');
    deleted.resolve(1);
    await call;
  });

  test('reports if its port is taken', async () => {
    await using server = await startNodeServer(await openWatchedEngine());
    await expect(startNodeServer(await openWatchedEngine(), { port: server.port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
  });
});
