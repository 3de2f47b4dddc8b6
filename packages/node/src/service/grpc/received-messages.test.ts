import { type ClientHttp2Session, connect } from 'node:http2';
import { gzipSync } from 'node:zlib';
import { type ServiceError, status } from '@grpc/grpc-js';
import { ErrorInfo, limits, Status, TaskMasterServiceService } from '@taskmaster/proto';
import { anEnqueue, anUpdate, errorInfoOf, grpcClient, type TestServer } from '@taskmaster/server/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startNodeServer } from '../../testing/start-node-server.ts';
import { openWatchedEngine, type WatchedEngine } from '../../testing/watched-engine.ts';

const MIB = 1024 * 1024;
let engine: WatchedEngine;
let server: TestServer;
let session: ClientHttp2Session;
beforeEach(async () => {
  engine = await openWatchedEngine();
  server = await startNodeServer(engine);
  session = connect(`http://127.0.0.1:${server.port}`).on('error', () => {});
});
afterEach(async () => {
  session.destroy();
  await server[Symbol.asyncDispose]();
});

const { updateTasks, stream } = TaskMasterServiceService;

interface Answer {
  readonly code: number;
  readonly info: ErrorInfo;
  /** Bytes of the request that were sent until the answer came. */
  readonly sent: number;
}

/** A call that announces a message of this size and sends at most `most` bytes of it. */
function call(path: string, bytes: number, most: number, head: Buffer = headOf(bytes)): Promise<Answer> {
  const made = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    'grpc-encoding': 'gzip',
    te: 'trailers',
  });
  made.on('error', () => {});
  made.resume();
  let sent = 0;
  const chunk = Buffer.alloc(64 * 1024);
  const send = (): void => {
    while (!made.destroyed && !made.writableEnded && sent < most) {
      sent += chunk.length;
      if (!made.write(chunk)) return;
    }
  };
  made.on('drain', send);
  made.write(head);
  send();
  return new Promise((resolve) => {
    made.on('response', (headers) => {
      const details = Buffer.from(String(headers['grpc-status-details-bin'] ?? ''), 'base64');
      const [info] = Status.decode(details).details;
      made.close();
      resolve({ code: Number(headers['grpc-status']), info: ErrorInfo.decode(info?.value ?? details), sent });
    });
  });
}

function headOf(bytes: number): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes, 1);
  return head;
}

describe('a message that is too large, or may become it', () => {
  const refused = { domain: 'taskmaster', reason: 'REQUEST_TOO_LARGE' };

  test.each([5 * MIB + 1, 32 * MIB])('of %i bytes is refused with the reason', async (bytes) => {
    using client = grpcClient(server.port);
    const enqueue = anEnqueue({ data: Buffer.alloc(bytes) });
    const error = await client.updateTasks(anUpdate({ enqueue: [enqueue] })).catch((e: ServiceError) => e);
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT });
    const { metadata, ...info } = errorInfoOf(error as ServiceError);
    expect(info).toEqual(refused);
    expect(metadata.limit).toBe(String(limits.requestBytes));
    expect(Number(metadata.value)).toBeGreaterThan(bytes);
    expect(engine.asked).toEqual([]);
  });

  test.each([
    ['an update', updateTasks.path],
    ['a stream', stream.path],
  ])('is refused as soon as it declares its length: %s', async (_what, path) => {
    const { code, info, sent } = await call(path, 0xffff_ffff, 1024 * MIB);
    expect({ code, info }).toMatchObject({ code: status.INVALID_ARGUMENT, info: refused });
    expect(info.metadata).toEqual({ value: String(0xffff_ffff), limit: String(limits.requestBytes) });
    expect(sent).toBeLessThan(64 * MIB);
  });

  test.each([
    ['an update', updateTasks.path],
    ['a stream', stream.path],
  ])('is refused if it is compressed, however small it is: %s', async (_what, path) => {
    const packed = gzipSync(Buffer.alloc(1024));
    const head = headOf(packed.length);
    head[0] = 1;
    const { code, info } = await call(path, packed.length, 0, Buffer.concat([head, packed]));
    const reason = 'COMPRESSED_REQUEST';
    expect({ code, info }).toMatchObject({ code: status.UNIMPLEMENTED, info: { domain: 'taskmaster', reason } });
  });
});
