import type { EnqueueCall, LeasedReply, UpdateCall } from '@taskmaster/cli/testing/history';
import type { SeededRandom } from '@taskmaster/engine/testing';
import type { SimClient } from './client.ts';

export const GROUPS = ['g0', 'g1', 'g2', 'g3', 'g4', 'g5'] as const;
const STAGES = ['in', 'mid', 'out', 'dead'] as const;
export const QUEUES: readonly string[] = GROUPS.flatMap((group) => STAGES.map((stage) => `${group}#${stage}`));

/** The stage that follows each stage. The last stages have none. */
const NEXT_STAGE: Readonly<Record<string, string>> = { in: 'mid', mid: 'out' };
/** Number of shared PIDs. Few, so that enqueues meet existing tasks. */
const SHARED_PIDS = 6;
const MOST_HELD = 6;
/** Lease durations: some outlast a hand-off or a crash, and all end within the run. */
const LEASES_MS = [80, 300, 1_500, 6_000];

/** How long after its delay a task must start: some start in time. */
const STARTS_WITHIN_MS = [1, 100, 400, 2_000];

/** Without a policy, which names the dead-letter queue, a task that starts too late would be cancelled. */
const PLAIN = { retry: undefined, startWithinMs: undefined } as const;

const groupOf = (queue: string): string => queue.slice(0, queue.indexOf('#'));
const stageOf = (queue: string): string => queue.slice(queue.indexOf('#') + 1);

/** True for another task of the same group, but not for a later lease of the same task. */
const isOther = (one: LeasedReply, task: LeasedReply): boolean =>
  groupOf(one.queue) === groupOf(task.queue) && (one.queue !== task.queue || one.pid !== task.pid);

export interface WorkloadOptions {
  readonly client: SimClient;
  readonly random: SeededRandom;
  readonly actors: number;
  readonly sleep: (ms: number) => Promise<void>;
  /** Longest time between two calls of an actor, in ms. */
  readonly pauseMs: number;
  /** True if some tasks must start by an instant. */
  readonly hasStarts: boolean;
}

/** Concurrent users that enqueue, lease, renew, release, complete and move tasks. */
export class Workload {
  readonly #options: WorkloadOptions;
  readonly #acting: Promise<unknown>;
  #stopping = false;
  #named = 0;

  constructor(options: WorkloadOptions) {
    this.#options = options;
    this.#acting = Promise.all(Array.from({ length: options.actors }, () => this.#act(options.random.fork())));
    // `stop` reports its rejection.
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

  #newTasks(random: SeededRandom, group = random.pick(GROUPS)): UpdateCall {
    const enqueue = Array.from({ length: 1 + random.int(3) }, () => this.#newTask(random, group, random.pick(STAGES)));
    return this.#update({ enqueue }, random);
  }

  async #batch(random: SeededRandom): Promise<void> {
    const { client } = this.#options;
    const updates = 2 + random.int(3);
    if (random.chance(0.5)) {
      await client.batch(Array.from({ length: updates }, () => this.#newTasks(random)));
      return;
    }
    const group = random.pick(GROUPS);
    const parts = Array.from({ length: updates }, () => this.#newTasks(random, group));
    await client.parts(
      parts.map((part) => ({ ...part, requestId: undefined })),
      `parts ${++this.#named}`,
    );
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
        // Its own PID, because dead letters with the same PID replace each other.
        const retry = { maxAttempts: 3, backoffInitialMs: 20, backoffMaxMs: 200, deadLetterQueue: 'dead' };
        const pid = `own ${random.int(10)} ${number}`;
        if (stage === 'dead') return { ...common, pid };
        if (!this.#options.hasStarts || random.chance(0.3)) return { ...common, pid, retry };
        return { ...common, pid, retry, startWithinMs: delayMs + random.pick(STARTS_WITHIN_MS) };
      }
    }
  }

  async #lease(random: SeededRandom): Promise<readonly LeasedReply[]> {
    const group = random.pick(GROUPS);
    // Mostly queues of one group. For several groups a proxy asks several nodes.
    const queues = random.chance(0.75)
      ? random.shuffle(STAGES.map((stage) => `${group}#${stage}`)).slice(0, 1 + random.int(3))
      : random.shuffle(QUEUES).slice(0, 3);
    return this.#options.client.lease({
      kind: 'lease',
      queues,
      maxTasks: 1 + random.int(4),
      leaseDurationMs: random.pick(LEASES_MS),
      waitMs: random.chance(0.3) ? random.int(400) : 0,
      maxPid: undefined,
      maxBytes: 0,
    });
  }

  /** Renews, releases, moves or completes a held task, in time or too late. Returns the tasks that are held afterwards. */
  async #settle(held: readonly LeasedReply[], random: SeededRandom): Promise<LeasedReply[]> {
    const { client } = this.#options;
    const task = random.pick(held);
    const { queue, pid, token } = task;
    const item = { queue, pid, token };
    const kind = random.int(20);
    if (kind < 4) {
      await client.update(this.#update({ renew: [{ ...item, leaseDurationMs: random.pick(LEASES_MS) }] }, random));
      return [...held];
    }
    const rest = held.filter((other) => other !== task);
    if (kind < 6) return rest; // abandoned: its lease expires
    if (kind < 8) {
      const delayMs = random.chance(0.5) ? random.int(300) : undefined;
      await client.update(this.#update({ release: [{ ...item, delayMs, refund: random.chance(0.5) }] }, random));
      return rest;
    }
    if (kind < 10) {
      // A new task with the same PID replaces it.
      const fresh = this.#newTask(random, groupOf(queue), stageOf(queue));
      const enqueue = [{ ...fresh, ...PLAIN, pid, mode: 'collapse' } as const];
      await client.update(this.#update({ enqueue, dequeue: [item] }, random));
      return rest;
    }
    const [group, next] = [groupOf(queue), NEXT_STAGE[stageOf(queue)]];
    const enqueue = next === undefined ? [] : [this.#newTask(random, group, next)];
    // A task without a PID cannot collapse, so both parts of the update must be seen.
    if (next !== undefined && random.chance(0.4))
      enqueue.push({ ...this.#newTask(random, group, next), ...PLAIN, pid: undefined });
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
