import { once } from 'node:events';
import { type ClientHttp2Session, connect } from 'node:http2';
import { promisify } from 'node:util';
import { Refusal } from '@taskmaster/engine/domain';
import { TaskMasterServiceService } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { noService, startServer } from '../testing/start-server.ts';
import { AVERAGED_CALLS, CONNECTION_WINDOW_BYTES, LARGE_CALL_BYTES, WIDE_WINDOW_BYTES } from './receive-windows.ts';

/** What HTTP/2 gives each call. */
const CALL_WINDOW_BYTES = 65_535;

const refuse = () => Promise.reject(new Refusal('MALFORMED_REQUEST', 'no request'));

/** Opens a call and leaves it open. */
const call = (session: ClientHttp2Session, { path }: { readonly path: string }) =>
  session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' });

/**
 * Opens this many calls, then sends a message with each. The bytes are no valid request, so the server answers with errors.
 */
async function callsWith(session: ClientHttp2Session, count: number, bytes: number): Promise<void> {
  const message = Buffer.alloc(5 + bytes);
  message.writeUInt32BE(bytes, 1);
  const calls = Array.from({ length: count }, () => call(session, TaskMasterServiceService.updateTasks));
  await pinged(session);
  const ended = calls.map((made) => once(made.resume(), 'end'));
  for (const made of calls) made.end(message);
  await Promise.all(ended);
}

/** Resolves when everything the server has sent so far has arrived. */
const pinged = (session: ClientHttp2Session) =>
  promisify((done: (error: Error | null) => void) => session.ping(done))();

/** What the server lets this connection, and each call of it, have on its way. */
const windowsOf = ({ state, remoteSettings }: ClientHttp2Session) => ({
  connection: state.remoteWindowSize,
  call: remoteSettings.initialWindowSize,
});

/** A connection to a server. */
async function setUp() {
  const server = await startServer({ ...noService, unary: { UpdateTasks: refuse } });
  const session = connect(`http://127.0.0.1:${server.port}`);
  await once(session, 'remoteSettings');
  return {
    session,
    async [Symbol.asyncDispose]() {
      session.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}

describe('the receive windows', () => {
  test('are wide if there is a stream', async () => {
    await using it = await setUp();
    const { session } = it;
    call(session, TaskMasterServiceService.stream);
    await once(session, 'remoteSettings');
    await pinged(session);
    expect(windowsOf(session)).toEqual({ connection: WIDE_WINDOW_BYTES, call: WIDE_WINDOW_BYTES });
  });

  test('are a little more than one read of a socket if there are only other calls', async () => {
    await using it = await setUp();
    const { session } = it;
    const leaseTasks = call(session, TaskMasterServiceService.leaseTasks);
    leaseTasks.end();
    // Not a message of gRPC: answered with an error.
    await once(leaseTasks.resume(), 'end');
    await pinged(session);
    expect(windowsOf(session)).toEqual({ connection: CONNECTION_WINDOW_BYTES, call: CALL_WINDOW_BYTES });
  });

  test('grow with the first stream of a connection, and stay', async () => {
    await using it = await setUp();
    const { session } = it;
    for (const method of ['leaseTasks', 'stream', 'leaseTasks'] as const) {
      call(session, TaskMasterServiceService[method]);
      await pinged(session);
    }
    expect(windowsOf(session)).toEqual({ connection: WIDE_WINDOW_BYTES, call: WIDE_WINDOW_BYTES });
  });

  test('grow if calls are large', async () => {
    await using it = await setUp();
    const { session } = it;
    for (let made = 0; made <= AVERAGED_CALLS; made += 50) await callsWith(session, 50, LARGE_CALL_BYTES);
    await pinged(session);
    const { connection, call } = windowsOf(session);
    expect(call).toBe(WIDE_WINDOW_BYTES);
    // Less than half of it is used up without a word.
    expect(connection).toBeGreaterThan(WIDE_WINDOW_BYTES / 2);
  });

  test('do not grow if calls are small, even if many are opened before the first one is sent', async () => {
    await using it = await setUp();
    const { session } = it;
    for (let made = 0; made < 3_000; made += 500) await callsWith(session, 500, 1024);
    await pinged(session);
    const { connection, call } = windowsOf(session);
    expect(call).toBe(CALL_WINDOW_BYTES);
    expect(connection).toBeLessThanOrEqual(CONNECTION_WINDOW_BYTES);
  });
});
