import type { TaskMasterClient } from '@taskmaster/client';
import type { Meter } from '../measure/meter.ts';
import { Calls, type CallsParts, groupOf, type LoadTask, type TaskToAdd } from './calls.ts';
import { addsInsteadOf, OPERATIONS, type Operation, takesInsteadOf } from './operations.ts';
import { Choice, type LoadRandom, zipfWeights } from './random.ts';
import { type Instance, queuesOf, type Workload } from './settings.ts';

export interface GeneratorParts extends CallsParts {
  /** Operations use them in turn. */
  readonly clients: readonly TaskMasterClient[];
  readonly workload: Workload;
  readonly instance: Instance;
  readonly random: LoadRandom;
  /** Largest number of tasks that the history may hold. Beyond it no tasks are added. */
  readonly mostTasksHeld: number;
}

/** Tasks that `peek` reads. */
const PEEKED_TASKS = 10;

/** Makes the operations of a load, in a random order that depends only on the seed and on the answers. */
export class Generator {
  readonly #parts: GeneratorParts;
  readonly #calls: Calls;
  readonly #meter: Meter;
  readonly #queues: readonly string[];
  readonly #byGroup = new Map<string, readonly string[]>();
  readonly #operation: Choice;
  readonly #queue: Choice;
  #turn = 0;

  constructor(parts: GeneratorParts) {
    const { workload, instance } = parts;
    this.#parts = parts;
    this.#calls = new Calls(parts);
    this.#meter = parts.meter;
    this.#queues = queuesOf(workload, instance);
    for (const queue of this.#queues) {
      const group = groupOf(queue);
      this.#byGroup.set(group, [...(this.#byGroup.get(group) ?? []), queue]);
    }
    this.#operation = new Choice(OPERATIONS.map((name) => workload.mix[name]));
    this.#queue = new Choice(zipfWeights(this.#queues.length, workload.skew));
  }

  /** Makes the next operation. Its latency counts from `dueAt`. Resolves with whether all its calls have succeeded. */
  operate(dueAt: number): Promise<boolean> {
    const { random, clients, workload } = this.#parts;
    const client = clients[this.#turn++ % clients.length];
    const operation = this.#allowed(OPERATIONS[this.#operation.pick(random)] ?? 'work');
    const queue = this.#queues[this.#queue.pick(random)];
    if (client === undefined || queue === undefined) throw new TypeError('a load needs a client and a queue');
    switch (operation) {
      case 'enqueue':
        return this.#calls.change(client, 'enqueue', dueAt, { enqueue: this.#newTasks(queue, workload.batch, 0) });
      case 'delay': {
        const delayMs = random.between(1, workload.delayMs);
        return this.#calls.change(client, 'enqueue', dueAt, {
          enqueue: this.#newTasks(queue, workload.batch, delayMs),
        });
      }
      case 'peek':
        return this.#calls.read('peek', dueAt, async () => {
          return (await client.queue(queue).peek({ limit: PEEKED_TASKS, data: false })).length;
        });
      case 'stats':
        return this.#calls.read('stats', dueAt, async () => {
          await client.queue(queue).stats();
          return 0;
        });
      default:
        return this.#leaseAnd(operation, client, queue, dueAt);
    }
  }

  /** Keeps the number of tasks near the backlog, and the history within its bound. */
  #allowed(operation: Operation): Operation {
    const { workload, history, mostTasksHeld } = this.#parts;
    const { openTasks } = this.#meter;
    const isFull = (history?.held ?? 0) >= mostTasksHeld;
    if (isFull || openTasks >= workload.backlog * 2) {
      return isFull && operation === 'pipeline' ? 'work' : (takesInsteadOf[operation] ?? operation);
    }
    return openTasks < workload.backlog / 2 ? (addsInsteadOf[operation] ?? operation) : operation;
  }

  async #leaseAnd(
    operation: 'work' | 'renew' | 'pipeline' | 'release' | 'abandon',
    client: TaskMasterClient,
    queue: string,
    dueAt: number,
  ): Promise<boolean> {
    const { workload, timing } = this.#parts;
    const { batch: max, leaseDurationMs, waitMs } = workload;
    const tasks = await this.#calls.lease(client, dueAt, { queue, max, leaseDurationMs, waitMs });
    if (tasks === undefined) return false;
    if (tasks.length === 0) return true;
    const now = timing.now();
    switch (operation) {
      case 'abandon':
        return true;
      case 'release':
        return this.#calls.change(client, 'release', now, { release: tasks });
      case 'pipeline':
        return this.#calls.change(client, 'pipeline', now, { complete: tasks, enqueue: this.#nextTasks(tasks) });
      case 'renew': {
        const renewed = await this.#calls.change(client, 'renew', now, { renew: tasks, renewForMs: leaseDurationMs });
        return renewed && this.#calls.change(client, 'complete', timing.now(), { complete: tasks });
      }
      case 'work':
        return this.#calls.change(client, 'complete', now, { complete: tasks });
      default:
        return operation satisfies never;
    }
  }

  #newTasks(queue: string, tasks: number, delayMs: number): TaskToAdd[] {
    return Array.from({ length: tasks }, () => this.#newTask(queue, delayMs));
  }

  /** The tasks after these, in a queue of the same group. */
  #nextTasks(tasks: readonly LoadTask[]): TaskToAdd[] {
    const queues = this.#byGroup.get(groupOf(tasks[0]?.queue ?? '')) ?? [];
    return tasks.map(({ queue }) => {
      const next = queues[this.#parts.random.between(0, queues.length - 1)] ?? queue;
      return this.#newTask(next, 0);
    });
  }

  #newTask(queue: string, delayMs: number): TaskToAdd {
    const { random, workload } = this.#parts;
    const bytes = random.between(workload.payloadMinBytes, workload.payloadMaxBytes);
    // Of two random numbers, so that no two tasks of a run have the same.
    const part = (): string => random.between(0, 0x7fff_ffff).toString(16).padStart(8, '0');
    return { queue, bytes, delayMs, pid: workload.pids === 'random' ? part() + part() : undefined };
  }
}
