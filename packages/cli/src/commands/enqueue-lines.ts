import {
  bytesCodec,
  type EnqueueOutcome,
  isTaskMasterError,
  pidText,
  type TaskHeaders,
  type TaskMasterClient,
  type TaskOptions,
} from '@taskmaster/client';
import { headersSizeBound, identityOf, ShardNames, shardOfPid } from '@taskmaster/client/internal';
import { fieldOf, type PidSource, pidOfLine } from '../input/pid-source.ts';
import { type Line, PAUSE } from '../input/read-input.ts';
import { UsageError } from '../views/cli-errors.ts';
import { InFlight } from './in-flight.ts';

export interface LinesSettings {
  readonly queue: string;
  /** Number of shards of the queue. Undefined: it is not sharded. */
  readonly shards: number | undefined;
  readonly pids: PidSource;
  readonly task: TaskOptions;
  /** The field of the JSON object in a line that has its headers, beside those of `task`. */
  readonly headersField: string | undefined;
  /** Largest number of tasks in one batch. */
  readonly batchTasks: number;
  /** Largest number of batches without an answer. */
  readonly inFlight: number;
  /** First line to enqueue, from 1. */
  readonly fromLine: number;
}

/** The lines that are stored so far, and those that are not. */
export interface LinesReport {
  readonly created: number;
  readonly collapsed: number;
  readonly replaced: number;
  /** Tasks that a worker has, and that run once more. */
  readonly rerun: number;
  readonly keptOut: number;
  /** Not added, because as many tasks waited as may. */
  readonly dropped: number;
  /** Collapsed and replaced tasks that are leased. */
  readonly leased: number;
  /** Empty lines, which are skipped. */
  readonly empty: number;
  /** Bytes of the input up to the last acknowledged line. */
  readonly bytes: number;
  /** All lines up to this one are stored, except empty lines. */
  readonly storedThroughLine: number;
  /** Batches that were sent and not acknowledged. */
  readonly unacknowledged: readonly UnacknowledgedLines[];
  /** Lines because of which the node refused their batches. */
  readonly refused: readonly RefusedLine[];
}

interface UnacknowledgedLines {
  readonly first: number;
  readonly last: number;
  /** True: there was no answer, so the lines may be stored. False: they are not stored. */
  readonly maybeStored: boolean;
}

export interface RefusedLine {
  readonly line: number;
  readonly reason: string;
  /** In the text form of `pidText`. */
  readonly pid: string;
}

interface Batch {
  /** Undefined: the queue has no shards, or the next one gets the batch. */
  readonly shard: number | undefined;
  readonly lines: Line[];
  /** Estimated size in a request. */
  bytes: number;
  maybeStored: boolean;
}

/** A batch of this size is sent. It bounds the memory, together with the longest line. */
const BATCH_BYTES = 512 * 1024;
/** Size of all unfinished batches of the shards, and the least size of a batch. */
const SHARDS_BYTES = 8 * BATCH_BYTES;
const LEAST_BATCH_BYTES = 32 * 1024;
/** Largest size of a task in a request, without payload, PID and queue name. */
const ITEM_BYTES = 64;

/**
 * Enqueues each line as a task, in batches, several at the same time. A batch is atomic, the whole input is not. After the
 * first failure it sends no more batches and waits for the answers. When the input pauses, it sends the lines that have come. A
 * batch is of one shard: of the shard of its PIDs, or of the next one.
 */
export class LineEnqueuer {
  readonly #client: TaskMasterClient;
  readonly #settings: LinesSettings;
  readonly #counts = {
    created: 0,
    collapsed: 0,
    replaced: 0,
    rerun: 0,
    keptOut: 0,
    dropped: 0,
    leased: 0,
    empty: 0,
    bytes: 0,
  };
  /** Batches sent and not acknowledged, in the order in which they were sent. */
  readonly #waiting = new Set<Batch>();
  /** Batches that get more lines, by shard. */
  readonly #open = new Map<number | undefined, Batch>();
  /** The batch to send next. */
  #next: Batch | undefined;
  readonly #names: ShardNames | undefined;
  readonly #batchBytes: number;
  #turn = 0;
  readonly #refused: RefusedLine[] = [];
  readonly #itemBytes: number;
  readonly #lineFactor: number;
  #lastLine: number;

  constructor(client: TaskMasterClient, settings: LinesSettings) {
    this.#client = client;
    this.#settings = settings;
    const { queue, task, headersField } = settings;
    // The headers of a line are in its bytes.
    this.#lineFactor = headersField === undefined ? 1 : 2;
    this.#itemBytes = ITEM_BYTES + Buffer.byteLength(queue) + headersSizeBound(task.headers ?? {});
    this.#lastLine = settings.fromLine - 1;
    this.#names = settings.shards === undefined ? undefined : new ShardNames(settings.queue);
    const share = Math.max(LEAST_BATCH_BYTES, SHARDS_BYTES / (settings.shards ?? 1));
    this.#batchBytes = settings.pids.kind === 'none' ? BATCH_BYTES : Math.min(BATCH_BYTES, share);
  }

  get report(): LinesReport {
    const waiting = [...this.#waiting].map(({ lines, maybeStored }) => ({
      first: numberOf(lines[0]),
      last: numberOf(lines.at(-1)),
      maybeStored,
    }));
    const unsent = [...this.#open.values(), ...(this.#next === undefined ? [] : [this.#next])];
    const firsts = [...waiting.map(({ first }) => first), ...unsent.map(({ lines }) => numberOf(lines[0]))];
    const isMixed = this.#names !== undefined && this.#settings.pids.kind !== 'none';
    return {
      ...this.#counts,
      storedThroughLine: Math.min(this.#lastLine, ...firsts.map((first) => first - 1)),
      unacknowledged: isMixed ? asOneRange(waiting) : waiting,
      refused: this.#refused,
    };
  }

  /** Number of acknowledged tasks. */
  get tasks(): number {
    const { created, collapsed, replaced, rerun, keptOut, dropped } = this.#counts;
    return created + collapsed + replaced + rerun + keptOut + dropped;
  }

  async run(lines: AsyncIterable<Line | typeof PAUSE>): Promise<void> {
    const inFlight = new InFlight(this.#settings.inFlight);
    try {
      for await (const batch of this.#batches(lines)) {
        await inFlight.add(() => this.#send(batch));
      }
      await inFlight.drain();
    } finally {
      // Wait for the answers, because the report must say what is stored.
      await inFlight.settled();
    }
  }

  async *#batches(lines: AsyncIterable<Line | typeof PAUSE>): AsyncGenerator<Batch, void> {
    const { batchTasks, fromLine } = this.#settings;
    const open = this.#open;
    for await (const line of lines) {
      if (line === PAUSE) {
        for (const batch of [...open.values()]) yield this.#close(batch);
        continue;
      }
      if (line.number < fromLine) continue;
      if (line.bytes.byteLength === 0) {
        this.#counts.empty++;
        continue;
      }
      const bytes = this.#itemBytes + this.#lineFactor * line.bytes.byteLength;
      const shard = this.#shardOf(line);
      let batch = open.get(shard);
      if (batch !== undefined && batch.bytes + bytes > this.#batchBytes) {
        yield this.#close(batch);
        batch = undefined;
      }
      batch ??= emptyBatch(shard);
      open.set(shard, batch);
      batch.lines.push(line);
      batch.bytes += bytes;
      if (batch.lines.length >= batchTasks) yield this.#close(batch);
    }
    for (const batch of [...open.values()]) yield this.#close(batch);
  }

  #close(batch: Batch): Batch {
    this.#open.delete(batch.shard);
    this.#next = batch;
    return batch;
  }

  #shardOf(line: Line): number | undefined {
    const { shards, pids, task } = this.#settings;
    if (shards === undefined) return undefined;
    const identity = identityOf({ key: task.key, pid: pidOfLine(line, pids) });
    return identity === undefined ? undefined : shardOfPid(identity, shards);
  }

  /** Name of the queue of a batch, and the options of its tasks. */
  #placeOf({ shard }: Batch): { readonly name: string; readonly task: TaskOptions } {
    const { queue, shards, task } = this.#settings;
    if (this.#names === undefined || shards === undefined) return { name: queue, task };
    const number = shard ?? this.#turn++ % shards;
    return { name: this.#names.of(number), task: this.#names.optionsOf(number, task) };
  }

  async #send(batch: Batch): Promise<void> {
    const { pids } = this.#settings;
    const { name, task } = this.#placeOf(batch);
    const queue = this.#client.queue(name, { codec: bytesCodec });
    const update = this.#client.update();
    for (const line of batch.lines) {
      const pid = pidOfLine(line, pids);
      const ofLine = this.#taskOf(line, task);
      update.enqueue(queue, line.bytes, pid === undefined ? ofLine : { ...ofLine, pid });
    }
    const last = batch.lines.at(-1);
    this.#lastLine = Math.max(this.#lastLine, numberOf(last));
    this.#waiting.add(batch);
    this.#next = undefined;
    // Ctrl-C does not abort this call, because the report must say whether the batch is stored.
    const { enqueued } = await update.commit().catch((error: unknown) => {
      this.#failed(batch, error);
      throw error;
    });
    this.#waiting.delete(batch);
    this.#counts.bytes = Math.max(this.#counts.bytes, last?.endsAt ?? 0);
    for (const outcome of enqueued) this.#count(outcome);
  }

  #taskOf({ bytes, number }: Line, task: TaskOptions): TaskOptions {
    const { headersField } = this.#settings;
    return headersField === undefined ? task : { ...task, headers: headersOfLine(bytes, number, headersField, task) };
  }

  #count({ result, leased }: EnqueueOutcome): void {
    this.#counts[result === 'kept-out' ? 'keptOut' : result]++;
    if (leased) this.#counts.leased++;
  }

  #failed(batch: Batch, error: unknown): void {
    if (!isTaskMasterError(error)) return;
    batch.maybeStored = error.maybeApplied;
    for (const { index, reason, pid } of error.items) {
      this.#refused.push({ line: numberOf(batch.lines[index]), reason, pid: pidText(pid) });
    }
  }
}

/** The headers of a line: an object of texts in a field of its JSON object. Undefined: it has no such field. */
function headersOfLine(bytes: Buffer, line: number, path: string, { headers }: TaskOptions): TaskHeaders | undefined {
  const found = fieldOf(bytes, line, path);
  if (found === undefined) return headers;
  const isObject = typeof found === 'object' && found !== null && !Array.isArray(found);
  if (!isObject || Object.values(found).some((value) => typeof value !== 'string')) {
    throw new UsageError(`line ${line}: '${path}' is not an object of texts`);
  }
  return { ...headers, ...(found as TaskHeaders) };
}

function emptyBatch(shard: number | undefined): Batch {
  return { shard, lines: [], bytes: 0, maybeStored: false };
}

/** The lines of batches of several shards are mixed. Some lines of the range may be stored. */
function asOneRange(waiting: readonly UnacknowledgedLines[]): readonly UnacknowledgedLines[] {
  if (waiting.length === 0) return waiting;
  const first = Math.min(...waiting.map((range) => range.first));
  return [{ first, last: Math.max(...waiting.map((range) => range.last)), maybeStored: true }];
}

function numberOf(line: Line | undefined): number {
  return line?.number ?? 0;
}
