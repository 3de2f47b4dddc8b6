import { status } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { aDequeue, anEnqueue, anUpdate, refusalOf, WireClient } from '../support/wire-client.ts';

/*
 * Every limit is exact for a plain gRPC client: the last allowed value is accepted, the next one is refused with a reason that
 * names the limit, and the node continues to serve.
 */
let node: RunningNode;
let client: WireClient;
beforeAll(async () => {
  node = await startNode();
  client = new WireClient(node.endpoint);
}, 60_000);
afterAll(async () => {
  client[Symbol.dispose]();
  await node[Symbol.asyncDispose]();
}, 60_000);

let tests = 0;
let queue = '';
beforeEach(() => {
  queue = `limits#${tests++}`;
});

const ascii = (length: number) => Buffer.alloc(length, 'p');
const list = <T>(length: number, item: (index: number) => T) => Array.from({ length }, (_, index) => item(index));

describe('a PID', () => {
  test(`may have ${limits.pidBytes} bytes of any value`, async () => {
    const pid = Buffer.from(list(limits.pidBytes, (index) => index % 256));
    await client.update({ enqueue: [anEnqueue({ queue, pid })] });
    const { tasks } = await client.lease({ queues: [queue] });
    expect(tasks.map((task) => Buffer.compare(task.pid, pid))).toEqual([0]);
  });

  test.each([1, 2])('may be any single byte: %i of 256', async (each) => {
    const pids = list(256, (byte) => Buffer.from([byte])).filter((_, index) => index % each === 0);
    await client.update({ enqueue: pids.toReversed().map((pid) => anEnqueue({ queue, pid })) });
    const { tasks } = await client.lease({ queues: [queue], maxTasks: 256 });
    expect(tasks.map(({ pid }) => pid[0])).toEqual(pids.map((pid) => pid[0]));
  });

  test('with one more byte is refused in every field', async () => {
    const pid = ascii(limits.pidBytes + 1);
    const calls = [
      client.update({ enqueue: [anEnqueue({ queue, pid })] }),
      client.update({ dequeue: [aDequeue({ queue, pid })] }),
      client.lease({ queues: [queue], maxPid: pid }),
    ];
    for (const call of calls) {
      expect(await refusalOf(call)).toMatchObject({
        code: status.INVALID_ARGUMENT,
        reason: 'INVALID_PID',
        metadata: { limit: String(limits.pidBytes), value: String(pid.length) },
      });
    }
    expect((await client.stats(queue)).available).toBe(0);
  });
});

describe('a queue’s name', () => {
  test('may have 512 bytes of UTF-8 in each part', async () => {
    const long = `${'é'.repeat(256)}#${'漢'.repeat(170)}xx`;
    await client.update({ enqueue: [anEnqueue({ queue: long, data: ascii(1) })] });
    const { tasks } = await client.lease({ queues: [long] });
    expect(tasks).toMatchObject([{ queue: long }]);
  });

  test.each([
    ['a group of 513 bytes', `${'g'.repeat(513)}#jobs`],
    ['a name of 513 bytes', `${'漢'.repeat(171)}`],
    ['no name', 'group#'],
    ['no characters', ''],
  ])('with %s is refused', async (_case, name) => {
    for (const call of [client.update({ enqueue: [anEnqueue({ queue: name })] }), client.lease({ queues: [name] })]) {
      expect(await refusalOf(call)).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'INVALID_QUEUE' });
    }
  });
});

describe('data', () => {
  test('of 3 MiB is returned unchanged', async () => {
    const data = Buffer.alloc(limits.dataBytes, Buffer.from(list(251, (index) => index)));
    await client.update({ enqueue: [anEnqueue({ queue, data })] });
    const { tasks } = await client.lease({ queues: [queue], maxTasks: 10 });
    expect(tasks.map((task) => Buffer.compare(task.data, data))).toEqual([0]);
  });

  test('with one more byte is refused', async () => {
    const refused = await refusalOf(
      client.update({ enqueue: [anEnqueue({ queue, data: ascii(limits.dataBytes + 1) })] }),
    );
    expect(refused).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'DATA_TOO_LARGE',
      metadata: { limit: String(limits.dataBytes) },
    });
    expect((await client.stats(queue)).available).toBe(0);
  });

  test('may be empty, and may have all byte values', async () => {
    const all = Buffer.from(list(256, (byte) => byte));
    await client.update({ enqueue: [anEnqueue({ queue }), anEnqueue({ queue, data: all })] });
    const { tasks } = await client.lease({ queues: [queue], maxTasks: 2 });
    expect(tasks.map(({ data }) => Buffer.from(data))).toEqual([Buffer.alloc(0), all]);
  });
});

describe('a request', () => {
  test('of 4 MiB is accepted; a larger and a much larger one are refused with the same reason', async () => {
    const room = limits.requestBytes - limits.dataBytes;
    const filler = (bytes: number) => anEnqueue({ queue, data: ascii(bytes) });
    // The envelope of two enqueues takes less than 64 bytes.
    await client.update({ enqueue: [filler(limits.dataBytes), filler(room - 64)] });
    const tooLarge = [filler(limits.dataBytes), filler(room)];
    const huge = list(10, () => filler(limits.dataBytes));
    for (const enqueue of [tooLarge, huge]) {
      expect(await refusalOf(client.update({ enqueue }))).toMatchObject({
        code: status.INVALID_ARGUMENT,
        reason: 'REQUEST_TOO_LARGE',
        metadata: { limit: String(limits.requestBytes) },
      });
    }
    expect((await client.stats(queue)).available).toBe(2);
  });

  test(`may hold ${limits.updateItems} items, of all kinds together`, { timeout: 60_000 }, async () => {
    const items = list(limits.updateItems, () => anEnqueue({ queue }));
    expect((await client.update({ enqueue: items })).enqueued).toHaveLength(limits.updateItems);
    const more = client.update({ enqueue: items, dequeue: [aDequeue({ queue, pid: ascii(1) })] });
    expect(await refusalOf(more)).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'TOO_MANY_ITEMS',
      metadata: { limit: String(limits.updateItems) },
    });
    expect((await client.stats(queue)).available).toBe(limits.updateItems);
  });

  test('may lease 10,000 tasks of 1,000 queues', { timeout: 60_000 }, async () => {
    await client.update({ enqueue: list(limits.updateItems, () => anEnqueue({ queue })) });
    const others = list(limits.leaseQueues - 1, (index) => `limits#empty${index}`);
    const { tasks } = await client.lease({ queues: [...others, queue], maxTasks: limits.leaseTasks });
    expect(tasks).toHaveLength(limits.leaseTasks);
    expect(await refusalOf(client.lease({ queues: [queue], maxTasks: limits.leaseTasks + 1 }))).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'INVALID_ARGUMENT',
      metadata: { field: 'max_tasks', max: String(limits.leaseTasks) },
    });
    expect(await refusalOf(client.lease({ queues: [...others, queue, 'one-more'] }))).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'TOO_MANY_ITEMS',
      metadata: { limit: String(limits.leaseQueues) },
    });
  });

  test.each([
    ['a lease of a year', { leaseDurationMs: limits.leaseDurationMs }, { leaseDurationMs: limits.leaseDurationMs + 1 }],
    ['a lease of 1 ms', { leaseDurationMs: 1 }, { leaseDurationMs: -1 }],
    ['a worker’s label of 256 bytes', { workerLabel: 'w'.repeat(256) }, { workerLabel: 'w'.repeat(257) }],
    ['no wait', { waitMs: 0 }, { waitMs: limits.waitMs + 1 }],
    ['replies of any size', { maxBytes: 0 }, { maxBytes: limits.replyDataBytes + 1 }],
  ])('may ask for %s and not more', async (_case, last, next) => {
    expect((await client.lease({ queues: [queue], ...last })).tasks).toEqual([]);
    expect(await refusalOf(client.lease({ queues: [queue], ...next }))).toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
  });

  test('may delay a task for at most ten years, and allow a million attempts', async () => {
    const retry = { maxAttempts: limits.maxAttempts, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' };
    await client.update({ enqueue: [anEnqueue({ queue, delayMs: limits.delayMs, retry })] });
    expect((await client.stats(queue)).delayed).toBe(1);
    const beyond = [{ delayMs: limits.delayMs + 1 }, { retry: { ...retry, maxAttempts: limits.maxAttempts + 1 } }];
    for (const change of beyond) {
      const refused = await refusalOf(client.update({ enqueue: [anEnqueue({ queue, ...change })] }));
      expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'INVALID_ARGUMENT' });
    }
  });

  test('may have an id of 64 bytes', async () => {
    const change = { enqueue: [anEnqueue({ queue })], requestId: ascii(limits.requestIdBytes) };
    await client.update(change);
    await client.update(change);
    expect((await client.stats(queue)).available).toBe(1);
    const refused = await refusalOf(client.update({ ...change, requestId: ascii(limits.requestIdBytes + 1) }));
    expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT });
  });
});

describe('a batch', () => {
  const batch = (count: number) =>
    new Promise<number>((resolve, reject) => {
      const requests = list(count, () => anUpdate({ enqueue: [anEnqueue({ queue })] }));
      client.raw.batchUpdateTasks({ requests }, (error, reply) =>
        error === null ? resolve(reply.results.length) : reject(error),
      );
    });

  test(`may hold ${limits.batchRequests} requests`, async () => {
    expect(await batch(limits.batchRequests)).toBe(limits.batchRequests);
    expect(await refusalOf(batch(limits.batchRequests + 1))).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'TOO_MANY_ITEMS',
      metadata: { limit: String(limits.batchRequests) },
    });
    expect(await refusalOf(batch(0))).toMatchObject({ code: status.INVALID_ARGUMENT });
    expect((await client.stats(queue)).available).toBe(limits.batchRequests);
  });
});
