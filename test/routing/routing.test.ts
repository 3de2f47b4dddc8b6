import { runCli } from '@taskmaster/cli/testing';
import { connect, type ListSchedulesOptions } from '@taskmaster/client';
import { type ListQueuesResponse, parseQueueName, partitionOf } from '@taskmaster/proto';
import { aLease, aList, anEnqueue, anUpdate, bytes, grpcClient, SleepingClient } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startTestCluster } from './support/test-cluster.ts';

describe('a proxy with wrong routes', () => {
  test('learns from the nodes: every call succeeds, with and without streams', async () => {
    await using cluster = await startTestCluster({ believed: (partition) => (partition + 1) % 3 });
    await using typed = await connect(`127.0.0.1:${cluster.port}`);
    using client = grpcClient(cluster.port);
    const queues = Array.from({ length: 12 }, (_, i) => `${cluster.groupAt(i % 3, Math.floor(i / 3))}#q`);
    await Promise.all(queues.map((queue) => typed.queue(queue).enqueue('x', { pid: 'a' })));
    expect(cluster.routes.learned.length).toBeGreaterThan(0);
    expect(cluster.router.figures.rerouted).toBeGreaterThan(0);
    expect(await typed.stats({ queues })).toMatchObject({ totals: { available: 12 } });
    const leased = await typed.lease({ queues, max: 20 });
    expect(leased).toHaveLength(12);
    expect(
      (
        await client.peekTasks({
          queue: queues[4] ?? '',
          kind: 2,
          limit: 1,
          includeData: false,
          afterPid: Buffer.alloc(0),
        })
      ).tasks,
    ).toHaveLength(1);
  });

  test('leases and waits over several nodes succeed, too', async () => {
    await using cluster = await startTestCluster({ believed: (partition) => (partition + 1) % 3 });
    using client = grpcClient(cluster.port);
    const queues = [0, 1, 2].map((place) => `${cluster.groupAt(place)}#q`);
    const waiting = client.leaseTasks(aLease({ queues, waitMs: 10_000 }));
    await eventually(() => {
      expect(cluster.nodes.reduce((sum, { engine }) => sum + engine.figures().waiters, 0)).toBe(3);
    });
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: queues[2] ?? '' })] }));
    expect((await waiting).tasks).toHaveLength(1);
  });
});

describe('a node that is gone', () => {
  test('is named in errors and listings, and does not affect other calls', async () => {
    await using cluster = await startTestCluster({ limits: { holdTimeoutMs: 100 } });
    using client = grpcClient(cluster.port);
    const queues = [0, 1, 2].map((place) => `${cluster.groupAt(place)}#q`);
    const enqueue = (queue: string | undefined, pid: string) =>
      client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: queue ?? '', pid: bytes(pid) })] }));
    for (const queue of queues) await enqueue(queue, 'a');
    await cluster.nodes[1]?.server[Symbol.asyncDispose]();

    await expect(enqueue(queues[1], 'b')).rejects.toMatchObject({ code: 14 });
    await enqueue(queues[0], 'b');
    const listed = await client.listQueues(aList());
    expect(listed.queues.map(({ queue }) => queue).sort()).toEqual([queues[0], queues[2]].sort());
    expect(listed.unreachable).toMatchObject([
      { nodeId: 'node-1', name: 'node-1', address: cluster.nodes[1]?.address },
    ]);
    const stats = await client.getQueueStats({ queues: [], filter: undefined });
    expect(stats.totals).toMatchObject({ queues: 2, available: 3 });
    expect(stats.unreachable).toHaveLength(1);
    await expect(client.getQueueStats({ queues, filter: undefined })).rejects.toMatchObject({ code: 14 });

    const lease = await client.leaseTasks(aLease({ queues, maxTasks: 5, waitMs: 5_000 }));
    expect(lease.tasks).toHaveLength(3);
    // The living nodes have no tasks left, but the dead one may have some: an empty answer would be wrong.
    await expect(client.leaseTasks(aLease({ queues, waitMs: 200 }))).rejects.toMatchObject({ code: 14 });
  });

  test('breaks only its own calls of a stream, and the errors say whether they may have been applied', async () => {
    await using cluster = await startTestCluster({ limits: { holdTimeoutMs: 50 } });
    await using typed = await connect({ endpoints: `127.0.0.1:${cluster.port}`, retry: { maxAttempts: 1 } });
    const [here, there] = [0, 1].map((place) => typed.queue(`${cluster.groupAt(place)}#q`));
    const waiting = there?.lease({ wait: '20s' }).catch((thrown: unknown) => thrown);
    const other = here?.lease({ wait: '20s' });
    await eventually(() => expect(cluster.nodes.map(({ engine }) => engine.figures().waiters)).toEqual([1, 1, 0]));
    await cluster.nodes[1]?.server[Symbol.asyncDispose]();
    // Its node is drained: it answered without tasks, or was found to be gone.
    const outcome = await waiting;
    expect(Array.isArray(outcome) ? outcome : (outcome as { code: number }).code).toEqual(
      Array.isArray(outcome) ? [] : 14,
    );
    await here?.enqueue('x');
    expect(await other).toHaveLength(1);
    await expect(there?.enqueue('y')).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE', maybeApplied: false });
  });
});

describe('the command line at a proxy', () => {
  test('shows the queues of all nodes, and says which nodes are missing', async () => {
    await using cluster = await startTestCluster({ limits: { holdTimeoutMs: 50 } });
    const queues = [0, 1, 2].map((place) => `${cluster.groupAt(place)}#q`);
    const taskmaster = (...args: string[]) => runCli(`127.0.0.1:${cluster.port}`, args);
    for (const queue of queues) expect(await taskmaster('enqueue', queue, 'x')).toMatchObject({ code: 0 });
    const all = await taskmaster('--json', 'queues');
    expect(all.stdout.trim().split('\n')).toHaveLength(3);
    expect(all.stderr).toBe('');
    const leased = await taskmaster('--json', 'lease', ...queues, '--max', '3');
    expect(leased.stdout.trim().split('\n')).toHaveLength(3);

    await cluster.nodes[2]?.server[Symbol.asyncDispose]();
    const some = await taskmaster('queues');
    expect(some.stdout).not.toContain(queues[2]);
    expect(some.stderr).toContain(`queues of node-2 (${cluster.nodes[2]?.address}) are missing`);
  });
});

describe('a listing over several nodes', () => {
  test('has every queue once, in order, with pages of any size', async () => {
    await using cluster = await startTestCluster();
    using client = grpcClient(cluster.port);
    const names = Array.from({ length: 40 }, (_, i) => `${cluster.groupAt(i % 3, i % 4)}#q${i}`);
    for (const queue of names) await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue })] }));
    for (const limit of [1, 7, 40, 100]) {
      const seen: string[] = [];
      let pageToken = '';
      do {
        const page: ListQueuesResponse = await client.listQueues(aList({ limit, pageToken }));
        expect(page.queues.length).toBeLessThanOrEqual(limit);
        seen.push(...page.queues.map(({ queue }) => queue));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      expect(seen).toEqual([...new Set(seen)]);
      expect([...seen].sort()).toEqual([...names].sort());
    }
    const group = names[0]?.split('#')[0] ?? '';
    const ofGroup = await client.listQueues(aList({ filter: { nameRegex: '', group } }));
    expect(ofGroup.queues.every(({ queue }) => queue.startsWith(`${group}#`))).toBe(true);
    expect(ofGroup.unreachable).toEqual([]);
  });

  test('has every schedule once, in order, with pages of any size, and names a node that is gone', async () => {
    await using cluster = await startTestCluster({ limits: { holdTimeoutMs: 50 } });
    await using client = await connect(`127.0.0.1:${cluster.port}`);
    const names = Array.from({ length: 20 }, (_, i) => `${cluster.groupAt(i % 3, i % 4)}#s${i}`);
    for (const name of names) {
      const { group } = parseQueueName(name);
      await client.schedules.put(name, { queue: `${group}#q`, data: 1, every: '1d' });
    }
    const listed = async (options: ListSchedulesOptions = {}): Promise<string[]> => {
      const found: string[] = [];
      for await (const { name } of client.schedules.list(options)) found.push(name);
      return found;
    };
    for (const pageSize of [1, 7, 100]) expect(await listed({ pageSize })).toEqual(names.toSorted());
    const group = cluster.groupAt(1, 1);
    expect(await listed({ group })).toEqual(names.filter((name) => name.startsWith(`${group}#`)).sort());

    await cluster.nodes[2]?.server[Symbol.asyncDispose]();
    const there = new Set([0, 1, 2, 3].map((number) => cluster.groupAt(2, number)));
    const missing: string[] = [];
    const onUnreachable: ListSchedulesOptions['onUnreachable'] = (nodes) => {
      missing.push(...nodes.map(({ name }) => name));
    };
    const others = names.filter((name) => !there.has(parseQueueName(name).group));
    expect(await listed({ onUnreachable })).toEqual(others.sort());
    expect(missing).toEqual(['node-2']);
    const shown = await runCli(`127.0.0.1:${cluster.port}`, ['schedule']);
    expect(shown.stderr).toContain(`schedules of node-2 (${cluster.nodes[2]?.address}) are missing`);
  });

  test('statistics of named queues have the order of the request, including queues without tasks', async () => {
    await using cluster = await startTestCluster();
    using client = grpcClient(cluster.port);
    const queues = [2, 0, 1, 0].map((place, i) => `${cluster.groupAt(place)}#q${i}`);
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: queues[2] ?? '' })] }));
    const reply = await client.getQueueStats({ queues, filter: undefined });
    expect(reply.queues.map(({ queue, available }) => [queue, available])).toEqual(
      queues.map((queue, i) => [queue, i === 2 ? 1 : 0]),
    );
    expect(reply.totals).toMatchObject({ queues: 4, available: 1 });
  });
});

describe('a client that sends requests and does not read', () => {
  test('causes no more work than its limits allow, while others are served', async () => {
    const unread = 256 * 1024;
    await using cluster = await startTestCluster({
      nodes: 2,
      server: { streamLimits: { callsInFlight: 64, requestBytes: 1024 * 1024, unreadBytes: unread } },
    });
    using client = grpcClient(cluster.port);
    const queue = `${cluster.groupAt(1)}#q`;
    const data = Buffer.alloc(64 * 1024);
    const tasks = 400;
    for (let i = 0; i < tasks; i++) {
      await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue, pid: bytes(`p${i}`), data })] }));
    }
    using sleeper = new SleepingClient(cluster.port);
    for (let id = 1; id <= tasks; id++) {
      sleeper.ask([{ id, call: { $case: 'lease', value: aLease({ queues: [queue], maxTasks: 1 }) } }]);
    }
    const leased = async () => (await client.getQueueStats({ queues: [queue], filter: undefined })).totals?.leased ?? 0;
    await eventually(async () => expect(await leased()).toBeGreaterThan(0));
    let before = -1;
    await eventually(async () => {
      const now = await leased();
      const stable = now === before;
      before = now;
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(stable).toBe(true);
    });
    expect(before).toBeLessThan(tasks);
    // The calls in flight could return 4 MiB; the node holds most of that back.
    expect(cluster.server.unreadReplyBytes).toBeLessThan(3 * 1024 * 1024);
    // A client that reads is served.
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: `${cluster.groupAt(1)}#other` })] }));
    const more = await sleeper.wake(tasks * data.length);
    expect(more).toBeGreaterThanOrEqual(tasks * data.length);
  });
});

test('groups belong to the same partitions as at nodes and clients', async () => {
  await using cluster = await startTestCluster();
  expect(cluster.router.partitionOfQueue('g1#a')).toBe(partitionOf('g1', cluster.routes.partitions));
  expect(cluster.router.partitionOfQueue('plain')).toBe(partitionOf('', cluster.routes.partitions));
});
