import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { type EnqueueCall, History, type Outcome, type UpdateCall } from '@taskmaster/cli/testing/history';
import {
  type ConnectOptions,
  connect,
  isTaskMasterError,
  type LeasedTask,
  pidFromText,
  type Queue,
  type QueueSettings,
  type TaskMasterClient,
  TaskMasterError,
  textCodec,
} from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';

const STAGES = ['in', 'mid', 'out', 'dead'] as const;
const DEFAULT_GROUPS = ['load'] as const;

/** The queues of each group. A completed task goes to the next stage. */
const loadQueues = (groups: readonly string[] = DEFAULT_GROUPS): string[] =>
  groups.flatMap((group) => STAGES.map((stage) => `${group}#${stage}`));

const groupOf = (queue: string): string => queue.slice(0, queue.indexOf('#'));
const stageOf = (queue: string): string => queue.slice(queue.indexOf('#') + 1);

/** The next stage by stage; the last stages have none. */
const nextStage: Readonly<Record<string, string>> = { in: 'mid', mid: 'out' };

const CLIENTS = 3;
const ACTORS_EACH = 10;
/** Number of shared PIDs. Few, so that enqueues meet existing tasks. */
const SHARED_PIDS = 50;
/** Limit of the leases that an actor holds. Few, so that it uses all of them before it ends. */
const MOST_HELD = 10;
const LARGEST_DATA = 2_000;

export interface MixedLoadOptions {
  readonly endpoints: string | readonly string[];
  readonly seed: number;
  /** Groups of the queues. Default: one group, `load`. */
  readonly groups?: readonly string[];
  /** Limit of the attempts of a call. Default: as many as its timeout allows. */
  readonly maxAttempts?: number;
  /** The releases of the clients, in turn. Default: the client of this workspace. */
  readonly connects?: readonly (typeof connect)[];
  /**
   * Longest pause of an actor between two calls, in ms. Default: 500. With short pauses the load takes the processors from the
   * nodes whose starts and moves a test waits for, and those of all other tests.
   */
  readonly pauseMs?: number;
  /** Default: plain text. */
  readonly tls?: ConnectOptions['tls'];
}

/** One user of the client, who makes one call after the other. */
interface Actor {
  readonly client: TaskMasterClient;
  readonly group: string;
  readonly queues: ReadonlyMap<string, Queue<string>>;
  readonly random: SeededRandom;
  held: LeasedTask<string>[];
}

/** Failed tasks come back at once, also those in dead-letter queues. */
const AT_ONCE: QueueSettings = { retry: { maxAttempts: Number.POSITIVE_INFINITY, backoff: { initial: 0 } } };

/** A node of a release without settings of queues, whose tasks come back at once anyway. */
function ignoreOlderRelease(error: unknown): void {
  if (!(isTaskMasterError(error) && error.code === status.UNIMPLEMENTED)) throw error;
}

/**
 * Many users on several connections make all operations that change tasks. Their calls are recorded. The client repeats calls
 * that a dead node did not answer, so nearly every outcome is known in the end.
 */
export class MixedLoad {
  readonly history = new History();
  readonly #clients: readonly TaskMasterClient[];
  readonly #acting: Promise<unknown>;
  readonly #pauseMs: number;
  #stopping = false;
  #lastData = 0;
  #acknowledged = 0;
  #failed = 0;

  static async start({
    endpoints,
    seed,
    groups = DEFAULT_GROUPS,
    maxAttempts = 10_000,
    connects = [connect],
    pauseMs = 500,
    tls,
  }: MixedLoadOptions): Promise<MixedLoad> {
    const retry = { maxAttempts, backoff: { max: 200 } };
    const connecting = Array.from({ length: CLIENTS }, (_, index) => {
      const connectAs = connects[index % connects.length] ?? connect;
      // One of them does not use the stream: separate calls must keep the contract, too.
      return connectAs({ endpoints, tls, timeout: '90s', retry, useStream: index > 0 });
    });
    const clients = await Promise.all(connecting);
    for (const group of groups) await clients[0]?.queueSettings.put(`${group}#*`, AT_ONCE).catch(ignoreOlderRelease);
    return new MixedLoad(clients, new SeededRandom(seed), groups, pauseMs);
  }

  private constructor(
    clients: readonly TaskMasterClient[],
    random: SeededRandom,
    groups: readonly string[],
    pauseMs: number,
  ) {
    this.#clients = clients;
    this.#pauseMs = pauseMs;
    const actors = clients.flatMap((client) => {
      const queues = new Map(loadQueues(groups).map((name) => [name, client.queue(name, { codec: textCodec })]));
      return Array.from({ length: ACTORS_EACH }, (_, index): Actor => {
        const group = groups[index % groups.length] ?? 'load';
        return { client, group, queues, random: random.fork(), held: [] };
      });
    });
    this.#acting = Promise.all(actors.map((actor) => this.#act(actor)));
    // `stop` reports its rejection.
    this.#acting.catch(() => {});
  }

  /** Number of successful updates so far. */
  get acknowledged(): number {
    return this.#acknowledged;
  }

  /** Number of calls that ended without an answer about their tasks: the client has given them up, and they may be applied. */
  get failed(): number {
    return this.#failed;
  }

  /** Resolves when every call has its outcome. Rejects with the first error that no call may have. */
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
      if (this.#pauseMs > 0) await delay(random.int(this.#pauseMs));
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
        // Its own PID, because dead letters with the same PID replace each other.
        const retry = { maxAttempts: 3, backoffInitialMs: 50, backoffMaxMs: 200, deadLetterQueue: 'dead' };
        return { ...common, pid: `own ${number}`, retry: stageOf(queue) === 'dead' ? undefined : retry };
      }
    }
  }

  async #lease(actor: Actor): Promise<void> {
    const { client, queues, random, held } = actor;
    // Sometimes over queues of several groups, which may be on several nodes.
    const among = random.chance(0.2) ? [...queues.keys()] : loadQueues([actor.group]);
    const names = random.shuffle(among).slice(0, 1 + random.int(2));
    const [maxTasks, leaseDurationMs, waitMs] = [1 + random.int(5), 100 + random.int(1_500), random.int(2) * 300];
    const call = {
      kind: 'lease',
      queues: names,
      maxTasks,
      leaseDurationMs,
      waitMs,
      maxPid: undefined,
      maxBytes: 0,
    } as const;
    const calledAt = Date.now();
    const recording = this.history.begin(call, calledAt);
    const wanted = names.flatMap((name) => queues.get(name) ?? []);
    let outcome: Outcome;
    try {
      const tasks = await client.lease({ queues: wanted, max: maxTasks, leaseDuration: leaseDurationMs, wait: waitMs });
      held.push(...tasks);
      const told = tasks.map((task) => ({
        queue: task.queue,
        pid: text(task.pid),
        data: task.data,
        token: task.leaseToken,
        // The client knows the end of a lease that waited only up to the time of disk and network.
        until: waitMs === 0 ? task.leaseUntil.getTime() : calledAt + leaseDurationMs,
        attempt: task.attempt,
        enqueuedAt: task.enqueuedAt.getTime(),
      }));
      outcome = { kind: 'leased', tasks: told, dismissed: false };
    } catch (error) {
      outcome = this.#outcomeOf(error);
    }
    recording.end(outcome, Date.now());
  }

  /** Completes, releases or renews a leased task, in time or too late. */
  async #settle(actor: Actor): Promise<void> {
    const { random } = actor;
    const task = random.pick(actor.held);
    const kind = random.int(20);
    if (kind < 3) {
      await this.#update(actor, { renew: [task] });
      return;
    }
    actor.held = actor.held.filter((other) => other !== task);
    if (kind < 5) return; // abandoned: its lease expires
    if (kind < 9) {
      await this.#update(actor, { release: [task] });
      return;
    }
    const stage = nextStage[stageOf(task.queue)];
    const next = stage && `${groupOf(task.queue)}#${stage}`;
    const enqueue = next === undefined ? [] : [this.#newTask(actor, next)];
    // Some have no PID, so that they cannot collapse and both parts of the update must be seen.
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
    const leaseDurationMs = 100 + random.int(1_500);
    for (const task of renew) update.renew(task, leaseDurationMs);
    const [delayMs, refund] = [random.chance(0.5) ? random.int(300) : undefined, random.chance(0.5)];
    for (const task of release) update.release(task, { delay: delayMs, refundAttempt: refund });

    const call: UpdateCall = {
      kind: 'update',
      enqueue,
      dequeue: complete.map(named),
      renew: renew.map((task) => ({ ...named(task), leaseDurationMs })),
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
      outcome = this.#outcomeOf(error);
    }
    recording.end(outcome, Date.now());
  }

  /** The outcome of a call with an error. Throws errors that must never happen. */
  #outcomeOf(error: unknown): Outcome {
    if (!isTaskMasterError(error)) throw error;
    const answered = mayHappen.has(error.reason);
    if (error.maybeApplied) {
      if (!answered) this.#failed++;
      return { kind: 'unknown' };
    }
    if (!answered) throw new TaskMasterError(`unexpected: ${error.message}`, error);
    return { kind: 'refused', reason: error.reason, items: [] };
  }
}

const text = (pid: Uint8Array): string => Buffer.from(pid).toString('latin1');

const named = ({ queue, pid, leaseToken }: LeasedTask<string>) => ({ queue, pid: text(pid), token: leaseToken });

const mayHappen = new Set(['LEASE_LOST', 'LEASE_EXPIRED', 'TASK_NOT_FOUND', 'TASK_EXISTS', 'NOT_LEASED']);
