import type { ServiceError } from '@grpc/grpc-js';
import { isTaskMasterError } from '@taskmaster/client/transport';
import { keptLog } from '@taskmaster/engine/testing';
import { statusOfReason } from '@taskmaster/proto';
import {
  badRequests,
  errorInfoOf,
  type GrpcClient,
  grpcClient,
  operationsOver,
  type TestServer,
} from '@taskmaster/server/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InProcessTransport } from './in-process-transport.ts';
import { createHandlers } from './service/handlers.ts';
import { startNodeServer } from './testing/start-node-server.ts';
import { openWatchedEngine, type WatchedEngine } from './testing/watched-engine.ts';

async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.unreachable('the request was accepted'),
    (error: unknown) => error,
  );
}

describe('a bad request over gRPC', () => {
  let engine: WatchedEngine;
  let server: TestServer;
  let client: GrpcClient;
  beforeAll(async () => {
    engine = await openWatchedEngine();
    server = await startNodeServer(engine);
    client = grpcClient(server.port);
  });
  afterAll(async () => {
    client[Symbol.dispose]();
    await server[Symbol.asyncDispose]();
  });

  test.each(badRequests)('$what: $reason', async ({ reason, field, call }) => {
    const error = (await rejectionOf(call(client))) as ServiceError;
    const info = errorInfoOf(error);
    expect(info).toMatchObject({ domain: 'taskmaster', reason });
    expect(error.code).toBe(statusOfReason[reason]);
    // A message over its size is refused before its fields are looked at.
    if (reason !== 'REQUEST_TOO_LARGE') {
      expect(info.metadata.field).toBe(field);
      expect(error.details).toContain(field);
    }
    expect(engine.asked).toEqual([]);
    expect(server.log.lines).toEqual([]);
  });
});

describe('a bad request in process', () => {
  const log = keptLog();
  let engine: WatchedEngine;
  let transport: InProcessTransport;
  beforeAll(async () => {
    engine = await openWatchedEngine();
    const handlers = createHandlers(engine, log);
    transport = new InProcessTransport({ handlers, backup: async function* () {}, log, close: async () => {} });
  });

  const operations = operationsOver((method, request) => transport.unary(method, request));

  test.each(badRequests)('$what: $reason', async ({ reason, field, call }) => {
    const error = await rejectionOf(call(operations));
    expect(isTaskMasterError(error)).toBe(true);
    expect(error).toMatchObject({ reason, code: statusOfReason[reason], metadata: { field }, retryable: false });
    expect(engine.asked).toEqual([]);
    expect(log.lines).toEqual([]);
  });
});
