import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { bytesCodec, type LeaseRef, type Queue, type TaskMasterClient } from '@taskmaster/client';
import { type Dequeue, EnqueueMode, NO_ENTRIES, type TaskMasterServiceClient } from '@taskmaster/proto';
import type { Connections } from '../../load/connections.ts';
import { dequeueOf, LEASE_MS, leaseTasks, updateTasks } from '../../load/stub-calls.ts';
import type { WorkersLoad } from './workers-load.ts';

/** Time before the retry of a call that was refused as OVERLOADED, as the node asks for, in ms. */
const REFUSED_MS = 100;
const NO_BYTES = new Uint8Array(0);

export interface NewTask {
  readonly queue: string;
  /** Undefined: the node assigns the PID. */
  readonly pid: Uint8Array | undefined;
  readonly data: Uint8Array;
}

/** The calls of one worker. */
export interface Caller {
  /** Number of calls that the node refused and that were retried. */
  readonly refused: number;
  enqueue(tasks: readonly NewTask[], mode: 'collapse' | 'replace'): Promise<void>;
  /** Resolves with a function that dequeues the tasks; undefined if there are none. */
  lease(
    queues: readonly string[],
    max: number,
  ): Promise<{ readonly tasks: number; dequeue(): Promise<void> } | undefined>;
}

export async function openCaller(
  connections: Connections,
  { endpoint, via }: Pick<WorkersLoad, 'endpoint' | 'via'>,
  worker: string,
): Promise<Caller> {
  return via === 'unary'
    ? new StubCaller(await connections.stub(endpoint, worker))
    : new ClientCaller(await connections.client(endpoint, worker));
}

const enqueueModes = {
  collapse: EnqueueMode.ENQUEUE_MODE_COLLAPSE,
  replace: EnqueueMode.ENQUEUE_MODE_REPLACE,
} as const;

class StubCaller implements Caller {
  readonly #stub: TaskMasterServiceClient;
  refused = 0;

  constructor(stub: TaskMasterServiceClient) {
    this.#stub = stub;
  }

  async enqueue(tasks: readonly NewTask[], mode: 'collapse' | 'replace'): Promise<void> {
    const enqueue = tasks.map(({ queue, pid = NO_BYTES, data }) => ({
      queue,
      pid,
      data,
      mode: enqueueModes[mode],
      delayMs: 0,
      runAtUnixMs: 0,
      retry: undefined,
      headers: NO_ENTRIES,
      key: '',
      timeLimitMs: 0,
      limitKey: '',
      topic: '',
    }));
    await this.#untilTaken(() => updateTasks(this.#stub, { enqueue }));
  }

  async lease(queues: readonly string[], max: number) {
    const leased = await this.#untilTaken(() => leaseTasks(this.#stub, queues, max));
    if (leased.length === 0) return undefined;
    const dequeue: Dequeue[] = leased.map(dequeueOf);
    return {
      tasks: leased.length,
      dequeue: async () => void (await this.#untilTaken(() => updateTasks(this.#stub, { dequeue }))),
    };
  }

  /** Retries refused calls, which have changed nothing. */
  async #untilTaken<Reply>(call: () => Promise<Reply>): Promise<Reply> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!isRefused(error)) throw error;
        this.refused++;
        await delay(REFUSED_MS);
      }
    }
  }
}

/** The client retries refused calls itself. */
class ClientCaller implements Caller {
  readonly #client: TaskMasterClient;
  readonly #queues = new Map<string, Queue<Uint8Array>>();
  readonly refused = 0;

  constructor(client: TaskMasterClient) {
    this.#client = client;
  }

  async enqueue(tasks: readonly NewTask[], mode: 'collapse' | 'replace'): Promise<void> {
    const [first, ...others] = tasks;
    if (first === undefined) return;
    if (others.length === 0) {
      await this.#queue(first.queue).enqueue(first.data, { pid: first.pid, mode });
      return;
    }
    const update = this.#client.update();
    for (const { queue, pid, data } of tasks) update.enqueue(this.#queue(queue).task(data, { pid, mode }));
    await update.commit();
  }

  async lease(names: readonly string[], max: number) {
    const queues = names.map((name) => this.#queue(name));
    const leased = await this.#client.lease({ queues, max, leaseDuration: LEASE_MS });
    const [first, ...others] = leased;
    if (first === undefined) return undefined;
    return {
      tasks: leased.length,
      dequeue: async () => {
        if (others.length === 0) await first.complete();
        else await this.#completeAll(leased);
      },
    };
  }

  async #completeAll(leased: readonly LeaseRef[]): Promise<void> {
    const update = this.#client.update();
    for (const task of leased) update.complete(task);
    await update.commit();
  }

  #queue(name: string): Queue<Uint8Array> {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = this.#client.queue(name, { codec: bytesCodec });
      this.#queues.set(name, queue);
    }
    return queue;
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === status.RESOURCE_EXHAUSTED;
}
