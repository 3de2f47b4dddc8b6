import { randomBytes } from 'node:crypto';
import { type Duration, durationMs, isTaskMasterError, type TaskMasterClient } from '@taskmaster/client';
import { assertKnown, type OptionNames, systemTiming, type Timing } from '@taskmaster/client/internal';
import { type LaneEvents, LaneSender, type RefusedRow, type SentBatch } from './lane-sender.ts';
import { Lanes } from './lanes.ts';
import type { Listen } from './listen.ts';
import { Markers } from './markers.ts';
import type { Outbox } from './outbox.ts';
import { assertQuery, type Query } from './query.ts';
import { RelayMetrics } from './relay-metrics.ts';

/** Something that a relay could not do. It tries again. */
export interface RelayError {
  readonly error: unknown;
  /** Undefined: it is about the database, and so about all queues. */
  readonly queue: string | undefined;
  /** When it tries again, in ms from now. */
  readonly retryInMs: number;
}

export interface RelayOptions {
  /** Connected to the node. It needs the rights `enqueue`, `lease` and `read` on the groups of the tasks. */
  readonly client: TaskMasterClient;
  /** The outbox, with the kind of database and the names of its tables. */
  readonly outbox: Outbox;
  /**
   * Runs each statement by itself: `pgQuery(pool)`, for example. Never on a connection on which others run transactions: their
   * rollback would undo what the relay has written, and a batch could come twice.
   */
  readonly query: Query;
  /** Tasks in one batch at most, 1 to 1,000. Default 500. */
  readonly batchTasks?: number | undefined;
  /** Queues that are sent at the same time. The tasks of one queue are sent in their order, batch after batch. Default 4. */
  readonly concurrency?: number | undefined;
  /** How often it looks for tasks, if nothing wakes it. Default 200 ms. */
  readonly pollInterval?: Duration | undefined;
  /** How long another relay waits for this one before it continues with its queues. Default 10 s. */
  readonly takeOverAfter?: Duration | undefined;
  /** How long the tables and the node remember a queue that gets no tasks. Default 1 day. */
  readonly forgetAfter?: Duration | undefined;
  /** Subscribes to news of the database: `pgListen(connect)` returns one. Default: there are only polls. */
  readonly listen?: Listen | undefined;
  /** Called for each batch that the node has on its disk. */
  readonly onBatch?: ((batch: SentBatch) => void) | undefined;
  /** Called for each task that the node refuses for good, which is in the table of refused tasks then. */
  readonly onRefused?: ((row: RefusedRow) => void) | undefined;
  /**
   * Called when the node has lost what it knew of a queue, because someone deleted the queue `taskmaster-outbox` of its group, or
   * because of an older backup. The batch that was on its way then may come twice.
   */
  readonly onLostMarker?: ((queue: string) => void) | undefined;
  /** Called for each failed attempt. Default: a warning of the process for the first one of a row of failures. */
  readonly onError?: ((failure: RelayError) => void) | undefined;
  /** Time and timers. Default: those of the system. */
  readonly timing?: Timing | undefined;
}

const names: OptionNames<RelayOptions> = {
  client: true,
  outbox: true,
  query: true,
  batchTasks: true,
  concurrency: true,
  pollInterval: true,
  takeOverAfter: true,
  forgetAfter: true,
  listen: true,
  onBatch: true,
  onRefused: true,
  onLostMarker: true,
  onError: true,
  timing: true,
};

export interface RelayRunOptions {
  /** An abort stops the relay. */
  readonly signal?: AbortSignal | undefined;
}

const runNames: OptionNames<RelayRunOptions> = { signal: true };

/** Queues that one look at the database finds. */
const QUEUES = 256;
/** Batches of one queue before others have their turn. */
const TURN = 8;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 30_000;
/** How often idle lanes are looked for. */
const FORGET_EVERY_MS = 60_000;

/** What fails apart from the queues. */
const LISTENING = Symbol('listening');
const FORGETTING = Symbol('forgetting');

/** What a relay has done since it was made. */
export interface RelayStats {
  /** Tasks that the node has. */
  readonly sent: number;
  readonly batches: number;
  /** Tasks that the node refuses for good. */
  readonly refused: number;
  /** Failed attempts. Each was repeated. */
  readonly failures: number;
  /** Age of the oldest task of the latest batch when it was read, in ms. */
  readonly lagMs: number;
}

/** Failures in a row, and when to try again. */
interface Rest {
  readonly failures: number;
  readonly until: number;
}

/**
 * Takes the tasks of an outbox to the node, each exactly once, in the order of their rows within a queue. Any number of relays
 * may run at once, on any machines: each queue has one of them at a time, and another one continues when it dies.
 */
export class Relay implements AsyncDisposable {
  readonly #options: RelayOptions;
  readonly #lanes: Lanes;
  readonly #markers: Markers;
  readonly #timing: Timing;
  readonly #events: LaneEvents;
  readonly #metrics: RelayMetrics;
  readonly #batchTasks: number;
  readonly #concurrency: number;
  readonly #pollMs: number;
  readonly #forgetMs: number;
  readonly #senders = new Map<string, LaneSender>();
  readonly #rests = new Map<string | symbol | undefined, Rest>();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #isAwake = false;
  #wake: () => void = () => undefined;
  #listening: AsyncDisposable | undefined;
  readonly #sending = new Map<string, Promise<void>>();
  /** Queues had to wait for the end of others, or of their own batches. */
  #lookAgain = false;
  /** The queue behind which the next look begins. */
  #after = '';
  #forgetAt = 0;
  #stats = { sent: 0, batches: 0, refused: 0, failures: 0, lagMs: 0 };

  /** @throws TypeError for wrong options. */
  constructor(options: RelayOptions) {
    assertKnown('options of a relay', options, names);
    const { client, outbox, query } = options;
    if (typeof outbox?.stats !== 'function') throw new TypeError('outbox: must be an Outbox');
    if (typeof client?.update !== 'function') throw new TypeError('client: must be a client, as connect() makes it');
    assertQuery(query);
    this.#options = options;
    this.#timing = options.timing ?? systemTiming;
    this.#batchTasks = wholeFrom1('batchTasks', options.batchTasks ?? 500, 1_000);
    this.#concurrency = wholeFrom1('concurrency', options.concurrency ?? 4, 100);
    this.#pollMs = durationMs(options.pollInterval ?? '200ms', 'pollInterval');
    this.#forgetMs = durationMs(options.forgetAfter ?? '1d', 'forgetAfter');
    const holdMs = durationMs(options.takeOverAfter ?? '10s', 'takeOverAfter');
    this.#lanes = new Lanes(query, outbox.dialect, outbox.tables, randomBytes(16).toString('base64url'), holdMs);
    this.#markers = new Markers(client);
    this.#metrics = new RelayMetrics(client, () => outbox.stats(query));
    this.#events = {
      onBatch: (batch) => {
        this.#stats.sent += batch.tasks;
        this.#stats.batches++;
        this.#stats.lagMs = batch.lagMs;
        this.#metrics.sent(batch);
        this.#tell(options.onBatch, batch);
      },
      onRefused: (row) => {
        this.#stats.refused++;
        this.#metrics.refused();
        this.#tell(options.onRefused, row);
      },
      onLostMarker: (queue) => this.#tell(options.onLostMarker, queue),
    };
  }

  get stats(): RelayStats {
    return { ...this.#stats };
  }

  /** Begins. Errors of the database or the node are reported and repeated. A relay that was stopped does not begin again. */
  start(): void {
    void this.run().catch((error: unknown) => process.emitWarning(`the relay of an outbox ended: ${String(error)}`));
  }

  /** Begins, and resolves when the relay has stopped: by `stop()`, or by the signal. */
  async run(options: RelayRunOptions = {}): Promise<void> {
    assertKnown('run', options, runNames);
    const { signal } = options;
    const stop = (): void => this.#stopping.abort();
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted) stop();
    this.#running ??= this.#run();
    await this.#running;
    signal?.removeEventListener('abort', stop);
  }

  /** Looks for tasks at once: after a commit in the same process, for example. */
  wake(): void {
    this.#isAwake = true;
    this.#wake();
  }

  /** Ends the batches that are on their way, and lets other relays have the queues at once. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    // It may have sent without `start`.
    this.#running ??= this.#end();
    await this.#running;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** Sends what is there, without `start`. Resolves when nothing is left that can be sent now. */
  async drain(): Promise<void> {
    for (let before = -1; before !== this.#settledBatches && !this.#stopping.signal.aborted; ) {
      before = this.#settledBatches;
      await this.#look();
      await this.#idle();
    }
  }

  /** Grows while something happens. */
  get #settledBatches(): number {
    return this.#stats.batches + this.#stats.refused;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#isAwake = false;
      this.#listening ??= await this.#listen();
      await this.#look();
      await this.#pause();
    }
    await this.#end();
  }

  async #end(): Promise<void> {
    await this.#idle();
    try {
      await this.#lanes.giveUp();
    } catch (error) {
      // Others take over later.
      this.#failed(undefined, error);
    }
    await this.#listening?.[Symbol.asyncDispose]();
    this.#metrics.stop();
  }

  /** Polls go on without it, so a failure is reported and repeated. */
  async #listen(): Promise<AsyncDisposable | undefined> {
    const { listen } = this.#options;
    if (listen === undefined || this.#isResting(LISTENING)) return undefined;
    try {
      const lost = (): void => {
        this.#listening = undefined;
        this.wake();
      };
      const listening = await listen(() => this.wake(), lost);
      this.#rests.delete(LISTENING);
      return listening;
    } catch (error) {
      this.#failed(LISTENING, error);
      return undefined;
    }
  }

  /** Begins to send queues that have tasks, while there is room. */
  async #look(): Promise<void> {
    this.#metrics.look();
    if (this.#isResting(undefined)) return;
    try {
      this.#lookAgain = false;
      const found = await this.#lanes.queues(this.#after, QUEUES);
      // From the first one again, after the last one.
      this.#after = found.length < QUEUES ? '' : (found.at(-1) ?? '');
      for (const queue of found) {
        if (this.#isResting(queue)) continue;
        if (this.#sending.has(queue)) {
          // What woke this look may have come behind its last batch.
          this.#lookAgain = true;
          continue;
        }
        if (this.#sending.size >= this.#concurrency) {
          this.#lookAgain = true;
          // The next look begins with this one: none waits for ever.
          this.#after = this.#previous(found, queue);
          break;
        }
        const sending = this.#send(queue).finally(() => {
          this.#sending.delete(queue);
          if (this.#lookAgain) this.wake();
        });
        this.#sending.set(queue, sending);
      }
      await this.#forgetIdle();
      this.#rests.delete(undefined);
    } catch (error) {
      this.#failed(undefined, error);
    }
  }

  #previous(found: readonly string[], queue: string): string {
    const at = found.indexOf(queue);
    return at > 0 ? (found[at - 1] ?? '') : this.#after;
  }

  /** Sends some batches of a queue. Never rejects. */
  async #send(queue: string): Promise<void> {
    const { signal } = this.#stopping;
    const sender =
      this.#senders.get(queue) ??
      new LaneSender(queue, {
        lanes: this.#lanes,
        markers: this.#markers,
        events: this.#events,
        batchTasks: this.#batchTasks,
      });
    this.#senders.set(queue, sender);
    try {
      for (let batches = 0; !signal.aborted; batches++) {
        const sent = await sender.send();
        this.#rests.delete(queue);
        if (sent === 'last' || sent === 'taken') {
          // What it remembers is in the database, too, and saves two statements there.
          if (sent === 'taken' || this.#senders.size > QUEUES) this.#senders.delete(queue);
          return;
        }
        if (batches >= TURN) break;
      }
      this.wake();
    } catch (error) {
      this.#failed(queue, error);
    }
  }

  async #idle(): Promise<void> {
    await Promise.all(this.#sending.values());
  }

  async #forgetIdle(): Promise<void> {
    if (this.#timing.now() < this.#forgetAt) return;
    this.#forgetAt = this.#timing.now() + FORGET_EVERY_MS;
    try {
      for (const lane of await this.#lanes.idle(this.#forgetMs)) {
        if ((await this.#lanes.forget(lane)) && lane.marker !== '') await this.#markers.end(lane.queue, lane.marker);
      }
      this.#rests.delete(FORGETTING);
    } catch (error) {
      // Nothing waits for this: the queues with tasks go on.
      this.#failed(FORGETTING, error);
    }
  }

  /** Until something wakes it, a poll is due, or a rest is over. */
  async #pause(): Promise<void> {
    if (this.#isAwake || this.#stopping.signal.aborted) return;
    await new Promise<void>((resolve) => {
      // It keeps the process alive, which may have nothing else between two polls.
      const cancel = this.#timing.after(this.#untilLook(), resolve, true);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
    this.#wake = () => undefined;
  }

  /** How long there is nothing to do unless something wakes it, in ms. */
  #untilLook(): number {
    const now = this.#timing.now();
    let least = this.#pollMs;
    for (const { until } of this.#rests.values()) if (until > now) least = Math.min(least, until - now);
    return least;
  }

  #isResting(what: string | symbol | undefined): boolean {
    return (this.#rests.get(what)?.until ?? 0) > this.#timing.now();
  }

  #failed(what: string | symbol | undefined, error: unknown): void {
    const failures = (this.#rests.get(what)?.failures ?? 0) + 1;
    const asked = isTaskMasterError(error) ? (error.retryDelayMs ?? 0) : 0;
    const retryInMs = Math.max(asked, Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** (failures - 1)));
    this.#rests.set(what, { failures, until: this.#timing.now() + retryInMs });
    // The pause may have begun before, and be longer.
    this.wake();
    this.#stats.failures++;
    this.#metrics.failed(error);
    const queue = typeof what === 'string' ? what : undefined;
    if (this.#options.onError !== undefined) this.#tell(this.#options.onError, { error, queue, retryInMs });
    else if (failures === 1)
      process.emitWarning(
        `the relay of an outbox could not send${queue === undefined ? '' : ` to ${queue}`}: ${String(error)}`,
      );
  }

  /** A hook that throws does not stop the relay. */
  #tell<T>(hook: ((what: T) => void) | undefined, what: T): void {
    try {
      hook?.(what);
    } catch (error) {
      process.emitWarning(`a hook of the relay of an outbox has thrown: ${String(error)}`);
    }
  }
}

function wholeFrom1(name: string, value: number, most: number): number {
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw new TypeError(`${name}: ${String(value)} is not a whole number from 1 to ${most}`);
}
