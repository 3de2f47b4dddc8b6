import type { ServiceError } from '@grpc/grpc-js';
import { connect } from '@taskmaster/client';
import { statusOfReason } from '@taskmaster/proto';
import { badRequests, errorInfoOf, type GrpcClient, grpcClient } from '@taskmaster/server/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

let cluster: TestCluster;
let client: GrpcClient;
beforeAll(async () => {
  cluster = await startTestCluster();
  client = grpcClient(cluster.port);
});
afterAll(async () => {
  client[Symbol.dispose]();
  await cluster[Symbol.asyncDispose]();
});

describe('a bad request through a proxy', () => {
  test.each(badRequests)('$what: $reason', async ({ reason, field, call }) => {
    const error = (await call(client).then(
      () => expect.unreachable('the request was accepted'),
      (thrown: unknown) => thrown,
    )) as ServiceError;
    const info = errorInfoOf(error);
    expect(info).toMatchObject({ domain: 'taskmaster', reason });
    expect(error.code).toBe(statusOfReason[reason]);
    if (reason !== 'REQUEST_TOO_LARGE') expect(info.metadata.field).toBe(field);
    expect(cluster.log.lines).toEqual([]);
  });
});

describe('the typed client at a proxy', () => {
  test('works with the queues of all nodes like with one node', async () => {
    await using typed = await connect(`127.0.0.1:${cluster.port}`);
    const groups = [0, 1, 2].map((place) => cluster.groupAt(place));
    for (const group of groups) {
      await typed.queue<string>(`${group}#mail`).enqueue(`for ${group}`, { pid: 'a' });
    }
    const stats = await typed.stats({ queues: groups.map((group) => `${group}#mail`) });
    expect(stats.queues.map(({ available }) => available)).toEqual([1, 1, 1]);
    expect(stats.totals).toMatchObject({ queues: 3, available: 3 });

    for (const group of groups) {
      const queue = typed.queue<string>(`${group}#mail`);
      const [task] = await queue.lease({ max: 5 });
      expect(task?.data).toBe(`for ${group}`);
      const [info] = await queue.peek({ kind: 'leased' });
      expect(info?.workerAddress).toMatch(/^127\.0\.0\.1:\d+$/);
      await task?.complete();
    }
    expect((await typed.stats()).totals).toMatchObject({ available: 0, leased: 0, delayed: 0 });
  });
});

test('tasks are named by their keys through a proxy, whatever the keys look like', async () => {
  await using typed = await connect(`127.0.0.1:${cluster.port}`);
  for (const place of [0, 1, 2]) {
    const queue = typed.queue<string>(`${cluster.groupAt(place)}#keyed`);
    for (const key of ['order-17', `${cluster.groupAt((place + 1) % 3)}#other`, '\n\t', '8']) {
      await queue.enqueue('at 5', { pid: '5', key });
      await queue.enqueue('at 3', { pid: '3', key, mode: 'replace' });
      expect(await queue.get([{ key }])).toMatchObject([{ pid: Buffer.from('3'), state: 'available', key }]);
      await queue.reschedule({ key }, '1h');
      expect(await queue.get([{ key }])).toMatchObject([{ state: 'delayed' }]);
      await queue.cancel({ key }, { reason: `${cluster.groupAt((place + 1) % 3)}#other` });
      expect(await queue.waitForEnd('3')).toMatchObject({ outcome: 'cancelled' });
    }
  }
});

test('an attempt with all that it can say passes a proxy', async () => {
  await using typed = await connect(`127.0.0.1:${cluster.port}`);
  const group = cluster.groupAt(1);
  const other = `${cluster.groupAt(2)}#other`;
  const queue = typed.queue<string>(`${group}#rich`);
  await typed.topic(`${group}#news`).subscribe(typed.queue(`${group}#copies`));
  const retry = { maxAttempts: 3, backoff: { initial: 0 }, deadLetterQueue: `${group}#lost` } as const;
  await queue.enqueue('data', { pid: '1', headers: { [other.replace('#', '.')]: other }, retry, timeLimit: '1h' });
  const [first] = await queue.lease();
  await first?.reportProgress(other);
  await first?.release({ error: new Error(other) });
  const [second] = await queue.lease();
  expect(second).toMatchObject({ attempt: 2, previousProgress: other, headers: { [other.replace('#', '.')]: other } });
  await second?.complete({ result: other, enqueue: [typed.topic<string>(`${group}#news`).task(other)] });
  expect(await queue.waitFor('1')).toBe(other);
  expect((await typed.queue(`${group}#copies`).lease())[0]?.data).toBe(other);
});

test('settings of all groups, also of the default one, are reached through a proxy', async () => {
  await using typed = await connect(`127.0.0.1:${cluster.port}`);
  for (const group of ['', ...[0, 1, 2].map((place) => cluster.groupAt(place))]) {
    const queues = group === '' ? 'mail*' : `${group}#mail*`;
    await typed.queueSettings.put(queues, { leaseDuration: 1000 });
    expect((await typed.queueSettings.list(group)).map((settings) => settings.queues)).toEqual([queues]);
    expect((await typed.queueSettings.of(queues)).leaseDuration).toBe(1000);
    expect(await typed.queueSettings.delete(queues)).toBe(true);
  }
});

test('schedules of all groups, also of the default one, are reached through a proxy', async () => {
  await using typed = await connect(`127.0.0.1:${cluster.port}`);
  const groups = ['', ...[0, 1, 2].map((place) => cluster.groupAt(place))];
  for (const group of groups) {
    const name = (of: string): string => (group === '' ? of : `${group}#${of}`);
    await typed.schedules.put(name('tick'), { queue: name('ticks'), data: group, every: '100ms', missedRuns: 'all' });
    const [task] = await typed.queue(name('ticks')).lease({ wait: '10s' });
    expect(task?.data).toBe(group);
    const listed: string[] = [];
    for await (const schedule of typed.schedules.list({ group })) listed.push(schedule.name);
    expect(listed).toEqual([name('tick')]);
    expect((await typed.schedules.get(name('tick')))?.counts.enqueued).toBeGreaterThan(0);
    expect((await typed.schedules.pause(name('tick'))).paused).toBe(true);
    expect((await typed.schedules.trigger(name('tick'))).queue).toBe(name('ticks'));
    expect(await typed.schedules.delete(name('tick'))).toBe(true);
  }
});

test('all streams are served, even more than one connection to a node carries', async () => {
  const clients = await Promise.all(Array.from({ length: 130 }, () => connect(`127.0.0.1:${cluster.port}`)));
  try {
    const name = `${cluster.groupAt(1)}#crowd`;
    await Promise.all(clients.map((each, i) => each.queue(name).enqueue(i, { pid: `p${i}` })));
    const leased = await Promise.all(clients.map((each) => each.queue(name).lease()));
    expect(new Set(leased.flat().map(({ data }) => data)).size).toBe(130);
  } finally {
    await Promise.all(clients.map((each) => each.close()));
  }
});
