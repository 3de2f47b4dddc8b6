import { setTimeout as delay } from 'node:timers/promises';
import { type ClusterPartitions, connect, type SpreadQueue, spread } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const MINUTE_MS = 60_000;

/** Enqueues one task after the other, each with its own PID, until it is stopped. An enqueue that rejects fails the test. */
class Producer {
  readonly accepted: string[] = [];
  readonly #queue: SpreadQueue<string>;
  readonly #producing: Promise<void>;
  #over = false;

  constructor(queue: SpreadQueue<string>) {
    this.#queue = queue;
    this.#producing = this.#produce();
  }

  /** Resolves when this many more tasks are accepted. */
  async more(count: number): Promise<void> {
    const enough = this.accepted.length + count;
    await eventually(() => expect(this.accepted.length).toBeGreaterThan(enough), { withinMs: MINUTE_MS });
  }

  async stop(): Promise<void> {
    this.#over = true;
    await this.#producing;
  }

  async #produce(): Promise<void> {
    while (!this.#over) {
      const pid = `doc-${this.accepted.length}`;
      await this.#queue.enqueue(pid, { pid, timeout: '30s' });
      this.accepted.push(pid);
      await delay(5);
    }
  }
}

/** Works on all tasks. */
function workOn(queue: SpreadQueue<string>) {
  const done = new Set<string>();
  const worker = queue.worker(({ data }) => void done.add(data), { concurrency: 4, leaseDuration: '5s', wait: '2s' });
  worker.start();
  return {
    done,
    /** Resolves when all these tasks are done. */
    finish: (accepted: readonly string[]) =>
      eventually(() => expect(accepted.filter((pid) => !done.has(pid))).toEqual([]), { withinMs: MINUTE_MS }),
    [Symbol.asyncDispose]: () => worker.stop(),
  };
}

describe('enqueues that are spread', { timeout: 4 * MINUTE_MS }, () => {
  test('over two clusters are accepted while one of them is killed, and all are worked on', async () => {
    await using dir = await temporaryDirectory();
    await using london = await startNode();
    let paris = await startNode({ dir: dir.path });
    await using _last = { [Symbol.asyncDispose]: () => paris[Symbol.asyncDispose]() };
    await using inLondon = await connect(london.endpoint);
    await using inParis = await connect(paris.endpoint);
    const queue = spread([inLondon, inParis].map((client) => client.queue<string>('docs#convert')));
    const producer = new Producer(queue);
    await producer.more(100);
    for (const { queue: target } of queue.targets) expect((await target.stats()).available).toBeGreaterThan(20);

    await paris.kill();
    await producer.more(300);
    expect(queue.targets.map(({ isUp }) => isUp)).toEqual([true, false]);
    expect((await queue.stats({ timeout: '1s' })).unreachable).toHaveLength(1);
    // Workers drain the cluster that is up, and the other one when it is back.
    await using worker = workOn(queue);
    await eventually(() => expect(worker.done.size).toBeGreaterThan(100), { withinMs: MINUTE_MS });
    paris = await startNode({ dir: dir.path, grpcPort: paris.grpcPort });
    await eventually(() => expect(queue.targets.every(({ isUp }) => isUp)).toBe(true), { withinMs: MINUTE_MS });
    await producer.more(100);
    await producer.stop();
    await worker.finish(producer.accepted);
    const left = await queue.stats();
    expect(left.unreachable).toEqual([]);
    await eventually(async () => expect(await queue.stats()).toMatchObject({ available: 0, leased: 0 }), {
      withinMs: MINUTE_MS,
    });
  });

  test('over the groups of one cluster are accepted while a node with some of them is killed', async () => {
    await using cluster = await TestCluster.start({ nodes: 3 });
    await using client = await connect({ endpoints: cluster.node('a').endpoint, timeout: '3s' });
    const groups = groupsOf(await cluster.inPlace());
    const queue = spread(groups.map((group) => client.queue<string>(`${group}#convert`)));
    const producer = new Producer(queue);
    await producer.more(100);
    await cluster.node('b').kill();
    await producer.more(300);
    await using worker = workOn(queue);
    await cluster.start('b');
    await producer.more(100);
    await producer.stop();
    await worker.finish(producer.accepted);
  });
});

/** One group on each node. */
function groupsOf({ partitions }: ClusterPartitions): readonly string[] {
  const groups = new Map<string, string>();
  for (let number = 0; number < 100; number++) {
    const group = `docs-${number}`;
    const name = partitions[partitionOf(group, partitions.length)]?.holder?.name ?? '';
    if (!groups.has(name)) groups.set(name, group);
  }
  expect([...groups.keys()].toSorted()).toEqual(['a', 'b', 'c']);
  return [...groups.values()];
}
