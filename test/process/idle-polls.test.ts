import { setTimeout as delay } from 'node:timers/promises';
import { connect, type LeasedTask } from '@taskmaster/client';
import type { LeaseTasksResponse } from '@taskmaster/proto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { slowness } from '../support/slowness.ts';
import { anEnqueue, WireClient } from '../support/wire-client.ts';
import { startProgram } from './programs.ts';

const KIB = 1024;
const noFigures = hasFigures ? '' : ' (skipped: needs Linux for figures of processes)';

async function waitersOf({ httpPort }: { readonly httpPort: number }): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  return Number(/^taskmaster_waiting_leases(?:\{.*\})? (\d+)$/m.exec(metrics)?.[1]);
}

/** The fraction of a processor that a process uses, measured for a second. */
async function busyPart(pid: number): Promise<number> {
  const [began, cpuMs] = [performance.now(), figuresOf(pid).cpuMs];
  await delay(1_000);
  return (figuresOf(pid).cpuMs - cpuMs) / (performance.now() - began);
}

describe.skipIf(!hasFigures)(`thousands of long polls that find nothing${noFigures}`, () => {
  /** Starts this many polls. Resolves with a function that ends them. */
  type Way = (endpoint: string, count: number) => Promise<() => Promise<unknown>>;

  const onOneStream: Way = async (endpoint, count) => {
    const client = await connect(endpoint);
    const polls = Array.from({ length: count }, () => client.queue('jobs').lease({ wait: '10m' }));
    const settled = Promise.allSettled(polls);
    return () => Promise.all([client.close(), settled]);
  };

  const onFourConnections: Way = async (endpoint, count) => {
    const cancel = new AbortController();
    const clients = Array.from({ length: 4 }, () => new WireClient(endpoint));
    const poll = (client: WireClient) => client.lease({ waitMs: 600_000 }, { signal: cancel.signal });
    const polls = clients.flatMap((client) => Array.from({ length: count / 4 }, () => poll(client)));
    const settled = Promise.allSettled(polls);
    return async () => {
      cancel.abort();
      await settled;
      for (const client of clients) client[Symbol.dispose]();
    };
  };

  // More than twice the memory that they need after a garbage collection: 5 KiB on a stream, and 18 KiB as separate calls, most
  // of it for the HTTP/2 stream and the call objects of grpc-js.
  test.each([
    ['on one stream', 10_000, onOneStream, 10 * KIB],
    ['as separate calls on 4 connections', 3_000, onFourConnections, 48 * KIB],
  ])('use little memory and processor time %s', { timeout: 120_000 }, async (name, count, poll, mostBytes) => {
    await using node = await startNode({ asShipped: true });
    const before = figuresOf(node.pid).rssBytes;
    const cancel = await poll(node.endpoint, count);
    await eventually(async () => expect(await waitersOf(node)).toBe(count), { withinMs: 60_000 });
    const bytesEach = (figuresOf(node.pid).rssBytes - before) / count;
    // After the node has collected the garbage of the requests.
    const busy = await eventually(async () => {
      const part = await busyPart(node.pid);
      expect(part).toBeLessThan(0.05);
      return part;
    });
    console.log(
      `${count} polls ${name}: ${(bytesEach / KIB).toFixed(1)} KiB each, ${(100 * busy).toFixed(1)} % of a CPU`,
    );
    expect(bytesEach).toBeLessThan(mostBytes);
    await cancel();
    await eventually(async () => expect(await waitersOf(node)).toBe(0), { withinMs: 60_000 });
  });
});

describe('a node', () => {
  let node: RunningNode;
  beforeAll(async () => {
    node = await startNode();
  });
  afterEach(async () => {
    await using client = await connect(node.endpoint);
    await client.queue('jobs').delete();
  });
  afterAll(() => node?.[Symbol.asyncDispose]());

  describe('among 1,000 waiting polls', { timeout: 60_000 }, () => {
    test('an enqueue wakes exactly one, at once, first come first served', async () => {
      const clients = Array.from({ length: 4 }, () => new WireClient(node.endpoint));
      const served: { poll: number; at: number; reply: LeaseTasksResponse }[] = [];
      const cancel = new AbortController();
      for (let poll = 0; poll < 1_000; poll++) {
        const client = clients[poll % clients.length];
        client?.lease({ waitMs: 600_000 }, { signal: cancel.signal }).then(
          (reply) => served.push({ poll, at: performance.now(), reply }),
          () => {},
        );
        // It must stand in line before the next poll arrives over another connection.
        if (poll < 20) await eventually(async () => expect(await waitersOf(node)).toBe(poll + 1));
      }
      await eventually(async () => expect(await waitersOf(node)).toBe(1_000), { withinMs: 30_000 });

      using producer = new WireClient(node.endpoint);
      await producer.stats('jobs');
      const tookMs: number[] = [];
      for (let round = 0; round < 20; round++) {
        const began = performance.now();
        await producer.update({ enqueue: [anEnqueue({ data: Buffer.from([round]) })] });
        const one = await eventually(() => served[round] ?? Promise.reject(new Error('no poll was served')), {
          everyMs: 1,
        });
        tookMs.push(one.at - began);
        expect(one.poll).toBe(round);
        expect(one.reply.tasks.map(({ data }) => data[0])).toEqual([round]);
      }
      expect(served).toHaveLength(20);
      expect(await waitersOf(node)).toBe(980);
      const median = tookMs.toSorted((a, b) => a - b)[10] ?? 0;
      console.log(`from enqueue to the woken poll: median ${median.toFixed(1)} ms`);
      // Usually 10 ms, including both commits (of the task and of its lease) and both replies; the limit allows slow disks.
      expect(median).toBeLessThan(50 * (await slowness()));
      cancel.abort();
      for (const client of clients) client[Symbol.dispose]();
    });

    test('each of 5,000 tasks reaches exactly one poll', async () => {
      await using workers = await connect(node.endpoint);
      await using producer = await connect(node.endpoint);
      const TASKS = 5_000;
      const got: number[] = [];
      const poll = async (): Promise<void> => {
        while (got.length < TASKS) {
          for (const task of await workers
            .queue<number>('jobs')
            .lease({ leaseDuration: '1h', wait: '5m', signal: cancel.signal })) {
            got.push(task.data);
            if (got.length === TASKS) cancel.abort();
          }
        }
      };
      const cancel = new AbortController();
      const polls = Promise.allSettled(Array.from({ length: 100 }, poll));
      for (let number = 0; number < TASKS; ) {
        const some = Array.from({ length: 50 }, () => producer.queue<number>('jobs').enqueue(number++));
        await Promise.all(some);
      }
      await polls;
      expect(got.toSorted((a, b) => a - b)).toEqual(Array.from({ length: TASKS }, (_, number) => number));
      expect(await producer.queue('jobs').stats()).toMatchObject({ available: 0, leased: TASKS });
    });
  });

  describe('a cancelled poll holds no lease', { timeout: 60_000 }, () => {
    test('after its cancellation: the next task goes to a new poll', async () => {
      using client = new WireClient(node.endpoint);
      const cancel = new AbortController();
      const poll = () => client.lease({ waitMs: 600_000, leaseDurationMs: 3_600_000 }, { signal: cancel.signal });
      const polls = Promise.allSettled(Array.from({ length: 1_000 }, poll));
      await eventually(async () => expect(await waitersOf(node)).toBe(1_000), { withinMs: 30_000 });
      cancel.abort();
      await polls;
      using newcomer = new WireClient(node.endpoint);
      await eventually(async () => expect(await waitersOf(node)).toBe(0));
      await newcomer.update({ enqueue: [anEnqueue()] });
      expect((await newcomer.lease({})).tasks).toHaveLength(1);
    });

    test('after its worker was killed', async () => {
      await using client = await connect(node.endpoint);
      await using worker = await startProgram('poll.ts', node.endpoint, 'jobs', 1_000);
      await eventually(async () => expect(await waitersOf(node)).toBe(1_000), { withinMs: 30_000 });
      await worker.kill();
      await eventually(async () => expect(await waitersOf(node)).toBe(0));
      await client.queue('jobs').enqueue('for a living worker');
      expect(await client.queue('jobs').lease()).toHaveLength(1);
    });

    test('even if a task arrives at the moment of the cancellation', async () => {
      await using workers = await connect(node.endpoint);
      await using producer = await connect(node.endpoint);
      const jobs = producer.queue<number>('jobs');
      const kept: LeasedTask<unknown>[] = [];
      const ROUNDS = 200;
      for (let round = 0; round < ROUNDS; round++) {
        const cancel = new AbortController();
        const polls = Array.from({ length: 5 }, () =>
          workers.queue('jobs').lease({ leaseDuration: '1h', wait: '10m', signal: cancel.signal }),
        );
        const enqueued = jobs.enqueue(round);
        if (round % 2 === 0) await enqueued;
        cancel.abort();
        for (const poll of await Promise.allSettled(polls)) if (poll.status === 'fulfilled') kept.push(...poll.value);
        await enqueued;
      }
      await eventually(async () => {
        expect(await jobs.stats()).toMatchObject({ leased: kept.length, available: ROUNDS - kept.length });
      });
    });
  });
});
