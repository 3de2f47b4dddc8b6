import { once } from 'node:events';
import { type ClientReadableStream, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { type BackupPartitionResponse, BackupServiceClient } from '@taskmaster/proto';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type BackupHandler, createBackupService, encodedBackup } from '../backup-service.ts';
import { errorInfoOf } from '../testing/grpc-client.ts';
import { noService, startServer, type TestServer } from '../testing/start-server.ts';
import type { StreamingService } from './streaming-service.ts';

const PART_BYTES = 256 * 1024;

const part = (number: number): BackupPartitionResponse => ({
  part: { $case: 'end', value: { lastTicket: number, tasks: 0, queues: 0 } },
});

const largePart = (): BackupPartitionResponse => ({
  part: {
    $case: 'atoms',
    value: { atoms: [{ ticket: 1, entry: Buffer.alloc(PART_BYTES), continues: false }] },
  },
});

interface SetUp {
  readonly readTimeoutMs?: number;
  readonly maxConcurrentCallsPerConnection?: number;
}

async function setUp(backup: BackupHandler, options: SetUp = {}, change: Partial<StreamingService> = {}) {
  const service = { ...createBackupService(encodedBackup(backup)), ...change };
  const server = await startServer(noService, options, [], [service]);
  onTestFinished(() => server[Symbol.asyncDispose]());
  const client = new BackupServiceClient(`127.0.0.1:${server.port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const call = (): ClientReadableStream<BackupPartitionResponse> =>
    client.backupPartition({ partition: 7, unchangedSince: undefined, maxBytesPerSecond: 0 });
  return { server, call };
}

const readAll = (call: ClientReadableStream<BackupPartitionResponse>): Promise<BackupPartitionResponse[]> =>
  call.toArray();

/** Reads the first message and no further ones: before it, grpc-js takes what comes without a bound. */
async function readOne(call: ClientReadableStream<BackupPartitionResponse>): Promise<void> {
  await once(call, 'readable');
  call.read();
}

const failureOf = (reading: Promise<unknown>): Promise<ServiceError> =>
  reading.then(
    () => expect.unreachable('the call has succeeded'),
    (error: ServiceError) => error,
  );

/** An endless backup of large parts that counts what it made. */
function endless() {
  const made = { parts: 0, over: false };
  const backup: BackupHandler = async function* () {
    try {
      for (;;) {
        made.parts++;
        yield largePart();
      }
    } finally {
      made.over = true;
    }
  };
  return { made, backup };
}

/** Waits for its caller to leave, behind one part. */
function untilGone(): BackupHandler {
  return async function* (_, caller) {
    caller.beginWaiting?.(0);
    yield part(1);
    await new Promise<void>((resolve) => {
      caller.signal?.addEventListener('abort', resolve);
      if (caller.gone) resolve();
    });
  };
}

/** A call that has read its first part. */
async function waitingCall(
  call: () => ClientReadableStream<BackupPartitionResponse>,
): Promise<ClientReadableStream<BackupPartitionResponse>> {
  const stream = call();
  stream.on('error', () => {});
  await once(stream, 'data');
  return stream;
}

/** The default of a second is too short on a busy machine. */
const PATIENCE = { timeout: 20_000 };

const ended = (server: TestServer) => vi.waitUntil(() => server.ended.length > 0, PATIENCE);

describe('a call with a streamed answer', () => {
  test('delivers all messages in order, and the handler gets the request and its caller', async () => {
    const asked: object[] = [];
    const { server, call } = await setUp(async function* (request, { address, routed }) {
      asked.push({ request, address, routed });
      for (let number = 0; number < 100; number++) yield part(number);
    });
    const parts = await readAll(call());
    expect(parts).toEqual(Array.from({ length: 100 }, (_, number) => part(number)));
    expect(asked).toMatchObject([{ request: { partition: 7 }, address: expect.stringMatching(/^127/), routed: false }]);
    expect(server.ended).toEqual([{ method: 'BackupPartition', reason: undefined }]);
  });

  test('that is refused after some messages ends with these messages and the reason', async () => {
    const { server, call } = await setUp(async function* () {
      yield part(1);
      throw new Refusal('BACKUP_BROKEN', 'the partition moved', { metadata: { partition: '7' } });
    });
    const stream = call();
    const parts: BackupPartitionResponse[] = [];
    stream.on('data', (message: BackupPartitionResponse) => parts.push(message));
    const error = await new Promise<ServiceError>((resolve) => stream.once('error', resolve));
    expect(parts).toEqual([part(1)]);
    expect(error).toMatchObject({ code: status.UNAVAILABLE, details: 'the partition moved' });
    expect(errorInfoOf(error)).toMatchObject({ reason: 'BACKUP_BROKEN', metadata: { partition: '7' } });
    expect(server.ended).toEqual([{ method: 'BackupPartition', reason: 'BACKUP_BROKEN' }]);
  });

  test('that fails internally hides the cause from the client and logs it', async () => {
    const { server, call } = await setUp(async function* () {
      yield part(1);
      throw new Error('a secret');
    });
    const error = await failureOf(readAll(call()));
    expect(error).toMatchObject({ code: status.INTERNAL });
    expect(error.details).not.toContain('secret');
    expect(server.log.lines).toMatchObject([{ level: 'error', details: { err: { message: 'a secret' } } }]);
  });

  test('makes only a few messages ahead of the reader, and continues when they are read', async () => {
    const { made, backup } = endless();
    const { server, call } = await setUp(backup);
    const stream = call();
    stream.once('error', () => {});
    await readOne(stream);
    let before = 0;
    await vi.waitUntil(
      () => {
        const isStill = made.parts === before;
        before = made.parts;
        return isStill;
      },
      { ...PATIENCE, interval: 200 },
    );
    // What the client's own buffers hold, and half a MiB here.
    expect(made.parts).toBeLessThan(30);
    expect(server.server.unreadReplyBytes).toBeLessThan(4 * PART_BYTES);
    expect(server.server.unreadReplyBytes).toBeGreaterThan(PART_BYTES);
    stream.resume();
    await vi.waitUntil(() => made.parts > before + 100, PATIENCE);
    stream.cancel();
    await vi.waitUntil(() => server.server.unreadReplyBytes === 0, PATIENCE);
  });

  test('that its client cancels ends its handler', async () => {
    const { made, backup } = endless();
    const { server, call } = await setUp(backup);
    const stream = call();
    stream.once('error', () => {});
    stream.once('data', () => stream.cancel());
    await ended(server);
    expect(made.over).toBe(true);
    expect(server.ended).toEqual([{ method: 'BackupPartition', reason: 'CANCELLED' }]);
  });

  test('that its client cancels while no message is ready wakes the handler', async () => {
    const waiting = Promise.withResolvers<void>();
    const { server, call } = await setUp(async function* (_, { signal }) {
      yield part(1);
      await new Promise<void>((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(new Refusal('CANCELLED', 'it was cancelled')));
        waiting.resolve();
      });
    });
    const stream = call();
    stream.once('error', () => {});
    stream.resume();
    await waiting.promise;
    stream.cancel();
    await ended(server);
    expect(server.ended).toEqual([{ method: 'BackupPartition', reason: 'CANCELLED' }]);
  });

  test('whose client does not read for too long is refused', async () => {
    const { made, backup } = endless();
    const { server, call } = await setUp(backup, { readTimeoutMs: 100 });
    const stream = call();
    await readOne(stream);
    const failed = new Promise<ServiceError>((resolve) => stream.once('error', resolve));
    await ended(server);
    expect(made.over).toBe(true);
    expect(server.ended).toEqual([{ method: 'BackupPartition', reason: 'BACKUP_TOO_SLOW' }]);
    stream.resume();
    expect(errorInfoOf(await failed).reason).toBe('BACKUP_TOO_SLOW');
  });

  test('ends when the server drains, even if it begins later', async () => {
    const { made, backup } = endless();
    const { server, call } = await setUp(backup);
    const stream = call();
    const failed = new Promise<ServiceError>((resolve) => stream.once('error', resolve));
    stream.once('data', () => server.server.drain());
    stream.resume();
    expect(errorInfoOf(await failed).reason).toBe('SHUTTING_DOWN');
    expect(made.over).toBe(true);
    expect(errorInfoOf(await failureOf(readAll(call()))).reason).toBe('SHUTTING_DOWN');
  });

  test('of a service that ends complete gets OK when the server drains, also one that begins afterwards', async () => {
    const { server, call } = await setUp(untilGone(), {}, { endsComplete: true });
    const stream = call();
    stream.once('data', () => server.server.drain());
    expect(await readAll(stream)).toEqual([part(1)]);
    expect(await readAll(call())).toEqual([]);
    await vi.waitUntil(() => server.ended.length === 2, PATIENCE);
    expect(server.ended.map(({ reason }) => reason)).toEqual([undefined, undefined]);
  });

  test('that waits counts among the waiting calls of its connection until it ends', async () => {
    const { server, call } = await setUp(untilGone(), { maxConcurrentCallsPerConnection: 4 });
    const first = await waitingCall(call);
    await waitingCall(call);
    const error = await failureOf(readAll(call()));
    expect(error).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect(errorInfoOf(error)).toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '2' } });
    first.cancel();
    await vi.waitUntil(() => server.ended.length === 2, PATIENCE);
    await waitingCall(call);
  });

  test('with a damaged request is refused', async () => {
    const { server } = await setUp(endless().backup);
    const client = new BackupServiceClient(`127.0.0.1:${server.port}`, credentials.createInsecure());
    onTestFinished(() => client.close());
    const { path } = client.backupPartition as unknown as { readonly path: string };
    const asIs = (bytes: Buffer): Buffer => bytes;
    const stream = client.makeServerStreamRequest(path, asIs, asIs, Buffer.from([0xff, 0xff]));
    const error = await failureOf(stream.toArray());
    expect(errorInfoOf(error).reason).toBe('MALFORMED_REQUEST');
  });
});
