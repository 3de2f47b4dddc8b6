import { bytesCodec, connect } from '@taskmaster/client';
import { payload } from '../../load/payload.ts';
import { BATCH, type PeerClient } from './client.ts';

const QUEUE = 'bench';
const CONCURRENCY = 500;
const CALL = { kind: 'loop', confirmed: true } as const;

/** This system through its typed client, which joins concurrent calls over one stream. */
export async function connectTaskMaster(endpoint: string): Promise<PeerClient> {
  const client = await connect({ endpoints: endpoint, timeout: '60s' });
  const consumer = await connect({ endpoints: endpoint, timeout: '60s' });
  const queue = client.queue(QUEUE, { codec: bytesCodec });
  const waiting = consumer.queue('waiting', { codec: bytesCodec });
  const toWaiting = client.queue('waiting', { codec: bytesCodec });
  return {
    version: '',
    enqueue: {
      ...CALL,
      how: 'queue.enqueue',
      async operate() {
        await queue.enqueue(payload());
        return 1;
      },
    },
    enqueueMany: {
      ...CALL,
      how: 'queue.enqueueMany',
      async operate() {
        const outcomes = await queue.enqueueMany(Array.from({ length: BATCH }, () => ({ data: payload() })));
        return outcomes.length;
      },
    },
    leaseComplete: {
      ...CALL,
      how: 'queue.lease, task.complete',
      async operate() {
        const [task] = await queue.lease();
        await task?.complete();
        return task === undefined ? 0 : 1;
      },
    },
    leaseCompleteMany: {
      ...CALL,
      how: 'queue.lease, client.update',
      async operate() {
        const tasks = await queue.lease({ max: BATCH });
        if (tasks.length === 0) return 0;
        const update = client.update();
        for (const task of tasks) update.complete(task);
        await update.commit();
        return tasks.length;
      },
    },
    worker: {
      kind: 'consume',
      confirmed: true,
      how: `Worker, concurrency ${CONCURRENCY}`,
      async start(completed) {
        const worker = client.worker(queue, () => {}, {
          concurrency: CONCURRENCY,
          onTaskCompleted: () => completed(1),
        });
        worker.start();
        return { stop: () => worker.stop() };
      },
    },
    waiting: 'a long poll',
    enqueueToWaiting: async () => void (await toWaiting.enqueue(payload())),
    async wait(received) {
      const ended = new AbortController();
      const polling = (async () => {
        while (!ended.signal.aborted) {
          const [task] = await waiting.lease({ wait: '30s', signal: ended.signal }).catch((error: unknown) => {
            if (ended.signal.aborted) return [];
            throw error;
          });
          if (task === undefined) continue;
          received();
          await task.complete();
        }
      })();
      return {
        async stop() {
          ended.abort();
          await polling;
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await client.close();
      await consumer.close();
    },
  };
}
