import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { ErrorInfo, limits, Status, TaskMasterServiceService } from '@taskmaster/proto';
import { grpcClient } from '@taskmaster/server/testing';
import { expect, onTestFinished, test } from 'vitest';
import { startNodeServer } from '../../testing/start-node-server.ts';
import { openWatchedEngine } from '../../testing/watched-engine.ts';

const MIB = 1024 * 1024;
const { updateTasks, stream } = TaskMasterServiceService;

async function start(options: Parameters<typeof startNodeServer>[1] = {}) {
  const server = await startNodeServer(await openWatchedEngine(), {
    maxReceivingBytes: 16 * MIB,
    ...options,
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return {
    server,
    open: (): ClientHttp2Session => {
      const session = connect(`http://127.0.0.1:${server.port}`).on('error', () => {});
      onTestFinished(() => session.destroy());
      return session;
    },
  };
}

interface Stalled {
  readonly made: ClientHttp2Stream;
  /** Resolves with the status when the server refuses the call. */
  readonly refused: Promise<{ readonly code: number; readonly reason: string }>;
}

/** A call that sends `bytes` bytes of a message of 4 MiB, and nothing more. */
function stall(
  session: ClientHttp2Session,
  bytes: number,
  path: string = updateTasks.path,
  said: number = limits.requestBytes,
): Stalled {
  const made = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  made.on('error', () => {});
  made.resume();
  const head = Buffer.alloc(5);
  head.writeUInt32BE(said, 1);
  made.write(Buffer.concat([head, Buffer.alloc(bytes)]));
  const refused = new Promise<Awaited<Stalled['refused']>>((resolve) => {
    const done = (headers: object): void => {
      const { 'grpc-status': code, 'grpc-status-details-bin': details = '' } = headers as Record<string, string>;
      if (code === undefined) return;
      const [info] = Status.decode(Buffer.from(details, 'base64')).details;
      resolve({ code: Number(code), reason: ErrorInfo.decode(info?.value ?? Buffer.alloc(0)).reason });
    };
    made.on('response', done);
    made.on('trailers', done);
  });
  return { made, refused };
}

const OVERLOADED = { code: 8, reason: 'OVERLOADED' };

test.each<[string, string, number]>([
  ['of a message that is not complete', updateTasks.path, limits.requestBytes],
  ['of a message of a stream that is not complete', stream.path, limits.requestBytes],
  ['of a call without its end', updateTasks.path, MIB],
])('bytes %s count until the call ends', async (_what, path, said) => {
  const { server, open } = await start();
  const { made } = stall(open(), MIB, path, said);
  await expect.poll(() => server.server.receivingBytes).toBeGreaterThanOrEqual(MIB);
  expect(server.server.receivingBytes).toBeLessThan(1.1 * MIB);
  made.close();
  await expect.poll(() => server.server.receivingBytes).toBe(0);
});

test('above the limit of a connection, its oldest calls are refused, and calls of others are served', async () => {
  const { server, open } = await start();
  const session = open();
  const calls = Array.from({ length: 20 }, () => stall(session, limits.requestBytes - 100));
  expect(await Promise.race(calls.map(({ refused }) => refused))).toEqual(OVERLOADED);
  using client = grpcClient(server.port);
  await client.deleteQueue({ queue: 'mail' });
  const sent = (): number => calls.filter(({ made }) => !made.closed && made.writableLength === 0).length;
  await expect.poll(sent).toBe(1);
  expect(server.server.receivingBytes).toBeLessThan(8 * MIB);
  await expect.poll(() => server.ended.filter(({ reason }) => reason === 'OVERLOADED').length).toBe(19);
});

test('above the limit of all, the connection with the most bytes loses a call', async () => {
  const { server, open } = await start();
  const small = stall(open(), 2 * MIB);
  const large = [open(), open(), open()].flatMap((session) => [stall(session, 3.5 * MIB), stall(session, 3.5 * MIB)]);
  const refused = await Promise.race([...large, small].map(({ refused }) => refused));
  expect(refused).toEqual(OVERLOADED);
  await expect.poll(() => server.server.receivingBytes).toBeLessThan(16 * MIB);
  expect(small.made.closed).toBe(false);
});

test.each([
  ['unary', updateTasks.path],
  ['stream', stream.path],
])('a request that takes too long is refused: %s', async (_what, path) => {
  const { server, open } = await start({ receiveTimeoutMs: 100 });
  const { refused } = stall(open(), 1_000, path);
  expect(await refused).toEqual({ code: 4, reason: 'DEADLINE_EXCEEDED' });
  await expect.poll(() => server.server.receivingBytes).toBe(0);
});
