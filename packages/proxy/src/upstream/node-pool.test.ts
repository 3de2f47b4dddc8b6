import { promisify } from 'node:util';
import { type handleUnaryCall, Server, ServerCredentials, status } from '@grpc/grpc-js';
import {
  encodeToBuffer,
  GetTasksRequest,
  LeaseTasksRequest,
  PeekTasksRequest,
  TaskMasterServiceService,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { UnaryCaller } from '@taskmaster/server/calls';
import { aGet, aLease, aPeek, noService, startServer, type TestServer } from '@taskmaster/server/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type RoutedStreams, watchRoutedStreams } from '../testing/routed-streams.ts';
import { NodePool } from './node-pool.ts';
import type { UnaryMethod } from './upstream.ts';

const GET = encodeToBuffer(GetTasksRequest, aGet());
const PEEK = encodeToBuffer(PeekTasksRequest, aPeek());
const LEASE = encodeToBuffer(LeaseTasksRequest, aLease({ waitMs: 60_000 }));

const NOTHING = new Uint8Array(0);

let server: TestServer;
let pool: NodePool;
let routed: RoutedStreams;
let asked: PromiseWithResolvers<void>;
let answer: PromiseWithResolvers<Uint8Array>;
beforeEach(async () => {
  [asked, answer] = [Promise.withResolvers(), Promise.withResolvers()];
  const untilTold = (): Promise<Uint8Array> => {
    asked.resolve();
    return answer.promise;
  };
  server = await startServer({
    ...noService,
    unary: { GetTasks: untilTold, LeaseTasks: untilTold, PeekTasks: untilTold },
  });
  pool = new NodePool();
  // So that a timeout counts the call alone.
  await pool.isReachable(address());
  routed = watchRoutedStreams();
});
afterEach(async () => {
  answer.resolve(NOTHING);
  routed[Symbol.dispose]();
  pool[Symbol.dispose]();
  await server[Symbol.asyncDispose]();
});

const address = (): string => `127.0.0.1:${server.port}`;

const send = (method: UnaryMethod, request: Uint8Array, options: { timeoutMs?: number; signal?: AbortSignal }) =>
  pool.unary(address(), method, request, {
    ...options,
    peer: { address: 'me:1', principal: '' },
    access: unlimitedAccess,
  });

test('a call has the span of its caller', async () => {
  let seen: UnaryCaller | undefined;
  answer.resolve(NOTHING);
  await using other = await startServer({
    ...noService,
    unary: {
      GetTasks: async (_request, caller) => {
        seen = caller;
        return NOTHING;
      },
    },
  });
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const options = { peer: { address: 'me:1', principal: '', traceparent }, access: unlimitedAccess };
  await pool.unary(`127.0.0.1:${other.port}`, 'GetTasks', GET, options);
  expect(seen?.traceparent).toBe(traceparent);
});

test('a call whose deadline passes is ended by the node, not reset', async () => {
  await expect(send('GetTasks', GET, { timeoutMs: 50 })).rejects.toMatchObject({
    name: 'LostError',
    kind: 'deadline',
    maybeApplied: true,
  });
  await expect.poll(() => routed.closed).toBe(1);
  expect(routed.reset).toEqual([]);
});

test('a call may have been carried out if gRPC refuses a message without a reason of the node: its answer', async () => {
  const plain = new Server();
  const details = 'Received message larger than max';
  const getTasks: handleUnaryCall<unknown, unknown> = (_call, done) =>
    done({ code: status.RESOURCE_EXHAUSTED, details });
  plain.addService(TaskMasterServiceService, { getTasks });
  const bind = promisify(plain.bindAsync.bind(plain));
  const port = await bind('127.0.0.1:0', ServerCredentials.createInsecure());
  const options = { peer: { address: 'me:1', principal: '' }, access: unlimitedAccess };
  const call = pool.unary(`127.0.0.1:${port}`, 'GetTasks', GET, options);
  await expect(call).rejects.toMatchObject({ name: 'LostError', kind: 'broken', maybeApplied: true });
  plain.forceShutdown();
});

test('a cancelled call continues to its end at the node', async () => {
  const giveUp = new AbortController();
  const call = send('PeekTasks', PEEK, { signal: giveUp.signal });
  await asked.promise;
  giveUp.abort();
  answer.resolve(NOTHING);
  expect(await call).toHaveLength(0);
  await expect.poll(() => routed.closed).toBe(1);
  expect(routed.reset).toEqual([]);
});

test.each(['by its caller', 'by its deadline'])('a lease that is given up %s does not wait on', async (way) => {
  const giveUp = new AbortController();
  const call = send('LeaseTasks', LEASE, way === 'by its caller' ? { signal: giveUp.signal } : { timeoutMs: 50 });
  const ended = expect(call).rejects.toMatchObject({ kind: way === 'by its caller' ? 'cancelled' : 'deadline' });
  await asked.promise;
  giveUp.abort();
  await ended;
  await expect.poll(() => routed.closed).toBe(1);
});
