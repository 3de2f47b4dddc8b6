import { bytesCodec, type Queue, type TaskMasterClient } from '@taskmaster/client';
import type { TaskMasterServiceClient } from '@taskmaster/proto';
import { payload } from '../load/payload.ts';
import { dequeueOf, leaseTasks, newTasks, updateTasks } from '../load/stub-calls.ts';

/*
 * The work of B1 to B6 in rounds: a round begins when all calls of the previous one are answered. The calls of a round are made
 * in one turn and fit into one message, so they arrive, are committed and are answered together, even on a slow machine. So the
 * counted figures are the same in every run.
 */

/** Tasks of one run. */
export const TASKS = 200;
/** Number of calls of a round, which the typed client joins, and number of tasks in a batch. */
const TOGETHER = 50;
const QUEUE = 'guard';

/** The clients of the measured server. */
interface Parties {
  readonly stub: TaskMasterServiceClient;
  readonly client: TaskMasterClient;
}

export interface GuardedWorkload {
  readonly row: string;
  readonly about: string;
  /** Prepares connections, compiled code and the tasks to lease. Not counted. */
  prepare(parties: Parties): Promise<void>;
  /** Processes `TASKS` tasks. */
  run(parties: Parties): Promise<void>;
}

export const guardedWorkloads: readonly GuardedWorkload[] = [
  {
    row: 'B1',
    about: 'enqueue one, plain stub, one at a time',
    prepare: ({ stub }) => enqueue(stub, 1),
    async run({ stub }) {
      for (let task = 0; task < TASKS; task++) await enqueue(stub, 1);
    },
  },
  {
    row: 'B2',
    about: 'lease one, complete it, plain stub, one at a time',
    prepare: ({ stub }) => enqueue(stub, TASKS),
    async run({ stub }) {
      for (let task = 0; task < TASKS; task++) {
        const leased = await leaseTasks(stub, QUEUE, 1);
        expectTasks(leased, 1);
        await updateTasks(stub, { dequeue: leased.map(dequeueOf) });
      }
    },
  },
  {
    row: 'B3',
    about: `enqueue one, typed client, ${TOGETHER} at a time`,
    prepare: ({ client }) => enqueueTogether(client),
    async run({ client }) {
      for (let round = 0; round < TASKS / TOGETHER; round++) await enqueueTogether(client);
    },
  },
  {
    row: 'B4',
    about: `lease one, complete it, typed client, ${TOGETHER} at a time`,
    async prepare({ stub, client }) {
      await enqueue(stub, TASKS);
      await queueOf(client).stats();
    },
    async run({ client }) {
      const queue = queueOf(client);
      for (let round = 0; round < TASKS / TOGETHER; round++) {
        const leases = await Promise.all(Array.from({ length: TOGETHER }, () => queue.lease()));
        expectTasks(leases.flat(), TOGETHER);
        await Promise.all(leases.flat().map((task) => task.complete()));
      }
    },
  },
  {
    row: 'B5',
    about: `enqueue ${TOGETHER}, typed client, one call at a time`,
    prepare: ({ client }) => enqueueMany(client),
    async run({ client }) {
      for (let call = 0; call < TASKS / TOGETHER; call++) await enqueueMany(client);
    },
  },
  {
    row: 'B6',
    about: `lease ${TOGETHER}, complete them, typed client, one call at a time`,
    async prepare({ stub, client }) {
      await enqueue(stub, TASKS);
      await queueOf(client).stats();
    },
    async run({ client }) {
      for (let call = 0; call < TASKS / TOGETHER; call++) {
        const tasks = await queueOf(client).lease({ max: TOGETHER });
        expectTasks(tasks, TOGETHER);
        const update = client.update();
        for (const task of tasks) update.complete(task);
        await update.commit();
      }
    },
  },
];

/** Throws if a lease got another number of tasks, because the figures would be wrong. */
function expectTasks(tasks: readonly unknown[], count: number): void {
  if (tasks.length !== count) throw new Error(`${tasks.length} tasks were leased instead of ${count}`);
}

async function enqueue(stub: TaskMasterServiceClient, tasks: number): Promise<void> {
  await updateTasks(stub, { enqueue: newTasks(QUEUE, tasks) });
}

async function enqueueTogether(client: TaskMasterClient): Promise<void> {
  const queue = queueOf(client);
  await Promise.all(Array.from({ length: TOGETHER }, () => queue.enqueue(payload())));
}

async function enqueueMany(client: TaskMasterClient): Promise<void> {
  await queueOf(client).enqueueMany(Array.from({ length: TOGETHER }, () => ({ data: payload() })));
}

function queueOf(client: TaskMasterClient): Queue<Uint8Array> {
  return client.queue(QUEUE, { codec: bytesCodec });
}
