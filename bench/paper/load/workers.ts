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

/** Runs workers with several threads each until the time is over, the tasks are done, or one worker finds no task. */
export async function runWorkers(connections: Connections, load: WorkersLoad): Promise<WorkersResult> {
  const callers = await Promise.all(load.groups.map((_, number) => openCaller(connections, load, `worker ${number}`)));
  const { maxTasks = Number.POSITIVE_INFINITY } = load;
  const locks = new KeyedLock();
  const meter = new WorkersMeter(load);
  const thread = async (operate: () => Promise<Done>): Promise<void> => {
    while (!meter.isOver && meter.allTasks < maxTasks) {
      const done = await operate();
      if (done === undefined) meter.dry();
      else meter.record(done.tasks, done.latencyMs);
    }
  };
  await Promise.all(
    callers.flatMap((caller, number) => {
      const operate = operationOf(caller, load, load.groups[number] ?? '', locks);
      return Array.from({ length: load.threads }, () => thread(operate));
    }),
  );
  return meter.result(callers.reduce((sum, { refused }) => sum + refused, 0));
}

function operationOf(caller: Caller, load: WorkersLoad, group: string, locks: KeyedLock): () => Promise<Done> {
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
      return () => {
        const tasks: NewTask[] = [];
        for (let i = 0; i < batch; i++) {
          tasks.push({ queue: queues[turn++ % queues.length] ?? '', pid: pid(), data: payload() });
        }
        return timed(batch, () => caller.enqueue(tasks, 'collapse'));
      };
    }
    case 'lease-dequeue':
      return async () => {
        const from = turn++ % queues.length;
        const began = performance.now();
        const leased = await caller.lease([...queues.slice(from), ...queues.slice(0, from)], batch);
        const latencyMs = performance.now() - began;
        if (leased === undefined) return undefined;
        await leased.dequeue();
        return { tasks: leased.tasks, latencyMs };
      };
    case 'replace': {
      const [queue = ''] = queues;
      return () => {
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
