import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreLockedError } from '@taskmaster/engine/ports';
import { keptLog } from '@taskmaster/engine/testing';
import { InvalidConfigError } from '@taskmaster/server/program';
import { aLease, anEnqueue, anUpdate, aSchedule, bytes, checkHealth, grpcClient } from '@taskmaster/server/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openEmbedded } from './embedded.ts';
import { startNode } from './node.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'taskmaster-node-'));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const settings = () => ({ dataDir, grpcPort: 0, httpPort: 0, store: { reserveBytes: 1024 * 1024 } });
const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(':') + 1));

describe('a node', () => {
  test('for development in memory uses no directory, and tells of tasks that nobody has watched', async () => {
    const development = { inMemory: true };
    await using node = await startNode(settings(), { log: keptLog(), development });
    using client = grpcClient(portOf(node.grpcAddress));
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ data: bytes('one') })] }));
    const queues = 'shop#*';
    const { events } = await client.readEvents({
      queues,
      after: 'oldest',
      kinds: [],
      task: undefined,
      maxEvents: 0,
      waitMs: 0,
    });
    expect(events).toMatchObject([{ kind: 1 }, { kind: 2, queue: 'shop#mail', text: 'one' }]);
    expect(readdirSync(dataDir)).toEqual([]);
  });

  test('keeps its tasks from one run to the next', async () => {
    {
      await using node = await startNode(settings(), { log: keptLog() });
      using client = grpcClient(portOf(node.grpcAddress));
      await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ pid: bytes('a'), data: bytes('one') })] }));
    }
    await using node = await startNode(settings(), { log: keptLog() });
    using client = grpcClient(portOf(node.grpcAddress));
    expect((await client.leaseTasks(aLease())).tasks).toMatchObject([{ pid: bytes('a'), data: bytes('one') }]);
  });

  test('is healthy from the moment it is ready', async () => {
    await using node = await startNode(settings(), { log: keptLog() });
    expect(await checkHealth(portOf(node.grpcAddress))).toEqual({ status: 'SERVING' });
  });

  test('shows its queues over HTTP', async () => {
    await using node = await startNode(settings(), { log: keptLog() });
    using client = grpcClient(portOf(node.grpcAddress));
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue()] }));
    const api = await (await fetch(`http://${node.httpAddress}/api/queues`)).json();
    expect(api).toMatchObject({ queues: [{ queue: 'shop#mail', available: 1 }] });
    expect(await (await fetch(`http://${node.httpAddress}/api/me`)).json()).toMatchObject({
      server: { role: 'node', grpcAddress: node.grpcAddress },
    });
    await client.putSchedule({ schedule: 'shop#nightly', spec: aSchedule() });
    expect(await (await fetch(`http://${node.httpAddress}/api/schedules?group=shop`)).json()).toMatchObject({
      schedules: [{ schedule: 'shop#nightly', intervalMs: 60_000, missedRuns: 'once' }],
    });
    expect(await (await fetch(`http://${node.httpAddress}/api/overview`)).json()).toMatchObject({
      servedBy: { role: 'node' },
      members: [],
      attention: [],
    });
    const metrics = await (await fetch(`http://${node.httpAddress}/metrics`)).text();
    expect(metrics).toContain('taskmaster_schedules 1');
    expect(metrics).toContain('taskmaster_tasks{queue="shop#mail",state="available"} 1');
    expect(metrics).toMatch(/taskmaster_commit_duration_seconds_count [1-9]/);
  });

  test('leaves nothing open when it cannot start', async () => {
    await using first = await startNode(settings(), { log: keptLog() });
    const httpPort = portOf(first.httpAddress);
    await expect(startNode(settings(), { log: keptLog() })).rejects.toBeInstanceOf(StoreLockedError);
    await first.stop();
    await using second = await startNode({ ...settings(), httpPort }, { log: keptLog() });
    expect(portOf(second.httpAddress)).toBe(httpPort);
  });

  test('stops once, however often it is told', async () => {
    const node = await startNode(settings(), { log: keptLog() });
    await Promise.all([node.stop(), node.stop()]);
    await node.stop();
    await expect(fetch(`http://${node.httpAddress}/livez`)).rejects.toThrow();
  });

  test('refuses settings that make no sense', async () => {
    await expect(startNode({ ...settings(), grpcPort: -1 })).rejects.toBeInstanceOf(InvalidConfigError);
    const misspelt = { ...settings(), durability: 'sync' as 'synced' };
    await expect(startNode(misspelt)).rejects.toThrow('must be one of synced, relaxed');
  });
});

describe('an embedded queue', () => {
  const options = () => ({ dir: dataDir, store: { reserveBytes: 1024 * 1024 }, log: keptLog() });

  test('is the same client on the same data, without a network', async () => {
    {
      await using client = await openEmbedded(options());
      expect(await client.queue('shop#mail').enqueue({ to: 'ada' }, { pid: 'a' })).toMatchObject({ result: 'created' });
    }
    await using client = await openEmbedded(options());
    const [task] = await client.queue<{ to: string }>('shop#mail').lease({ max: 1, leaseDuration: '30s' });
    expect(task?.data).toEqual({ to: 'ada' });
    await task?.complete();
    expect((await client.queue('shop#mail').stats()).leased).toBe(0);
  });

  test('has sharded queues', async () => {
    await using client = await openEmbedded(options());
    const jobs = client.shardedQueue<number>('shop#jobs', { shards: 4 });
    await jobs.enqueueMany([3, 1, 2].map((job) => ({ data: job, pid: `job-${job}` })));
    expect((await jobs.lease({ max: 5 })).map(({ data }) => data)).toEqual([1, 2, 3]);
    expect(await jobs.stats()).toMatchObject({ available: 0, leased: 3 });
  });

  test('gives its directory free when the client is closed', async () => {
    const client = await openEmbedded(options());
    await expect(openEmbedded(options())).rejects.toBeInstanceOf(StoreLockedError);
    await client.close();
    await using again = await openEmbedded(options());
    expect(await again.queue('mail').lease({ max: 1, leaseDuration: '1s' })).toEqual([]);
  });

  test.each([
    [{ cacheByte: 1 }, 'openEmbedded: there is no cacheByte, did you mean cacheBytes?'],
    [{ store: { memtable: 1 } }, 'openEmbedded: store: there is no memtable'],
    [{ durability: { kind: 'sync' } }, `durability: {"kind":"sync"} is neither { kind: 'synced' } nor`],
    [{ durability: 'synced' }, 'durability: "synced" is neither'],
    [{ durability: null }, 'durability: null is neither'],
    [{ durability: { kind: 'relaxed' } }, 'durability: {"kind":"relaxed"} is neither'],
    [{ durability: { kind: 'relaxed', flushIntervalMs: 0 } }, 'flushIntervalMs } with 1 to'],
    [{ durability: { kind: 'relaxed', flushIntervalMs: Number.NaN } }, 'flushIntervalMs } with 1 to'],
  ])('refuses a misspelt option before it opens anything: %o', async (misspelt, problem) => {
    const wrong = { ...options(), ...misspelt } as unknown as Parameters<typeof openEmbedded>[0];
    await expect(openEmbedded(wrong)).rejects.toThrow(problem);
    expect(readdirSync(dataDir)).toEqual([]);
  });
});
