import { describe, expect, test } from 'vitest';
import { BATCH, type PeerClient, type Work } from './clients/client.ts';
import { consume, PeerLoad } from './workloads.ts';

/** A queue in memory. Every answer takes one turn of the event loop. */
class Counted {
  tasks = 0;
  enqueued = 0;
  readonly turn = () => new Promise<void>((resolve) => setImmediate(resolve));

  add(tasks: number): Work & { readonly kind: 'loop' } {
    return this.#loop(async () => {
      this.tasks += tasks;
      this.enqueued += tasks;
      await this.turn();
      return tasks;
    });
  }

  take(most: number): Work {
    return this.#loop(async () => {
      const taken = Math.min(most, this.tasks);
      this.tasks -= taken;
      await this.turn();
      return taken;
    });
  }

  /** A consumer that reports `told` completed tasks for each batch. */
  consumer(told: number, left?: () => Promise<number>): Work & { readonly kind: 'consume' } {
    const start = async (completed: (tasks: number) => void) => {
      let isOver = false;
      const taking = (async () => {
        for (; !isOver && this.tasks > 0; await this.turn()) {
          this.tasks -= Math.min(this.tasks, BATCH);
          completed(told);
        }
      })();
      return {
        async stop() {
          isOver = true;
          await taking;
        },
      };
    };
    return { kind: 'consume', confirmed: left === undefined, how: '', start, ...(left && { left }) };
  }

  #loop(operate: () => Promise<number>): Work & { readonly kind: 'loop' } {
    return { kind: 'loop', confirmed: true, how: '', operate };
  }
}

function clientOf(queue: Counted, more: Partial<PeerClient> = {}): PeerClient {
  return {
    version: '',
    enqueue: queue.add(1),
    enqueueMany: queue.add(BATCH),
    waiting: 'in memory',
    enqueueToWaiting: async () => {},
    wait: async () => ({ stop: async () => {} }),
    [Symbol.asyncDispose]: async () => {},
    ...more,
  };
}

describe('a workload', () => {
  test('that takes tasks is prepared for the rate of the warm-up', async () => {
    const queue = new Counted();
    const load = new PeerLoad(clientOf(queue, { leaseComplete: queue.take(1) }));
    const result = await load.run({ workload: 'lease-complete-single', ms: 30, tasks: 0 });
    expect(result).toMatchObject({ confirmed: true });
    expect(result?.tasks).toBeGreaterThan(0);
    expect(queue.enqueued).toBeGreaterThanOrEqual(10_000);
  });

  test('is left out if the system has no calls for it', async () => {
    const load = new PeerLoad(clientOf(new Counted()));
    expect(await load.run({ workload: 'lease-complete-50', ms: 10, tasks: 0 })).toBeUndefined();
  });

  test('of memory leaves the tasks in the queue', async () => {
    const queue = new Counted();
    const result = await new PeerLoad(clientOf(queue)).run({ workload: 'memory-1m', ms: 10, tasks: 1_000 });
    expect(queue.tasks).toBeGreaterThanOrEqual(1_000);
    expect(result?.tasks).toBe(queue.tasks);
  });

  test('of hand-overs has one latency for each task', async () => {
    let received = () => {};
    const client = clientOf(new Counted(), {
      async wait(onTask) {
        received = onTask;
        return { stop: async () => {} };
      },
      enqueueToWaiting: async () => received(),
    });
    const result = await new PeerLoad(client).run({ workload: 'enqueue-to-waiting', ms: 10, tasks: 3 });
    expect(result).toMatchObject({ tasks: 3, how: 'in memory', p50Ms: expect.any(Number), p99Ms: expect.any(Number) });
  });
});

describe('a consumer', () => {
  test('ends when the queue is empty, without tasks from before its clock', async () => {
    const queue = new Counted();
    queue.tasks = 10 * BATCH;
    const result = await consume(queue.consumer(BATCH), queue.tasks, 60_000);
    expect(result).toMatchObject({ tasks: 9 * BATCH, lateTasks: 0 });
  });

  test('without confirmations is measured by the tasks that the server no longer has', async () => {
    const queue = new Counted();
    queue.tasks = 10 * BATCH;
    const optimistic = queue.consumer(2 * BATCH, async () => queue.tasks);
    const result = await consume(optimistic, queue.tasks, 60_000);
    expect(result.tasks).toBe(10 * BATCH - queue.tasks);
    expect(queue.tasks).toBeGreaterThan(0);
  });
});
