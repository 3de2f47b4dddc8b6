import { EnqueueMode, type Event, type EventKind, parseQueueName } from '@taskmaster/proto';
import type { EngineConfig } from '../config.ts';
import { batchOf, eachResult } from '../domain/batches.ts';
import type {
  CallContext,
  EndedTask,
  LeaseCommand,
  LeasedTask,
  LeasePattern,
  TaskResult,
  UpdateCommand,
  UpdateOutcome,
  WaitFor,
} from '../domain/commands.ts';
import {
  EventFilter,
  type EventPage,
  eventsReply,
  OLDEST,
  parsePosition,
  type ReadEventsCommand,
} from '../domain/events.ts';
import type { Instant, LeaseToken, Pid } from '../domain/ids.ts';
import { KindFilter } from '../domain/kind-filter.ts';
import type { Refusal } from '../domain/refusal.ts';
import { givenIn, NO_LINKS, type OnFailure, type RetryPolicy, type TaskLinks } from '../domain/task.ts';
import type { Engine } from '../engine.ts';
import { type EngineDeps, openEngine } from '../open-engine.ts';
import { Family, type Row, type Store } from '../ports/store.ts';
import { VirtualClock } from '../ports/virtual-clock.ts';
import { SeededRandom } from './seeded-random.ts';
import type { SimSharedDatabase, SimSharedProcess } from './sim-shared-database.ts';
import { SimDisk } from './sim-store.ts';

export interface HarnessOptions {
  readonly seed?: number;
  /** If set, the engine's random numbers always have this value. */
  readonly jitter?: number;
  readonly atomicBatches?: boolean;
  /** Duration of a write, of an fsync and of a read, in virtual ms. */
  readonly writeMs?: number;
  readonly syncMs?: number;
  readonly readMs?: number;
  readonly config?: Partial<EngineConfig>;
  /** Default: a clock with its own virtual time. */
  readonly clock?: VirtualClock;
  /** True if the engine holds only the partitions that the test assigns. Default: it holds all. */
  readonly clustered?: boolean;
  /** The database that it shares with other engines, and its name there. Default: a disk of its own. */
  readonly shared?: { readonly database: SimSharedDatabase; readonly name: string };
  /** Default: a log that keeps nothing. */
  readonly log?: EngineDeps['log'];
  readonly onReplay?: EngineDeps['onReplay'];
  readonly onRun?: EngineDeps['onRun'];
  readonly onBulkRunEnd?: EngineDeps['onBulkRunEnd'];
  /** Default: no quotas. */
  readonly groupLimits?: EngineDeps['groupLimits'];
  readonly tellsAll?: boolean;
}

/** An item of an update in the short form of tests: `pid` and `data` as text. */
export interface ItemSpec {
  readonly queue: string;
  readonly pid?: string;
  /** Of an enqueue: the key of the task. Of other items: names the task instead of the PID. */
  readonly key?: string;
  readonly token?: number | undefined;
}

/** PID, or key, and policy of a parent, in the same queue unless one is named. */
interface ParentSpec {
  readonly pid?: string;
  readonly key?: string;
  readonly queue?: string;
  readonly onFailure?: OnFailure;
}

export interface EnqueueSpec extends ItemSpec {
  /** Instead of the queue, which only tells the group. */
  readonly topic?: string;
  readonly data?: string;
  /** How many bytes of the data are headers; see `Payload`. */
  readonly headerBytes?: number;
  readonly mode?: EnqueueMode;
  readonly delay?: number;
  readonly runAt?: number;
  readonly timeLimit?: number;
  readonly limitKey?: string;
  readonly kind?: string;
  readonly startBy?: number | undefined;
  readonly startWithin?: number | undefined;
  /** For how many signals it waits, or its whole wait. */
  readonly waitFor?: number | Partial<WaitFor>;
  readonly parent?: ParentSpec;
  /** Beside or instead of one parent. */
  readonly parents?: readonly ParentSpec[];
  readonly orderKey?: string;
  /** Id of a signal, with the mode SIGNAL. */
  readonly signalId?: string;
  /** Default: no limit and no backoff, so that a test sees a task again at once. `by settings`: the task has no policy. */
  readonly retry?: Partial<RetryPolicy> | 'by settings';
}

interface DequeueSpec extends ItemSpec {
  readonly requeue?: boolean;
  /** Reason for which the task is cancelled. */
  readonly cancel?: string;
  readonly result?: string;
  /** Default: a minute. */
  readonly keep?: number | 'by settings';
}

interface WaitSpec {
  /** Of the lease of a worker that waits. */
  readonly token?: number | undefined;
  readonly wait?: number;
  readonly signal?: AbortSignal;
}

/** A page with its events decoded. */
interface ReadPage extends Pick<EventPage, 'position'> {
  readonly events: readonly Event[];
}

interface EventsSpec {
  readonly after?: string;
  readonly kinds?: readonly EventKind[];
  readonly pid?: string;
  readonly key?: string;
  readonly most?: number;
  readonly wait?: number;
  readonly signal?: AbortSignal;
}

interface ReleaseSpec extends ItemSpec {
  readonly delay?: number;
  readonly refund?: boolean;
  readonly interrupted?: boolean;
  /** Message of the error. */
  readonly error?: string;
  readonly deadLetter?: boolean;
  readonly runAt?: number;
  readonly waiting?: boolean;
}

export interface UpdateSpec {
  readonly enqueue?: readonly EnqueueSpec[];
  readonly dequeue?: readonly DequeueSpec[];
  readonly renew?: readonly (ItemSpec & {
    readonly for: number;
    readonly progress?: string;
    readonly checkpoint?: string;
    readonly begun?: number | undefined;
  })[];
  readonly release?: readonly ReleaseSpec[];
  readonly id?: string;
}

export interface LeaseSpec extends CallContext {
  readonly max?: number;
  readonly for?: number;
  readonly wait?: number;
  readonly maxPid?: string;
  readonly maxBytes?: number;
  readonly worker?: string;
  readonly starts?: LeaseCommand['starts'];
  readonly includeSignals?: boolean;
  /** Patterns of kinds. */
  readonly kinds?: readonly string[];
  readonly patterns?: readonly PatternSpec[];
}

/** A pattern in the short form of tests. `regex` is a JavaScript expression. */
interface PatternSpec {
  readonly regex?: string;
  readonly group?: string;
  readonly after?: number;
  readonly id?: number;
  readonly principal?: string;
  readonly mayLease?: (group: string) => boolean | undefined;
}

const patternOf = ({ regex, group, after = 0, id = 1, principal, mayLease }: PatternSpec): LeasePattern => {
  const expression = regex === undefined ? undefined : new RegExp(regex);
  return {
    key: `\uFFFD${group ?? '*'}\uFFFD${regex}\uFFFD${principal}`,
    principal,
    matches: expression && ((name) => expression.test(name)),
    group,
    after,
    id,
    mayLease,
  };
};

/** An engine on a simulated disk and virtual time. Its commands have a short form for tests. */
export async function engineHarness(options: HarnessOptions = {}): Promise<EngineHarness> {
  const harness = new EngineHarness(options);
  await harness.open();
  return harness;
}

export class EngineHarness implements AsyncDisposable {
  readonly random: SeededRandom;
  readonly disk: SimDisk;
  clock: VirtualClock;
  store: Store | undefined;
  readonly #config: Partial<EngineConfig>;
  readonly #clustered: boolean;
  readonly #jitter: number | undefined;
  readonly #shared: HarnessOptions['shared'];
  #process: SimSharedProcess | undefined;
  readonly #observers: Pick<EngineDeps, 'log' | 'onReplay' | 'onRun' | 'onBulkRunEnd' | 'groupLimits' | 'tellsAll'>;
  #engine: Engine | undefined;

  constructor(options: HarnessOptions) {
    this.random = new SeededRandom(options.seed ?? 1);
    this.clock = options.clock ?? new VirtualClock();
    this.#jitter = options.jitter;
    const { log, onReplay, onRun, onBulkRunEnd, groupLimits, tellsAll } = options;
    this.#observers = {
      ...(log && { log }),
      ...(onReplay && { onReplay }),
      ...(onRun && { onRun }),
      ...(onBulkRunEnd && { onBulkRunEnd }),
      ...(groupLimits && { groupLimits }),
      ...(tellsAll && { tellsAll }),
    };
    this.#clustered = options.clustered ?? false;
    this.#shared = options.shared;
    this.disk = new SimDisk({ ...options, random: this.random, clock: this.clock.outside });
    this.#config = options.config ?? {};
  }

  get engine(): Engine {
    if (!this.#engine) throw new Error('the engine is not open');
    return this.#engine;
  }

  async open(): Promise<void> {
    this.store = this.#openStore();
    this.#engine = await this.clock.run(this.start());
  }

  /** Opens the engine. The caller must advance the time until it resolves. */
  async start(): Promise<Engine> {
    const { clock } = this;
    const jitter = this.#jitter;
    const random = jitter === undefined ? this.random : { next: () => jitter };
    this.store ??= this.#openStore();
    this.#engine = await openEngine({
      shared: this.#process?.holders,
      store: this.store,
      clock,
      random,
      config: this.#config,
      clustered: this.#clustered,
      ...this.#observers,
    });
    return this.#engine;
  }

  /** Simulates a power loss. */
  lose(): void {
    if (this.#shared === undefined) this.disk.crash();
    else this.#process?.die();
    this.#ended(this.clock.restart());
  }

  /** Simulates a kill of the process: writes that were not synced survive, unless a power loss follows. */
  kill(): void {
    this.#process?.die();
    this.disk.kill();
    this.#ended(this.clock.restart());
  }

  /** Stops the engine in good order. The caller must advance the time until it resolves. */
  async close(): Promise<void> {
    await this.engine.stop();
    await this.store?.close();
    this.#ended(this.clock.restart());
  }

  /** The open process of a shared database. */
  get process(): SimSharedProcess | undefined {
    return this.#process;
  }

  #openStore(): Store {
    if (this.#shared === undefined) return this.disk.open();
    const { database, name } = this.#shared;
    this.#process = database.open(name);
    return this.#process.store;
  }

  #ended(next: VirtualClock): void {
    this.store = undefined;
    this.#process = undefined;
    this.#engine = undefined;
    this.clock = next;
  }

  /** Simulates a power loss and the start after it. */
  async crash(): Promise<void> {
    this.lose();
    await this.open();
  }

  update(spec: UpdateSpec): Promise<UpdateOutcome> {
    return this.engine.updates.apply(updateCommand(spec));
  }

  /** Updates of one group in one request. */
  async batch(specs: readonly UpdateSpec[], id?: string): Promise<readonly (UpdateOutcome | Refusal)[]> {
    const batch = batchOf(specs.map(updateCommand), id);
    const outcome = await this.engine.updates.applyBatch(batch);
    const { enqueued, renewed, released } = outcome;
    const results: (UpdateOutcome | Refusal)[] = [];
    eachResult(
      batch,
      outcome,
      (_index, from, to) =>
        results.push({
          enqueued: enqueued.slice(from.enqueue, to.enqueue),
          renewed: renewed.slice(from.renew, to.renew),
          released: released.slice(from.release, to.release),
        }),
      (_index, refusal) => results.push(refusal),
    );
    return results;
  }

  enqueue(queue: string, pids: readonly string[]): Promise<UpdateOutcome> {
    return this.update({ enqueue: pids.map((pid) => ({ queue, pid, data: `data of ${pid}` })) });
  }

  lease(queues: string | readonly string[], spec: LeaseSpec = {}): Promise<readonly LeasedTask[]> {
    return this.engine.leaseTasks(leaseCommand(queues, spec), { signal: spec.signal });
  }

  waitFor(queue: string, pids: readonly string[], spec: WaitSpec = {}): Promise<readonly EndedTask[]> {
    const name = parseQueueName(queue);
    const token = spec.token as LeaseToken | undefined;
    const tasks = pids.map((pid) => ({ queue: name, pid: pid as Pid, token }));
    return this.engine.waitForTasks({ group: name.group, tasks, waitMs: spec.wait ?? 0 }, { signal: spec.signal });
  }

  /** Reads events of queues, `group#pattern`. */
  async readEvents(queues: string, spec: EventsSpec = {}): Promise<ReadPage> {
    const name = parseQueueName(queues);
    const { after, kinds, pid, key, most = 1_000, wait = 0, signal } = spec;
    const position: ReadEventsCommand['after'] =
      after === OLDEST ? OLDEST : after === undefined ? undefined : parsePosition(after);
    if (after !== undefined && position === undefined) throw new Error(`${after} is no position`);
    const filter = new EventFilter(name, kinds && new Set(kinds), { pid: pid as Pid | undefined, key });
    const command = { group: name.group, after: position, filter, most, waitMs: wait };
    const page = await this.engine.readEvents(command, { signal });
    return { events: eventsReply(page).events, position: page.position };
  }

  async counts(queue: string): Promise<{ available: number; leased: number; delayed: number }> {
    const report = await this.engine.queueStats({ kind: 'named', queues: [parseQueueName(queue)] });
    const { available, leased, delayed } = report.totals;
    return { available, leased, delayed };
  }

  /** All rows of a family that can be read now. In a shared database, also those of other engines. */
  rowsOf(family: Family): Row[] {
    return (this.#shared?.database ?? this.disk).rowsOf(family);
  }

  /** Number of tasks that have a payload on disk, including those of ended generations. */
  taskRows(): number {
    return this.rowsOf(Family.data).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.clock.run(this.engine.stop());
    this.clock.stop();
  }
}

export const pidsOf = (tasks: readonly { readonly pid: Pid }[]): string[] => tasks.map(({ pid }) => pid);

const startOf = ({ startBy, startWithin }: Pick<EnqueueSpec, 'startBy' | 'startWithin'>) => {
  if (startBy !== undefined) return { by: startBy as Instant };
  return startWithin === undefined ? undefined : { withinMs: startWithin };
};

const waitForOf = ({ waitFor }: Pick<EnqueueSpec, 'waitFor'>): WaitFor | undefined => {
  if (waitFor === undefined) return undefined;
  const given = typeof waitFor === 'number' ? { signals: waitFor } : waitFor;
  return { signals: 1, timeoutMs: undefined, action: 'dead-letter', collect: false, ...given };
};

const linksOf = (
  queue: string,
  { parent, parents: more = [], orderKey }: Pick<EnqueueSpec, 'parent' | 'parents' | 'orderKey'>,
): TaskLinks | undefined => {
  const given = parent === undefined ? more : [parent, ...more];
  if (given.length === 0 && orderKey === undefined) return undefined;
  const parents = given.map(({ queue: name = queue, pid = '', key, onFailure = 'fail' as const }) => ({
    queue: parseQueueName(name).name,
    pid: pid as Pid,
    key,
    onFailure,
  }));
  return { ...NO_LINKS, parents, orderKey };
};

const resultOf = ({ result, keep = 60_000 }: DequeueSpec): TaskResult | undefined =>
  result === undefined ? undefined : { data: Buffer.from(result), keepMs: keep === 'by settings' ? undefined : keep };
const AT_ONCE: RetryPolicy = { maxAttempts: 0, backoffInitialMs: 0, backoffMaxMs: 3_600_000, deadLetterQueue: '' };

/** The command for a test's short form. */
export function leaseCommand(queues: string | readonly string[], spec: LeaseSpec = {}): LeaseCommand {
  return {
    queues: [queues].flat().map(parseQueueName),
    patterns: spec.patterns?.map(patternOf),
    maxTasks: spec.max ?? 1,
    leaseDurationMs: spec.for ?? 30_000,
    maxPid: spec.maxPid as Pid | undefined,
    waitMs: spec.wait ?? 0,
    worker: spec.worker ?? 'worker',
    workerAddress: '127.0.0.1:1',
    maxBytes: spec.maxBytes ?? 1e9,
    kinds: spec.kinds && new KindFilter(spec.kinds),
    starts: spec.starts,
    includeSignals: spec.includeSignals,
  };
}

/** The command for a test's short form. All queues must be of one group. */
export function updateCommand(spec: UpdateSpec): UpdateCommand {
  const { enqueue = [], dequeue = [], renew = [], release = [] } = spec;
  const [first] = [...enqueue, ...dequeue, ...renew, ...release];
  const item = ({ queue, pid, key, token }: ItemSpec) => ({
    queue: parseQueueName(queue),
    pid: (pid ?? '') as Pid,
    key,
    token: token as LeaseToken | undefined,
  });
  return {
    group: first ? parseQueueName(first.queue).group : '',
    enqueue: enqueue.map(
      ({
        queue,
        topic,
        pid,
        key,
        timeLimit = 0,
        limitKey = '',
        kind,
        data,
        headerBytes,
        mode,
        delay,
        runAt,
        retry,
        signalId,
        ...rest
      }) => ({
        queue: parseQueueName(topic ?? queue),
        isPublished: topic !== undefined,
        pid: pid as Pid | undefined,
        data: Buffer.from(data ?? ''),
        headerBytes: headerBytes ?? 0,
        key,
        given: givenIn({ timeLimitMs: timeLimit, limitKey, kind }),
        start: startOf(rest),
        waitFor: waitForOf(rest),
        links: linksOf(queue, rest),
        signalId,
        mode: mode ?? EnqueueMode.ENQUEUE_MODE_COLLAPSE,
        delayMs: delay ?? 0,
        runAt: runAt as Instant | undefined,
        retry: retry === 'by settings' ? undefined : { ...AT_ONCE, ...retry },
      }),
    ),
    dequeue: dequeue.map((spec) => ({
      ...item(spec),
      requeue: spec.requeue ?? false,
      result: resultOf(spec),
      cancelReason: spec.cancel,
    })),
    renew: renew.map((spec) => ({
      ...item(spec),
      leaseDurationMs: spec.for,
      progress: spec.progress,
      checkpoint: spec.checkpoint === undefined ? undefined : Buffer.from(spec.checkpoint),
      begun: spec.begun,
    })),
    release: release.map((spec) => ({
      ...item(spec),
      delayMs: spec.delay,
      refundAttempt: spec.refund ?? spec.interrupted ?? false,
      interrupted: spec.interrupted ?? false,
      error: spec.error === undefined ? undefined : { message: spec.error, details: `details of ${spec.error}` },
      deadLetter: spec.deadLetter ?? false,
      runAt: spec.runAt as Instant | undefined,
      waiting: spec.waiting ?? false,
    })),
    publishes: enqueue.some(({ topic }) => topic !== undefined),
    requestId: spec.id,
  };
}
