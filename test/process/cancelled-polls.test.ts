import { setInterval } from 'node:timers/promises';
import { connect } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { type RunningProxy, startProxy } from '../support/processes/start-proxy.ts';
import { anEnqueue, WireClient } from '../support/wire-client.ts';

const SECONDS = Number(process.env.TASKMASTER_CANCEL_SECONDS ?? 8);
const PER_SECOND = 200;
const TICK_MS = 50;
const CONNECTIONS = 4;
/** Number of polls that wait at any time. Few, because many calls would use several connections. */
const WAITING = 40;

/** Polls of one queue that are cancelled and repeated all the time, over a few connections. */
class RestlessPolls implements Disposable {
  readonly #queue: string;
  readonly #clients: readonly WireClient[];
  readonly #open: AbortController[] = [];
  #made = 0;
  /** Replies and errors of polls that were not cancelled. */
  readonly surprises: unknown[] = [];
  cancelled = 0;

  constructor(endpoint: string, queue: string) {
    this.#queue = queue;
    this.#clients = Array.from({ length: CONNECTIONS }, () => new WireClient(endpoint));
  }

  async run(seconds: number): Promise<void> {
    this.#poll(WAITING);
    for await (const began of setInterval(TICK_MS, performance.now())) {
      const passed = Math.min(seconds, (performance.now() - began) / 1_000);
      // No poll of this turn: grpc-js would not tell the server of its cancellation.
      const due = Math.min(WAITING, Math.floor(passed * PER_SECOND) - this.cancelled);
      for (let more = 0; more < due; more++) this.#cancel();
      if (passed === seconds && due < WAITING) break;
      this.#poll(due);
    }
    while (this.#open.length > 0) this.#cancel();
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients) client[Symbol.dispose]();
  }

  #cancel(): void {
    this.#open.shift()?.abort();
    this.cancelled++;
  }

  #poll(count: number): void {
    for (let more = 0; more < count; more++) {
      const cancel = new AbortController();
      const client = this.#clients[this.#made++ % CONNECTIONS];
      const poll = client?.lease({ queues: [this.#queue], waitMs: 600_000 }, { signal: cancel.signal });
      poll?.then(
        (reply) => this.surprises.push(reply),
        (error: unknown) => {
          if (!cancel.signal.aborted) this.surprises.push(error);
        },
      );
      this.#open.push(cancel);
    }
  }
}

/** Works on its own queues until it is stopped, without retries. Resolves with the number of its calls. */
async function workBeside(endpoint: string, queue: string, stop: AbortSignal, failures: unknown[]): Promise<number> {
  await using client = await connect({ endpoints: endpoint, retry: { maxAttempts: 1 } });
  using wire = new WireClient(endpoint);
  const jobs = client.queue<number>(queue);
  let calls = 0;
  const made = async (call: () => Promise<unknown>): Promise<void> => {
    await call().catch((error: unknown) => failures.push(error));
    calls++;
  };
  while (!stop.aborted) {
    await made(() => jobs.enqueue(calls));
    await made(async () => {
      for (const task of await jobs.lease()) await task.complete();
    });
    await made(() => wire.update({ enqueue: [anEnqueue({ queue: `${queue}-wire` })] }));
    await made(() => wire.lease({ queues: [`${queue}-wire`] }));
    await made(() => client.stats());
  }
  return calls;
}

describe('polls that are cancelled all the time', { timeout: 120_000 + 3_000 * SECONDS }, () => {
  let cluster: TestCluster;
  let proxy: RunningProxy;
  /** A group that the second node holds. */
  let group: string;
  beforeAll(async () => {
    cluster = await TestCluster.start({ nodes: 2 });
    proxy = await startProxy(cluster.endpoints);
    const { partitions } = await cluster.inPlace();
    const isThere = (name: string): boolean => partitions[partitionOf(name, partitions.length)]?.holder?.name === 'b';
    group = Array.from({ length: 1_000 }, (_, i) => `g${i}`).find(isThere) ?? '';
    expect(group).not.toBe('');
  }, 120_000);
  afterAll(async () => {
    await proxy[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });

  test.each([
    ['a proxy', () => proxy.endpoint],
    ['a node that forwards them', () => cluster.node('a').endpoint],
  ])('through %s do not affect other calls, and hold no task', async (way, endpointOf) => {
    const endpoint = endpointOf();
    const queue = `${group}#${way.replaceAll(' ', '-')}`;
    const failures: unknown[] = [];
    const stop = new AbortController();
    const beside = Promise.all([1, 2].map((i) => workBeside(endpoint, `${queue}-${i}`, stop.signal, failures)));
    using polls = new RestlessPolls(endpoint, queue);
    const running = polls.run(SECONDS);
    // They have arrived at the holder.
    await eventually(async () => expect(await waitingLeases(cluster.node('b').httpPort)).toBeGreaterThan(0));
    await running;
    stop.abort();
    const calls = (await beside).reduce((sum, each) => sum + each, 0);
    console.log(
      `${polls.cancelled} polls cancelled in ${SECONDS} s through ${way}: ${failures.length} of ${calls} other calls failed`,
    );
    expect(failures).toEqual([]);
    expect(polls.surprises).toEqual([]);

    await eventually(async () => {
      for (const { httpPort } of cluster.running) expect(await waitingLeases(httpPort)).toBe(0);
    });
    using newcomer = new WireClient(endpoint);
    for (let task = 0; task < 20; task++) {
      await newcomer.update({ enqueue: [anEnqueue({ queue })] });
      expect((await newcomer.lease({ queues: [queue] })).tasks).toHaveLength(1);
    }
  });
});

async function waitingLeases(httpPort: number): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  return Number(/^taskmaster_waiting_leases (\d+)$/m.exec(metrics)?.[1]);
}
