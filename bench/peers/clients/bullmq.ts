import { libraryVersion, loadLibrary } from '../libraries.ts';
import { BATCH, hostAndPort, type PeerClient } from './client.ts';
import { payloadText } from './payload.ts';

const QUEUE = 'bench';
const WAITING = 'waiting';
const CONCURRENCY = 500;
const TOKEN = 'bench';
const CALL = { kind: 'loop', confirmed: true } as const;

/** The parts of the library that are used here. */
interface BullMq {
  readonly Queue: new (name: string, options: object) => Queue;
  readonly Worker: new (name: string, handler: (() => Promise<string>) | null, options: object) => Worker;
}

interface Queue {
  waitUntilReady(): Promise<unknown>;
  add(name: string, data: object): Promise<unknown>;
  addBulk(jobs: readonly object[]): Promise<readonly unknown[]>;
  close(): Promise<void>;
}

interface Worker {
  waitUntilReady(): Promise<unknown>;
  getNextJob(token: string, options: { readonly block: boolean }): Promise<QueuedJob | undefined>;
  on(event: 'completed' | 'error', listener: (what: unknown) => void): unknown;
  close(): Promise<void>;
}

interface QueuedJob {
  moveToCompleted(value: string, token: string, fetchNext: boolean): Promise<unknown>;
}

/** BullMQ on Redis. Completed jobs are removed. */
export async function connectBullMq(endpoint: string): Promise<PeerClient> {
  const { Queue, Worker } = await loadLibrary<BullMq>('bullmq');
  const connection = { ...hostAndPort(endpoint), maxRetriesPerRequest: null };
  const defaultJobOptions = { removeOnComplete: true, removeOnFail: true };
  const queue = new Queue(QUEUE, { connection, defaultJobOptions });
  const toWaiting = new Queue(WAITING, { connection, defaultJobOptions });
  const hand = new Worker(QUEUE, null, { connection, autorun: false });
  const ends: (() => Promise<void>)[] = [() => hand.close(), () => queue.close(), () => toWaiting.close()];
  await Promise.all([queue, toWaiting, hand].map((one) => one.waitUntilReady()));

  const run = async (name: string, concurrency: number, handler: () => Promise<string>) => {
    const worker = new Worker(name, handler, { connection, concurrency });
    const failed: unknown[] = [];
    worker.on('error', (error) => failed.push(error));
    await worker.waitUntilReady();
    return {
      worker,
      async stop() {
        await worker.close();
        if (failed.length > 0) throw failed[0];
      },
    };
  };

  return {
    version: `${libraryVersion('bullmq')} + ${libraryVersion('ioredis')}`,
    enqueue: {
      ...CALL,
      how: 'queue.add',
      async operate() {
        await queue.add('task', { text: payloadText() });
        return 1;
      },
    },
    enqueueMany: {
      ...CALL,
      how: 'queue.addBulk',
      async operate() {
        const jobs = Array.from({ length: BATCH }, () => ({ name: 'task', data: { text: payloadText() } }));
        return (await queue.addBulk(jobs)).length;
      },
    },
    leaseComplete: {
      ...CALL,
      how: 'worker.getNextJob, job.moveToCompleted without fetching the next',
      async operate() {
        const job = await hand.getNextJob(TOKEN, { block: false });
        await job?.moveToCompleted('', TOKEN, false);
        return job === undefined || job === null ? 0 : 1;
      },
    },
    worker: {
      kind: 'consume',
      confirmed: true,
      how: `Worker, concurrency ${CONCURRENCY}`,
      async start(completed) {
        const { worker, stop } = await run(QUEUE, CONCURRENCY, async () => '');
        worker.on('completed', () => completed(1));
        return { stop };
      },
    },
    waiting: 'a Worker that blocks',
    enqueueToWaiting: async () => void (await toWaiting.add('task', { text: payloadText() })),
    async wait(received) {
      return run(WAITING, 1, async () => {
        received();
        return '';
      });
    },
    async [Symbol.asyncDispose]() {
      for (const end of ends) await end();
    },
  };
}
