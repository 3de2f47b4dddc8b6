import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { type BatchLeaseTasksResponse, hashOfToken, TaskMasterServiceClient } from '@taskmaster/proto';
import { Access, AccessTable } from '@taskmaster/server/access';
import { aLease, errorInfoOf, grpcClient } from '@taskmaster/server/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startNodeServer } from '../../testing/start-node-server.ts';
import { openWatchedEngine } from '../../testing/watched-engine.ts';

/** A lease request that waits for a hundred queues with names of 100 bytes: 30,000 bytes. */
const large = () =>
  aLease({ waitMs: 60_000, queues: Array.from({ length: 100 }, (_, number) => String(number).padStart(100, 'q')) });
const BYTES = 30_000;

async function start() {
  const engine = await openWatchedEngine();
  const server = await startNodeServer(engine, { maxWaitingBytes: 6 * BYTES });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const client = () => {
    const made = grpcClient(server.port, { 'grpc.use_local_subchannel_pool': 1 });
    onTestFinished(() => made[Symbol.dispose]());
    return made;
  };
  return { engine, server: server.server, client };
}

type Client = Awaited<ReturnType<typeof start>>['client'] extends () => infer C ? C : never;

async function refusal({ leaseTasks }: Client) {
  const error = (await leaseTasks(large()).catch((thrown: unknown) => thrown)) as ServiceError;
  return errorInfoOf(error);
}

describe('names of queues for which calls wait', () => {
  test('are limited for a connection and in all, until the calls end', async () => {
    const { engine, server, client } = await start();
    const [first, second, third] = [client(), client(), client()];
    const polls = [first, first, first, second, second].map(({ raw }) => raw.leaseTasks(large(), () => {}));
    await expect.poll(() => server.waitingBytes).toBe(5 * BYTES);
    const reason = 'TOO_MANY_WAITERS';
    expect(await refusal(first)).toMatchObject({ reason, metadata: { limit: String(3 * BYTES) } });
    polls.push(third.raw.leaseTasks(large(), () => {}));
    await expect.poll(() => server.waitingBytes).toBe(6 * BYTES);
    expect(await refusal(third)).toMatchObject({ reason, metadata: { limit: String(6 * BYTES) } });

    for (const poll of polls) poll.cancel();
    await expect.poll(() => server.waitingBytes).toBe(0);
    expect(engine.asked).toHaveLength(6);
  });

  test('of a batch count together', async () => {
    const { server, client } = await start();
    const batch = client().raw.batchLeaseTasks({ requests: [large(), large(), large(), large()] }, () => {});
    await expect.poll(() => server.waitingBytes).toBe(3 * BYTES);
    batch.cancel();
    await expect.poll(() => server.waitingBytes).toBe(0);
  });

  test('of a stream count, too', async () => {
    const { server, client } = await start();
    const stream = client().raw.stream();
    const answers: unknown[] = [];
    stream.on('data', (message) => answers.push(message)).on('error', () => {});
    const calls = [1, 2, 3, 4].map((id) => ({ id, call: { $case: 'lease' as const, value: large() } }));
    stream.write({ calls });
    await expect.poll(() => answers.length).toBe(1);
    expect(answers[0]).toMatchObject({
      results: [{ id: 4, result: { $case: 'error', value: { reason: 'TOO_MANY_WAITERS' } } }],
    });
    expect(server.waitingBytes).toBe(3 * BYTES);
    stream.cancel();
    await expect.poll(() => server.waitingBytes).toBe(0);
  });
});

test('each waiting lease of a batch counts for the quota of its principal, until the batch ends', async () => {
  const access = new Access({
    table: new AccessTable({
      principals: [
        {
          name: 'shop',
          tokens: [hashOfToken('tm_shop')],
          limits: { waiters: 10 },
          rights: [{ groups: ['*'], allow: ['lease'] }],
        },
      ],
    }),
  });
  const answer = Promise.withResolvers<never[]>();
  const engine = await openWatchedEngine({ leaseTasks: () => answer.promise });
  await using server = await startNodeServer(engine, { access });
  const client = new TaskMasterServiceClient(`127.0.0.1:${server.port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const metadata = new Metadata();
  metadata.set('authorization', 'Bearer tm_shop');
  const requests = Array.from({ length: 40 }, () => aLease({ waitMs: 60_000 }));
  const replied = Promise.withResolvers<BatchLeaseTasksResponse>();
  client.batchLeaseTasks({ requests }, metadata, (error, reply) =>
    error === null ? replied.resolve(reply) : replied.reject(error),
  );
  const usage = access.usages.of('shop');
  await expect.poll(() => engine.asked.length).toBeGreaterThan(0);
  expect(engine.asked).toHaveLength(10);
  expect(usage?.used('waiters')).toBe(10);
  answer.resolve([]);
  const { results } = await replied.promise;
  const refused = results.flatMap(({ result }) => (result?.$case === 'error' ? [result.value.reason] : []));
  expect(refused).toEqual(Array.from({ length: 30 }, () => 'QUOTA_EXCEEDED'));
  await expect.poll(() => usage?.used('waiters')).toBe(0);
});
