import { setTimeout as delay } from 'node:timers/promises';
import { libraryVersion, loadLibrary } from '../libraries.ts';
import { BATCH, type Consumer, type PeerClient, type Work } from './client.ts';
import { payloadText } from './payload.ts';
import { connectPool, POOL, type Pool } from './postgres.ts';

const CONCURRENCY = 500;
const LISTENING_MS = 500;
const CALL = { kind: 'loop', confirmed: true } as const;

/** The parts of the library that are used here. */
interface GraphileWorker {
  readonly Logger: new (factory: () => () => void) => object;
  readonly makeWorkerUtils: (options: object) => Promise<WorkerUtils>;
  readonly run: (options: object) => Promise<Runner>;
}

interface WorkerUtils {
  migrate(): Promise<void>;
  addJob(task: string, payload: object): Promise<unknown>;
  addJobs(jobs: readonly object[]): Promise<readonly unknown[]>;
  release(): Promise<void>;
}

interface Runner {
  readonly events: { on(event: 'job:complete', listener: () => void): unknown };
  stop(): Promise<void>;
}

/** graphile-worker. It has no call that leases: only its runner takes tasks. */
export async function connectGraphileWorker(endpoint: string): Promise<PeerClient> {
  const { Logger, makeWorkerUtils, run } = await loadLibrary<GraphileWorker>('graphile-worker');
  const logger = new Logger(() => () => {});
  const pool = await connectPool(endpoint);
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  const job = () => ({ identifier: 'task', payload: { text: payloadText() } });

  const start = async (
    task: string,
    options: object,
    handled: () => void,
    completed: (tasks: number) => void,
  ): Promise<Consumer> => {
    const own = await connectPool(endpoint);
    const taskList = { [task]: async () => handled() };
    const runner = await run({ pgPool: own, logger, noHandleSignals: true, taskList, ...options });
    runner.events.on('job:complete', () => completed(1));
    return {
      async stop() {
        await runner.stop();
        await own.end();
      },
    };
  };
  const runnerWork = (how: string, options: object): Work => ({
    kind: 'consume',
    // It continues before it knows that a completion is committed.
    confirmed: false,
    how,
    start: (completed) => start('task', { concurrency: CONCURRENCY, ...options }, () => {}, completed),
    left: () => count(pool),
  });
  return {
    version: libraryVersion('graphile-worker'),
    enqueue: {
      ...CALL,
      how: `addJob, ${POOL} connections`,
      async operate() {
        await utils.addJob('task', job().payload);
        return 1;
      },
    },
    enqueueMany: {
      ...CALL,
      how: 'addJobs',
      operate: async () => (await utils.addJobs(Array.from({ length: BATCH }, job))).length,
    },
    worker: runnerWork(`its runner, concurrency ${CONCURRENCY}`, {}),
    leaseCompleteMany: runnerWork(`its runner with a local queue of ${CONCURRENCY} and completions in batches`, {
      preset: { worker: { localQueue: { size: CONCURRENCY }, completeJobBatchDelay: 0 } },
    }),
    waiting: 'its runner, told by LISTEN',
    enqueueToWaiting: async () => void (await utils.addJob('waiting', job().payload)),
    async wait(received) {
      const runner = await start('waiting', { concurrency: 1 }, received, () => {});
      await delay(LISTENING_MS);
      return runner;
    },
    async [Symbol.asyncDispose]() {
      await utils.release();
      await pool.end();
    },
  };
}

async function count(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ readonly jobs: string }>(
    'SELECT count(*) AS jobs FROM graphile_worker._private_jobs',
  );
  return Number(rows[0]?.jobs ?? 0);
}
