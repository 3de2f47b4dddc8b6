import type { SeededRandom } from '@taskmaster/server/testing';
import type { EnqueueCall, LeasedReply, UpdateCall } from '../../support/history.ts';
import type { SimClient } from './client.ts';

export const GROUPS = ['g0', 'g1', 'g2', 'g3', 'g4', 'g5'] as const;
const STAGES = ['in', 'mid', 'out', 'dead'] as const;
export const QUEUES: readonly string[] = GROUPS.flatMap((group) => STAGES.map((stage) => `${group}#${stage}`));

/** Where a completed task's successor goes; the last stages have none. */
const NEXT_STAGE: Readonly<Record<string, string>> = { in: 'mid', mid: 'out' };
/** Tasks with PIDs from so few collide now and then. */
const SHARED_PIDS = 6;
const MOST_HELD = 6;
/** Long enough to outlast a hand-off or a crash, and short enough to end within the run. */
const LEASES_MS = [80, 300, 1_500, 6_000];

const groupOf = (queue: string): string => queue.slice(0, queue.indexOf('#'));
const stageOf = (queue: string): string => queue.slice(queue.indexOf('#') + 1);

/** Of the same group; not the same task, leased again. */
const isOther = (one: LeasedReply, task: LeasedReply): boolean =>
  groupOf(one.queue) === groupOf(task.queue) && (one.queue !== task.queue || one.pid !== task.pid);

export interface WorkloadOptions {
  readonly client: SimClient;
  readonly random: SeededRandom;
  readonly actors: number;
  readonly sleep: (ms: number) => Promise<void>;
  /** Between two calls of an actor at most, in ms. */
  readonly pauseMs: number;
}

/** Users who enqueue, lease, renew, give back, complete and move tasks on, all at once. */
export class Workload {
  readonly #options: WorkloadOptions;
  readonly #acting: Promise<unknown>;
  #stopping = false;
  #named = 0;

  constructor(options: WorkloadOptions) {
    this.#options = options;
    this.#acting = Promise.all(Array.from({ length: options.actors }, () => this.#act(options.random.fork())));
    // Told by `stop`.
    this.#acting.catch(() => {});
  }

  /** Resolves when every call has its outcome. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#acting;
  }

  async #act(random: SeededRandom): Promise<void> {
    const { sleep, pauseMs } = this.#options;
    let held: LeasedReply[] = [];
    while (!this.#stopping) {
      await sleep(random.int(pauseMs));
      if (held.length > 0 && (held.length >= MOST_HELD || random.chance(0.6))) held = await this.#settle(held, random);
      else if (random.chance(0.5)) held = [...held, ...(await this.#lease(random))];
      else if (random.chance(0.15)) await this.#batch(random);
      else await this.#enqueue(random);
    }
  }

  async #enqueue(random: SeededRandom): Promise<void> {
    await this.#options.client.update(this.#newTasks(random));
  }

  #newTasks(random: SeededRandom): UpdateCall {
    const group = random.pick(GROUPS);
    const enqueue = Array.from({ length: 1 + random.int(3) }, () => this.#newTask(random, group, random.pick(STAGES)));
    return this.#update({ enqueue }, random);
  }

  async #batch(random: SeededRandom): Promise<void> {
    await this.#options.client.batch(Array.from({ length: 2 + random.int(2) }, () => this.#newTasks(random)));
  }

  #newTask(random: SeededRandom, group: string, stage: string): EnqueueCall {
    const number = ++this.#named;
    const delayMs = random.chance(0.2) ? random.int(800) : 0;
    const common = {
      queue: `${group}#${stage}`,
      data: `d${number}`,
      delayMs,
      mode: 'collapse',
      retry: undefined,
    } as const;
    switch (random.int(3)) {
      case 0:
        return { ...common, pid: undefined };
      case 1:
        return { ...common, pid: `shared ${random.int(SHARED_PIDS)}`, mode: random.chance(0.5) ? 'fail' : 'collapse' };
      default: {
        // A PID of its own: dead letters of the same PID would replace each other.
        const retry = { maxAttempts: 3, backoffInitialMs: 20, backoffMaxMs: 200, deadLetterQueue: 'dead' };
        return { ...common, pid: `own ${random.int(10)} ${number}`, retry: stage === 'dead' ? undefined : retry };
      }
    }
  }

  async #lease(random: SeededRandom): Promise<readonly LeasedReply[]> {
    const group = random.pick(GROUPS);
    // Most of the time of one group; a proxy asks the others' holders too.
    const queues = random.chance(0.75)
      ? random.shuffle(STAGES.map((stage) => `${group}#${stage}`)).slice(0, 1 + random.int(3))
      : random.shuffle(QUEUES).slice(0, 3);
    return this.#options.client.lease({
      kind: 'lease',
      queues,
      maxTasks: 1 + random.int(4),
      leaseMs: random.pick(LEASES_MS),
      waitMs: random.chance(0.3) ? random.int(400) : 0,
      maxPid: undefined,
      maxBytes: 0,
    });
  }

  /** Does something about a task in hand, in time or too late. Returns what is in hand then. */
  async #settle(held: readonly LeasedReply[], random: SeededRandom): Promise<LeasedReply[]> {
    const { client } = this.#options;
    const task = random.pick(held);
    const { queue, pid, token } = task;
    const item = { queue, pid, token };
    const kind = random.int(20);
    if (kind < 4) {
      await client.update(this.#update({ renew: [{ ...item, leaseMs: random.pick(LEASES_MS) }] }, random));
      return [...held];
    }
    const rest = held.filter((other) => other !== task);
    if (kind < 6) return rest; // given up: its lease runs out
    if (kind < 8) {
      const delayMs = random.chance(0.5) ? random.int(300) : undefined;
      await client.update(this.#update({ release: [{ ...item, delayMs, refund: random.chance(0.5) }] }, random));
      return rest;
    }
    if (kind < 10) {
      // It starts over: a fresh task in its place.
      const fresh = this.#newTask(random, groupOf(queue), stageOf(queue));
      const enqueue = [{ ...fresh, pid, mode: 'collapse', retry: undefined } as const];
      await client.update(this.#update({ enqueue, dequeue: [item] }, random));
      return rest;
    }
    const [group, next] = [groupOf(queue), NEXT_STAGE[stageOf(queue)]];
    const enqueue = next === undefined ? [] : [this.#newTask(random, group, next)];
    // Without a PID nothing can collapse: the whole step must be seen.
    if (next !== undefined && random.chance(0.4))
      enqueue.push({ ...this.#newTask(random, group, next), pid: undefined, retry: undefined });
    const another = random.chance(0.3) ? rest.find((other) => isOther(other, task)) : undefined;
    const dequeue = [item, ...(another ? [{ queue: another.queue, pid: another.pid, token: another.token }] : [])];
    await client.update(this.#update({ enqueue, dequeue }, random));
    return rest.filter((other) => other !== another);
  }

  #update(change: Partial<UpdateCall>, random: SeededRandom): UpdateCall {
    const requestId = random.chance(0.75) ? `id-${++this.#named}` : undefined;
    return { kind: 'update', enqueue: [], dequeue: [], renew: [], release: [], requestId, ...change };
  }
}
