import { randomBytes } from 'node:crypto';
import type { Connections } from '../../load/connections.ts';
import { type Caller, type NewTask, openCaller } from './callers.ts';
import { KeyedLock } from './keyed-lock.ts';
import { queueName, type WorkersLoad, type WorkersResult } from './workers-load.ts';
import { WorkersMeter } from './workers-meter.ts';

const PID_BYTES = 16;
/** Number of random bytes that are generated at once for PIDs. */
const RANDOM_BYTES = PID_BYTES * 4_096;
/** Number of different payloads. */
const PAYLOADS = 64;

/** The result of a call; undefined: no task is left. */
type Done = { readonly tasks: number; readonly latencyMs: number } | undefined;

/** Repeats one operation. */
type Thread = () => Promise<Done>;

/** Runs workers with several threads each until the time is over, the tasks are done, or one worker finds no task. */
export async function runWorkers(connections: Connections, load: WorkersLoad): Promise<WorkersResult> {
  const open = (_: string, number: number) => openCaller(connections, load, `worker ${number}`);
  return runCallers(await Promise.all(load.groups.map(open)), load);
}

/** The same for open callers, one for each group. `now`: in ms since any fixed moment. */
export async function runCallers(
  callers: readonly Caller[],
  load: WorkersLoad,
  now?: () => number,
): Promise<WorkersResult> {
  const { maxTasks = Number.POSITIVE_INFINITY } = load;
  const locks = new KeyedLock();
  const threads = await Promise.all(
    callers.flatMap((caller, worker) => {
      const threadOf = threadsOf(caller, load, load.groups[worker] ?? '', locks);
      return Array.from({ length: load.threads }, (_, number) => threadOf(worker + number));
    }),
  );
  const meter = new WorkersMeter(load, now);
  const run = async (operate: Thread): Promise<void> => {
    while (!meter.isOver && meter.allTasks < maxTasks) {
      const done = await operate();
      if (done === undefined) meter.dry();
      else meter.record(done.tasks, done.latencyMs);
    }
  };
  await Promise.all(threads.map(run));
  return meter.result(callers.reduce((sum, { refused }) => sum + refused, 0));
}

/** Makes the threads of a worker. Threads with odd numbers may begin with another call than those with even numbers. */
function threadsOf(
  caller: Caller,
  load: WorkersLoad,
  group: string,
  locks: KeyedLock,
): (number: number) => Thread | Promise<Thread> {
  const { operation, batch } = load;
  const queues = Array.from({ length: load.queues }, (_, number) => queueName(group, number));
  const payload = payloadsOf(load.taskBytes);
  const timed = async (tasks: number, call: () => Promise<void>): Promise<Done> => {
    const began = performance.now();
    await call();
    return { tasks, latencyMs: performance.now() - began };
  };
  let turn = 0;
  switch (operation.kind) {
    case 'enqueue': {
      const pid = operation.pids === 'random' ? randomPids() : () => undefined;
      return () => () => {
        const tasks: NewTask[] = [];
        for (let i = 0; i < batch; i++) {
          tasks.push({ queue: queues[turn++ % queues.length] ?? '', pid: pid(), data: payload() });
        }
        return timed(batch, () => caller.enqueue(tasks, 'collapse'));
      };
    }
    case 'lease-dequeue': {
      const lease = async () => {
        const from = turn++ % queues.length;
        const began = performance.now();
        const leased = await caller.lease([...queues.slice(from), ...queues.slice(0, from)], batch);
        return leased && { ...leased, latencyMs: performance.now() - began };
      };
      return async (number) => {
        // A node answers calls in order. So threads that all begin with a lease stay in step: all lease, then all dequeue, and
        // tasks are done in bursts. Therefore every second thread begins with a dequeue.
        let next = number % 2 === 1 ? await lease() : undefined;
        return async () => {
          const leased = next ?? (await lease());
          next = undefined;
          if (leased === undefined) return undefined;
          await leased.dequeue();
          return { tasks: leased.tasks, latencyMs: leased.latencyMs };
        };
      };
    }
    case 'replace': {
      const [queue = ''] = queues;
      return () => () => {
        const number = Math.floor(Math.random() * operation.tasks);
        const task = { queue, pid: Buffer.from(String(number).padStart(PID_BYTES, '0')), data: payload() };
        const lock = { none: undefined, task: `${queue}/${number}`, queue, all: '' }[operation.locks];
        const update = () => caller.enqueue([task], 'replace');
        return timed(1, lock === undefined ? update : () => locks.run(lock, update));
      };
    }
    default:
      return operation satisfies never;
  }
}

function payloadsOf(bytes: number): () => Uint8Array {
  const payloads = Array.from({ length: PAYLOADS }, () => randomBytes(bytes));
  let next = 0;
  return () => payloads[next++ % PAYLOADS] ?? Buffer.alloc(bytes);
}

function randomPids(): () => Uint8Array {
  let random = Buffer.alloc(0);
  let at = 0;
  return () => {
    if (at === random.length) {
      random = randomBytes(RANDOM_BYTES);
      at = 0;
    }
    at += PID_BYTES;
    return random.subarray(at - PID_BYTES, at);
  };
}
