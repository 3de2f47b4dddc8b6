import { setTimeout as delay } from 'node:timers/promises';
import { libraryVersion, loadLibrary } from '../libraries.ts';
import { BATCH, type PeerClient } from './client.ts';
import { payloadText } from './payload.ts';
import { connectPool, POOL, postgresAt } from './postgres.ts';

const QUEUE = 'bench';
const WAITING = 'waiting';
const CALL = { kind: 'loop', confirmed: true } as const;
/** Its shortest pause between two polls of the database, in seconds. It is notified of tasks earlier. */
const POLL_S = 0.5;
const LISTENING_MS = 500;

/** The parts of the library that are used here. */
interface PgBossModule {
  readonly PgBoss: new (options: object) => PgBoss;
}

interface PgBoss {
  on(event: 'error', listener: (error: Error) => void): unknown;
  start(): Promise<unknown>;
  stop(options: object): Promise<void>;
  createQueue(name: string, options?: object): Promise<void>;
  send(name: string, data: object): Promise<string | null>;
  insert(name: string, jobs: readonly object[]): Promise<unknown>;
  fetch(name: string, options: object): Promise<readonly { readonly id: string }[]>;
  complete(name: string, ids: readonly string[]): Promise<unknown>;
  work(name: string, options: object, handler: () => Promise<void>): Promise<string>;
  offWork(name: string): Promise<void>;
}

/** pg-boss. Completed jobs stay in its table, as by default. */
export async function connectPgBoss(endpoint: string): Promise<PeerClient> {
  const { PgBoss } = await loadLibrary<PgBossModule>('pg-boss');
  await (await connectPool(endpoint, 1)).end(); // waits until it is up
  const settings = { supervise: false, schedule: false, useListenNotify: true };
  const boss = new PgBoss({ ...postgresAt(endpoint), ...settings, max: POOL });
  boss.on('error', () => {}); // calls reject by themselves
  await boss.start();
  await boss.createQueue(QUEUE);
  await boss.createQueue(WAITING, { notify: true });
  const job = () => ({ data: { text: payloadText() } });
  const leaseComplete = async (batchSize: number): Promise<number> => {
    const jobs = await boss.fetch(QUEUE, { batchSize });
    if (jobs.length === 0) return 0;
    await boss.complete(
      QUEUE,
      jobs.map(({ id }) => id),
    );
    return jobs.length;
  };
  return {
    version: libraryVersion('pg-boss'),
    enqueue: {
      ...CALL,
      how: `send, ${POOL} connections`,
      async operate() {
        await boss.send(QUEUE, job().data);
        return 1;
      },
    },
    enqueueMany: {
      ...CALL,
      how: 'insert',
      async operate() {
        await boss.insert(QUEUE, Array.from({ length: BATCH }, job));
        return BATCH;
      },
    },
    leaseComplete: { ...CALL, how: 'fetch, complete', operate: () => leaseComplete(1) },
    leaseCompleteMany: { ...CALL, how: `fetch ${BATCH}, complete them`, operate: () => leaseComplete(BATCH) },
    waiting: 'work, told by LISTEN',
    enqueueToWaiting: async () => void (await boss.send(WAITING, job().data)),
    async wait(received) {
      await boss.work(WAITING, { batchSize: 1, pollingIntervalSeconds: POLL_S }, async () => received());
      await delay(LISTENING_MS);
      return { stop: () => boss.offWork(WAITING) };
    },
    [Symbol.asyncDispose]: () => boss.stop({ graceful: false, close: true }),
  };
}
