import {
  connect,
  isTaskMasterError,
  type LeasedTask,
  pidFromText,
  type Queue,
  type TaskMasterClient,
  TaskMasterError,
  textCodec,
} from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/server/testing';
import { type EnqueueCall, History, type Outcome, type UpdateCall } from '../support/history.ts';

const STAGES = ['in', 'mid', 'out', 'dead'] as const;
const DEFAULT_GROUPS = ['load'] as const;

/** The queues of each group: what is completed in one stage goes on to the next. */
const loadQueues = (groups: readonly string[] = DEFAULT_GROUPS): string[] =>
  groups.flatMap((group) => STAGES.map((stage) => `${group}#${stage}`));

const groupOf = (queue: string): string => queue.slice(0, queue.indexOf('#'));
const stageOf = (queue: string): string => queue.slice(queue.indexOf('#') + 1);

/** Where a completed task's successor goes; the last stages have none. */
const nextStage: Readonly<Record<string, string>> = { in: 'mid', mid: 'out' };

const CLIENTS = 3;
const ACTORS_EACH = 10;
/** Tasks with PIDs from so few collide now and then. */
const SHARED_PIDS = 50;
/** Few enough that leases come back to an actor before it ends. */
const MOST_HELD = 10;
const LARGEST_DATA = 2_000;

export interface MixedLoadOptions {
  readonly endpoints: string | readonly string[];
  readonly seed: number;
  /** Default one, `load`. */
  readonly groups?: readonly string[];
  /** How often a client repeats a call before it fails. Default: as long as its time allows. */
  readonly maxAttempts?: number;
}

/** One thing after the other, as one user of the client would. */
interface Actor {
  readonly client: TaskMasterClient;
  readonly group: string;
  readonly queues: ReadonlyMap<string, Queue<string>>;
  readonly random: SeededRandom;
  held: LeasedTask<string>[];
}

/**
 * Every operation that changes tasks, by many users on several connections, recorded. The client repeats what a dead node
 * did not answer, so nearly every outcome is known in the end.
 */
export class MixedLoad {
  readonly history = new History();
  readonly #clients: readonly TaskMasterClient[];
  readonly #acting: Promise<unknown>;
  #stopping = false;
  #lastData = 0;
  #acknowledged = 0;

  static async start({
    endpoints,
    seed,
    groups = DEFAULT_GROUPS,
    maxAttempts = 10_000,
  }: MixedLoadOptions): Promise<MixedLoad> {
    const retry = { maxAttempts, maxBackoffMs: 200 };
    const connecting = Array.from({ length: CLIENTS }, (_, index) =>
      // One of them without the stream: calls of their own must keep the contract as well.
      connect({ endpoints, timeout: '90s', retry, useStream: index > 0 }),
    );
    return new MixedLoad(await Promise.all(connecting), new SeededRandom(seed), groups);
  }

  private constructor(clients: readonly TaskMasterClient[], random: SeededRandom, groups: readonly string[]) {
    this.#clients = clients;
    const actors = clients.flatMap((client) => {
      const queues = new Map(loadQueues(groups).map((name) => [name, client.queue(name, { codec: textCodec })]));
      return Array.from({ length: ACTORS_EACH }, (_, index): Actor => {
        const group = groups[index % groups.length] ?? 'load';
        return { client, group, queues, random: random.fork(), held: [] };
      });
    });
    this.#acting = Promise.all(actors.map((actor) => this.#act(actor)));
    // Told by `stop`.
    this.#acting.catch(() => {});
  }

  /** Updates that succeeded so far. */
  get acknowledged(): number {
    return this.#acknowledged;
  }

  /** Resolves when every call has its outcome. Rejects with what no call may fail with. */
  async stop(): Promise<void> {
    this.#stopping = true;
    try {
      await this.#acting;
    } finally {
      await Promise.all(this.#clients.map((client) => client.close()));
    }
  }

  async #act(actor: Actor): Promise<void> {
    const { random } = actor;
    while (!this.#stopping) {
      if (actor.held.length > 0 && (actor.held.length >= MOST_HELD || random.chance(0.6))) await this.#settle(actor);
      else if (random.chance(0.45)) await this.#enqueue(actor);
      else await this.#lease(actor);
    }
  }

  async #enqueue(actor: Actor): Promise<void> {
    const { random } = actor;
    const items = Array.from({ length: 1 + random.int(4) }, () =>
      this.#newTask(actor, random.pick(loadQueues([actor.group]))),
    );
    await this.#update(actor, { enqueue: items });
  }

  #newTask({ random }: Actor, queue: string): EnqueueCall {
    const number = ++this.#lastData;
    const data = `${number}:${'.'.repeat(random.int(4) === 0 ? random.int(LARGEST_DATA) : random.int(20))}`;
    const delayMs = random.chance(0.2) ? random.int(300) : 0;
    const common = { queue, data, delayMs, mode: 'collapse', retry: undefined } as const;
    switch (random.int(3)) {
      case 0:
        return { ...common, pid: undefined };
      case 1:
        return { ...common, pid: `shared ${random.int(SHARED_PIDS)}`, mode: random.chance(0.5) ? 'fail' : 'collapse' };
      default: {
        // A PID of its own: dead letters of the same PID would replace each other.
        const retry = { maxAttempts: 3, backoffInitialMs: 50, backoffMaxMs: 200, deadLetterQueue: 'dead' };
        return { ...common, pid: `own ${number}`, retry: stageOf(queue) === 'dead' ? undefined : retry };
      }
    }
  }

  async #lease(actor: Actor): Promise<void> {
    const { client, queues, random, held } = actor;
    // Now and then over queues of several groups, which may be on several nodes.
    const among = random.chance(0.2) ? [...queues.keys()] : loadQueues([actor.group]);
    const names = random.shuffle(among).slice(0, 1 + random.int(2));
    const [maxTasks, leaseMs, waitMs] = [1 + random.int(5), 100 + random.int(1_500), random.int(2) * 300];
    const call = { kind: 'lease', queues: names, maxTasks, leaseMs, waitMs, maxPid: undefined, maxBytes: 0 } as const;
    const calledAt = Date.now();
    const recording = this.history.begin(call, calledAt);
    const wanted = names.flatMap((name) => queues.get(name) ?? []);
    let outcome: Outcome;
    try {
      const tasks = await client.lease({ queues: wanted, max: maxTasks, leaseDuration: leaseMs, wait: waitMs });
      held.push(...tasks);
      const told = tasks.map((task) => ({
        queue: task.queue,
        pid: text(task.pid),
        data: task.data,
        token: task.leaseToken,
        // Of a lease that waited the client knows the end but for the time that disk and network took.
        until: waitMs === 0 ? task.leaseUntil.getTime() : calledAt + leaseMs,
        attempt: task.attempt,
        enqueuedAt: task.enqueuedAt.getTime(),
      }));
      outcome = { kind: 'leased', tasks: told, dismissed: false };
    } catch (error) {
      outcome = failed(error);
    }
    recording.end(outcome, Date.now());
  }

  /** Does something about a task in hand, in time or too late. */
  async #settle(actor: Actor): Promise<void> {
    const { random } = actor;
    const task = random.pick(actor.held);
    const kind = random.int(20);
    if (kind < 3) {
      await this.#update(actor, { renew: [task] });
      return;
    }
    actor.held = actor.held.filter((other) => other !== task);
    if (kind < 5) return; // given up: its lease runs out
    if (kind < 9) {
      await this.#update(actor, { release: [task] });
      return;
    }
    const stage = nextStage[stageOf(task.queue)];
    const next = stage && `${groupOf(task.queue)}#${stage}`;
    const enqueue = next === undefined ? [] : [this.#newTask(actor, next)];
    // Some without a PID of their own, so that nothing can collapse and the whole step must be seen.
    if (next !== undefined && random.chance(0.3)) {
      enqueue.push({ ...this.#newTask(actor, next), pid: undefined, retry: undefined });
    }
    const another = random.chance(0.2)
      ? actor.held.find((other) => other.queue !== task.queue && groupOf(other.queue) === groupOf(task.queue))
      : undefined;
    if (another !== undefined) actor.held = actor.held.filter((other) => other !== another);
    await this.#update(actor, { complete: another === undefined ? [task] : [task, another], enqueue });
  }

  async #update(
    { client, random, queues }: Actor,
    {
      enqueue = [],
      complete = [],
      renew = [],
      release = [],
    }: {
      readonly enqueue?: readonly EnqueueCall[];
      readonly complete?: readonly LeasedTask<string>[];
      readonly renew?: readonly LeasedTask<string>[];
      readonly release?: readonly LeasedTask<string>[];
    },
  ): Promise<void> {
    const update = client.update();
    for (const { queue, data, pid, mode, delayMs, retry } of enqueue) {
      const target = queues.get(queue);
      if (target === undefined) throw new TypeError(`${queue} is not a queue of this load`);
      update.enqueue(target, data, {
        mode,
        delay: delayMs,
        pid: pid === undefined ? undefined : pidFromText(pid),
        retry: retry && {
          maxAttempts: retry.maxAttempts,
          backoff: { initial: retry.backoffInitialMs, max: retry.backoffMaxMs },
          deadLetterQueue: `${groupOf(queue)}#${retry.deadLetterQueue}`,
        },
      });
    }
    for (const task of complete) update.dequeue(task.queue, task.pid, { leaseToken: task.leaseToken });
    const leaseMs = 100 + random.int(1_500);
    for (const task of renew) update.renew(task, leaseMs);
    const [delayMs, refund] = [random.chance(0.5) ? random.int(300) : undefined, random.chance(0.5)];
    for (const task of release) update.release(task, { delay: delayMs, refundAttempt: refund });

    const call: UpdateCall = {
      kind: 'update',
      enqueue,
      dequeue: complete.map(named),
      renew: renew.map((task) => ({ ...named(task), leaseMs })),
      release: release.map((task) => ({ ...named(task), delayMs, refund })),
      requestId: undefined,
    };
    const recording = this.history.begin(call, Date.now());
    let outcome: Outcome;
    try {
      const { enqueued, renewed, released } = await update.commit();
      this.#acknowledged++;
      outcome = {
        kind: 'updated',
        enqueued: enqueued.map(({ pid, result }) => ({ pid: text(pid), result })),
        renewed: renewed.map((until) => ({ until: until.getTime() })),
        released: released.map(({ hiddenUntil, deadLetterQueue }) => ({
          until: hiddenUntil?.getTime(),
          deadLetterQueue,
        })),
      };
    } catch (error) {
      outcome = failed(error);
    }
    recording.end(outcome, Date.now());
  }
}

const text = (pid: Uint8Array): string => Buffer.from(pid).toString('latin1');

const named = ({ queue, pid, leaseToken }: LeasedTask<string>) => ({ queue, pid: text(pid), token: leaseToken });

const mayHappen = new Set(['LEASE_LOST', 'LEASE_EXPIRED', 'TASK_NOT_FOUND', 'TASK_EXISTS', 'NOT_LEASED']);

/** The outcome of a call that failed; throws on after what should never happen. */
function failed(error: unknown): Outcome {
  if (!isTaskMasterError(error)) throw error;
  if (error.maybeApplied) return { kind: 'unknown' };
  if (!mayHappen.has(error.reason)) throw new TaskMasterError(`unexpected: ${error.message}`, error);
  return { kind: 'refused', reason: error.reason, items: [] };
}
