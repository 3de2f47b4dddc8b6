import { connect, type TaskMasterClient } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import {
  aLease,
  anEnqueue,
  anUpdate,
  bytes,
  errorInfoOf,
  type GrpcClient,
  grpcClient,
} from '@taskmaster/server/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

const PATTERN = { nameRegex: '#jobs$', group: undefined, afterQueues: 0, id: 1 };

const waitersOf = ({ nodes }: TestCluster): number[] => nodes.map(({ engine }) => engine.figures().waiters);

describe.each([
  ['a proxy', false],
  ['a node with a router', true],
])('a lease by pattern through %s', (_what, colocated) => {
  let cluster: TestCluster;
  let client: GrpcClient;
  let typed: TaskMasterClient;
  let queues: readonly string[];

  beforeEach(async () => {
    cluster = await startTestCluster({ colocated });
    const port = colocated ? (cluster.nodes[0]?.server.port ?? 0) : cluster.port;
    client = grpcClient(port);
    typed = await connect(`127.0.0.1:${port}`);
    queues = [0, 1, 2].map((place) => `${cluster.groupAt(place)}#jobs`);
  });
  afterEach(async () => {
    await typed.close();
    client[Symbol.dispose]();
    await cluster[Symbol.asyncDispose]();
  });

  const enqueue = (queue: string, ...pids: string[]) =>
    client.updateTasks(anUpdate({ enqueue: pids.map((pid) => anEnqueue({ queue, pid: bytes(pid) })) }));
  const lease = (change: Parameters<typeof aLease>[0] = {}) =>
    client.leaseTasks(aLease({ queues: [], patterns: [PATTERN], ...change }));
  const counts = async () => (await typed.stats({ queues: [...queues] })).totals;

  test('gets tasks of all nodes, named queues in their places, and the names of further queues', async () => {
    for (const queue of queues) await enqueue(queue, 'a', 'b');
    await enqueue(`${cluster.groupAt(0)}#first`, 'a');
    await enqueue(`${cluster.groupAt(1)}#last`, 'a');
    await enqueue(`${cluster.groupAt(1)}#other`, 'a');
    const named = [`${cluster.groupAt(0)}#first`, `${cluster.groupAt(1)}#last`];
    const { tasks } = await lease({ queues: named, patterns: [{ ...PATTERN, afterQueues: 1, id: 5 }], maxTasks: 100 });
    const found = tasks.map(({ queue, patternId }) => `${queue} ${patternId}`);
    const inPattern = queues.flatMap((queue) => [`${queue} 5`, `${queue} 5`]);
    expect([found[0], found.at(-1)]).toEqual([`${named[0]} 0`, `${named[1]} 0`]);
    expect(found.slice(1, -1).toSorted()).toEqual(inPattern.toSorted());

    for (const queue of queues) await enqueue(queue, 'c');
    const [first, ...others] = queues;
    const part = await lease({ queues: [first ?? ''], maxTasks: 3, maxMoreQueues: 5 });
    const told = new Set([...part.tasks, ...part.moreQueues].map(({ queue }) => queue));
    expect(others.filter((queue) => !told.has(queue))).toEqual([]);
  });

  test('waits at all nodes, is served by the first one, and holds no task of the others', async () => {
    for (let round = 0; round < 5; round++) {
      const waiting = lease({ waitMs: 20_000 });
      await eventually(() => expect(waitersOf(cluster)).toEqual([1, 1, 1]));
      await Promise.all(queues.map((queue) => enqueue(queue, `r${round}`)));
      expect((await waiting).tasks).toHaveLength(1);
      await eventually(() => expect(waitersOf(cluster)).toEqual([0, 0, 0]));
      await eventually(async () => expect(await counts()).toMatchObject({ available: 2, leased: round * 3 + 1 }));
      expect((await lease()).tasks).toHaveLength(2);
    }
  });

  test('and by kind gets only tasks that it accepts, and the names of queues that have some', async () => {
    const add = (place: number, ...kinds: string[]) =>
      client.updateTasks(
        anUpdate({ enqueue: kinds.map((kind) => anEnqueue({ queue: queues[place] ?? '', pid: bytes(''), kind })) }),
      );
    const byKind = (change: Parameters<typeof aLease>[0], ...patterns: string[]) =>
      lease({ maxTasks: 10, kinds: { patterns }, ...change });
    const kindsOf = ({ tasks }: { tasks: readonly { kind?: string | undefined }[] }) =>
      tasks.map(({ kind }) => kind).toSorted();
    await add(0, 'a', 'b@1', 'b@1');
    await add(1, 'a', 'b@2', 'b@2');
    await add(2, 'a', 'a', '');
    const [named = ''] = queues;
    const first = await byKind({ queues: [named], maxTasks: 3, maxMoreQueues: 5 }, 'b@*');
    const told = new Set([...first.tasks, ...first.moreQueues].map(({ queue }) => queue));
    expect([...told].toSorted()).toEqual(queues.slice(0, 2).toSorted());
    expect([...kindsOf(first), ...kindsOf(await byKind({}, 'b@*'))].toSorted()).toEqual(['b@1', 'b@1', 'b@2', 'b@2']);
    const waiting = byKind({ maxTasks: 1, waitMs: 20_000 }, 'c', 'b@*');
    await eventually(() => expect(waitersOf(cluster)).toEqual([1, 1, 1]));
    await add(0, 'a');
    await add(2, 'c');
    expect(kindsOf(await waiting)).toEqual(['c']);
    await eventually(() => expect(waitersOf(cluster)).toEqual([0, 0, 0]));
    expect(kindsOf(await byKind({}, 'a', ''))).toEqual([undefined, 'a', 'a', 'a', 'a', 'a'].toSorted());
  });

  test('leaves no waiter behind when its caller disconnects', async () => {
    const abort = new AbortController();
    const jobs = typed.matchingQueues({ regex: '#jobs$' });
    const failed = expect(jobs.lease({ wait: '20s', signal: abort.signal })).rejects.toMatchObject({
      reason: 'CANCELLED',
    });
    await eventually(() => expect(waitersOf(cluster)).toEqual([1, 1, 1]));
    abort.abort();
    await failed;
    await eventually(() => expect(waitersOf(cluster)).toEqual([0, 0, 0]));
  });

  test('of one group waits at its holder, and goes with the group', async () => {
    const group = cluster.groupAt(1);
    const id = partitionOf(group, cluster.router.partitions);
    const ofGroup = [{ ...PATTERN, nameRegex: '', group }];
    const waiting = lease({ patterns: ofGroup, waitMs: 20_000, maxTasks: 1 });
    const anywhere = lease({ waitMs: 20_000, maxTasks: 1 });
    await eventually(() => expect(waitersOf(cluster)).toEqual([1, 2, 1]));
    const at = { nodeId: 'node-2', address: cluster.nodes[2]?.address ?? '', epoch: 3 };
    for (const { engine } of cluster.nodes) engine.partitions.locate((other) => (other === id ? at : undefined));
    await cluster.nodes[2]?.engine.partitions.claim([{ id: id as never, epoch: 3 }]);
    await cluster.nodes[1]?.engine.partitions.supersede(id as never, at);
    await eventually(() => expect(waitersOf(cluster)).toEqual([1, 1, 2]));
    await enqueue(`${group}#jobs`, 'a', 'b');
    expect([await waiting, await anywhere].map(({ tasks }) => tasks.length)).toEqual([1, 1]);
  });

  test('waits at a node that joins meanwhile, and goes on without one that leaves', async () => {
    const address = cluster.nodes[2]?.address ?? '';
    cluster.routes.change(2, { address: '127.0.0.1:1' });
    const waiting = lease({ waitMs: 20_000 });
    await eventually(() => expect(waitersOf(cluster)).toEqual([1, 1, 0]));
    cluster.routes.change(2, { address });
    await eventually(() => expect(waitersOf(cluster)).toEqual([1, 1, 1]));
    await enqueue(queues[2] ?? '', 'a');
    expect((await waiting).tasks).toHaveLength(1);
    await eventually(() => expect(waitersOf(cluster)).toEqual([0, 0, 0]));
  });

  test('leaves a node out that does not answer', async () => {
    await cluster.nodes[2]?.server[Symbol.asyncDispose]();
    await enqueue(queues[1] ?? '', 'a');
    expect((await lease()).tasks).toHaveLength(1);
    expect((await lease()).tasks).toHaveLength(0);
    const waiting = lease({ waitMs: 20_000 });
    await eventually(() => expect(waitersOf(cluster).slice(0, 2)).toEqual([1, 1]));
    await enqueue(queues[1] ?? '', 'b');
    expect((await waiting).tasks).toHaveLength(1);
    expect((await lease({ waitMs: 50 })).tasks).toHaveLength(0);
  });

  test.each([
    ['INVALID_REGEX', 'patterns[0].name_regex', [{ ...PATTERN, nameRegex: '(' }]],
    ['INVALID_ARGUMENT', 'patterns[0].name_regex', [{ ...PATTERN, nameRegex: '' }]],
    ['INVALID_ARGUMENT', 'patterns[1].after_queues', [PATTERN, { ...PATTERN, afterQueues: 1 }]],
    ['TOO_MANY_ITEMS', 'patterns', Array.from({ length: 17 }, () => PATTERN)],
  ])('is refused with %s for %s', async (reason, field, patterns) => {
    const error = await lease({ patterns }).catch((thrown: unknown) => thrown);
    expect(errorInfoOf(error as Parameters<typeof errorInfoOf>[0])).toMatchObject({ reason, metadata: { field } });
  });
});

test('a worker takes an order through four idle stages at once, through a proxy', async () => {
  await using cluster = await startTestCluster();
  await using client = await connect(`127.0.0.1:${cluster.port}`);
  const stages = ['paid', 'packed', 'sent', 'done'];
  const done = Promise.withResolvers<void>();
  const next = async (order: string, stage: number): Promise<void> => {
    const name = stages[stage];
    if (name === undefined) return done.resolve();
    await client.queue<number>(`${order}#${name}`).enqueue(stage);
  };
  const workers = stages.map((name) => {
    const worker = client.worker(client.matchingQueues<number>({ regex: `#${name}$` }), ({ queue, data }) =>
      next(queue.split('#')[0] ?? '', data + 1),
    );
    worker.start();
    return worker;
  });
  await eventually(() => expect(waitersOf(cluster)).toEqual([4, 4, 4]));
  const began = performance.now();
  await next('order-1', 0);
  await done.promise;
  const elapsedMs = performance.now() - began;
  expect(elapsedMs).toBeLessThan(3_000);
  for (const worker of workers) await worker.stop();
});
