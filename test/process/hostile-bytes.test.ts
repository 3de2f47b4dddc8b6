import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
import { status } from '@grpc/grpc-js';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { TaskMasterServiceService } from '@taskmaster/proto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { frame, grpcMessage, PREFACE, SETTINGS } from '../support/http2-frames.ts';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';

/* For any input the node sends a status or closes the connection, changes nothing, and serves other clients meanwhile. */
let node: RunningNode;
/** Sends no pings for minutes. Another one would close every connection that does not answer them, whatever it has sent. */
let patient: RunningNode;
let others: TaskMasterClient;
beforeAll(async () => {
  node = await startNode({
    asShipped: true,
    flags: ['--grpc-keepalive-time-ms=1000', '--grpc-keepalive-timeout-ms=500'],
  });
  patient = await startNode();
  others = await connect(node.endpoint);
}, 60_000);
afterAll(async () => {
  await others.close();
  expect(await node.stop()).toMatchObject({ code: 0 });
  await node[Symbol.asyncDispose]();
  await patient[Symbol.asyncDispose]();
}, 60_000);
afterEach(async () => {
  const jobs = others.queue('bystanders');
  await jobs.enqueue('still served');
  const [task] = await jobs.lease({ wait: '5s' });
  await task?.complete();
  expect(await others.stats()).toMatchObject({ totals: { queues: 0 } });
  expect(node.process.stderr).not.toMatch(/"level":"(error|fatal)"/);
});

/** Opens a connection, sends these bytes, and waits. Resolves when the node has closed it. */
async function closedAfter(at: RunningNode, ...said: (string | Uint8Array)[]): Promise<void> {
  const socket = await open(at);
  for (const bytes of said) socket.write(bytes);
  await ended(socket);
}

async function open({ grpcPort }: RunningNode = node): Promise<Socket> {
  // Errors of writes after the node has closed the connection do not matter.
  const socket = connectSocket(grpcPort, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

async function ended(socket: Socket): Promise<void> {
  socket.resume();
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
}

describe('a connection that does not speak HTTP/2 is closed', () => {
  test.each([
    ['HTTP/1.1', `GET / HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    ['HTTP/1.1 with a body', `POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello`],
    ['an upgrade', 'GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n\r\n'],
    ['TLS', Buffer.from('16030100c8010000c40303', 'hex')],
    ['nothing but zeros', Buffer.alloc(4096)],
    ['a preface with a flipped bit', PREFACE.replace('SM', 'SN')],
  ])('%s', async (_case, bytes) => {
    // Some errors are found only when there are enough bytes.
    await closedAfter(patient, bytes, Buffer.alloc(64));
  });

  test.each([1, 2, 3, 4])('random bytes, seed %i', async (seed) => {
    const random = new SeededRandom(seed);
    for (let round = 0; round < 25; round++) await closedAfter(patient, random.bytes(64 + random.int(2000)));
  });
});

describe('frames that break HTTP/2 end their connection', () => {
  test.each([
    ['data on a stream that was never opened', frame(0, 0, 1, Buffer.from('x'))],
    ['headers that cannot be decompressed', frame(1, 4, 1, Buffer.alloc(40, 0xff))],
    ['a settings frame of a wrong length', frame(4, 0, 0, Buffer.alloc(5))],
    ['a window update of zero', frame(8, 0, 0, Buffer.alloc(4))],
    ['a frame larger than allowed', frame(0, 0, 1, Buffer.alloc(1 << 20))],
    ['a continuation without headers', frame(9, 4, 1, Buffer.from('x'))],
  ])('%s', async (_case, bytes) => {
    await closedAfter(patient, PREFACE, SETTINGS, bytes);
  });

  test.each([1, 2, 3, 4])('random frames, seed %i', async (seed) => {
    const random = new SeededRandom(seed);
    for (let round = 0; round < 25; round++) {
      const socket = await open();
      socket.write(PREFACE);
      socket.write(SETTINGS);
      for (let count = 0; count < 20; count++) {
        socket.write(frame(random.int(10), random.int(256), random.int(4), random.bytes(random.int(60))));
      }
      socket.end();
      await ended(socket);
    }
  });
});

describe('a connection that stops sending', () => {
  test.each([
    ['before its first byte', []],
    ['after its preface', [PREFACE]],
    ['in the middle of a frame', [PREFACE, SETTINGS, SETTINGS.subarray(0, 5)]],
    ['in the middle of a request', [PREFACE, SETTINGS, frame(1, 0, 1, Buffer.from([0x83]))]],
  ])('%s does not answer a ping, and is closed', async (_case, said) => {
    await closedAfter(node, ...said);
  });
});

interface Answer {
  /** HTTP status. */
  readonly http: number;
  /** gRPC status; undefined if the answer has none. */
  readonly grpc: number | undefined;
}

/** One call with any body, even one that a gRPC library would not send. */
async function post(
  session: ClientHttp2Session,
  path: string,
  body: Uint8Array,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const stream = session.request({
    [constants.HTTP2_HEADER_METHOD]: 'POST',
    [constants.HTTP2_HEADER_PATH]: path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
  let grpc: number | undefined;
  let http = 0;
  const read = (from: Record<string, unknown>): void => {
    if (from['grpc-status'] !== undefined) grpc = Number(from['grpc-status']);
  };
  stream.on('response', (head) => {
    http = Number(head[constants.HTTP2_HEADER_STATUS]);
    read(head);
  });
  stream.on('trailers', read);
  // A stream may be reset instead of answered.
  stream.on('error', () => {});
  stream.end(body);
  stream.resume();
  await once(stream, 'close');
  return { http, grpc };
}

describe('a call that breaks gRPC is refused', () => {
  let session: ClientHttp2Session;
  beforeAll(async () => {
    session = connectHttp2(`http://${node.endpoint}`);
    await once(session, 'connect');
  });
  afterAll(() => session.destroy());

  const every = Object.values(TaskMasterServiceService).map(({ path }) => path);
  const update = TaskMasterServiceService.updateTasks.path;

  test.each(every)('%s with random bytes for a message', async (path) => {
    const random = new SeededRandom(7);
    for (let round = 0; round < 40; round++) {
      const answer = await post(session, path, grpcMessage(random.bytes(1 + random.int(300))));
      expect(answer.http).toBe(200);
      // Random bytes may be a valid message; then the node refuses its contents, or finds no such task.
      expect(answer.grpc).toBeDefined();
      expect([status.UNKNOWN, status.INTERNAL]).not.toContain(answer.grpc);
    }
  });

  test.each([
    ['a length beyond the message', Buffer.from([0, 0, 0, 1, 0, 1, 2, 3])],
    ['a length beyond every limit', Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3])],
    ['a message with the flag of compression', Buffer.from([1, 0, 0, 0, 2, 1, 2])],
    ['half a header', Buffer.from([0, 0])],
    ['no message at all', Buffer.alloc(0)],
    ['two messages', Buffer.concat([grpcMessage(Buffer.alloc(0)), grpcMessage(Buffer.alloc(0))])],
  ])('%s', async (_case, body) => {
    const answer = await post(session, update, body);
    expect(answer.grpc).not.toBe(status.OK);
  });

  test.skipIf(!hasFigures).each([
    ['an update', update],
    ['a stream', TaskMasterServiceService.stream.path],
  ])('%s of 4 GiB, which is not kept in memory', async (_case, path) => {
    const MIB = 1024 * 1024;
    const before = figuresOf(node.pid).rssBytes;
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: 'POST',
      [constants.HTTP2_HEADER_PATH]: path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', () => {}).resume();
    const answered = once(stream, 'response');
    stream.write(Buffer.from([0, 0xff, 0xff, 0xff, 0xff]));
    const sentMib = 512;
    for (let sent = 0; sent < sentMib; sent++) {
      if (!stream.write(Buffer.alloc(MIB))) await once(stream, 'drain');
    }
    expect((await answered)[0]).toMatchObject({ 'grpc-status': String(status.INVALID_ARGUMENT) });
    stream.close();
    // The limit leaves room for garbage that is not collected yet.
    expect(figuresOf(node.pid).rssBytes - before).toBeLessThan((sentMib / 2) * MIB);
  });

  test.each([
    ['a method that does not exist', '/taskmaster.v1.TaskMasterService/Nothing', {}, status.UNIMPLEMENTED],
    ['a service that does not exist', '/nothing/at/all', {}, status.UNIMPLEMENTED],
    ['an invalid deadline', update, { 'grpc-timeout': 'soon' }, undefined],
    ['an encoding that does not exist', update, { 'grpc-encoding': 'rot13' }, undefined],
  ])('%s', async (_case, path, headers, code) => {
    const answer = await post(session, path, grpcMessage(Buffer.from([0x0a, 0])), headers);
    expect(answer.grpc).not.toBe(status.OK);
    if (code !== undefined) expect(answer.grpc).toBe(code);
  });

  test('a call with another content type', async () => {
    const answer = await post(session, update, Buffer.from('{}'), { 'content-type': 'application/json' });
    expect(answer.grpc).not.toBe(status.OK);
    expect(answer.http).not.toBe(200);
  });

  test('interrupted calls leave nothing behind', async () => {
    for (let round = 0; round < 200; round++) {
      const stream = session.request({
        [constants.HTTP2_HEADER_METHOD]: 'POST',
        [constants.HTTP2_HEADER_PATH]: every[round % every.length] ?? update,
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      stream.on('error', () => {});
      stream.write(Buffer.from([0, 0, 0, 1, 0]));
      stream.close(constants.NGHTTP2_CANCEL);
      await once(stream, 'close');
    }
    await eventually(async () =>
      expect(await post(session, update, grpcMessage(Buffer.alloc(0)))).toMatchObject({ http: 200 }),
    );
  });
});
