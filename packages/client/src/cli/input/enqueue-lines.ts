import type { TaskMasterClient } from '../../api/client.ts';
import type { TaskHeaders, TaskOptions } from '../../tasks/new-task.ts';
import type { EnqueueOutcome } from '../../tasks/update.ts';
import { headersSizeBound } from '../../transport/request-size.ts';
import { bytesCodec } from '../../values/codec.ts';
import { isTaskMasterError } from '../../values/errors.ts';
import { pidText } from '../../values/pid.ts';
import { InFlight } from '../in-flight.ts';
import { UsageError } from '../output/cli-errors.ts';
import { fieldOf, type PidSource, pidOfLine } from './pid-source.ts';
import type { Line } from './read-input.ts';

export interface LinesSettings {
  readonly queue: string;
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
  readonly lines: Line[];
  /** Estimated size in a request. */
  bytes: number;
  maybeStored: boolean;
}

/** A batch of this size is sent. It bounds the memory, together with the longest line. */
const BATCH_BYTES = 512 * 1024;
/** Largest size of a task in a request, without payload, PID and queue name. */
const ITEM_BYTES = 64;

/**
 * Enqueues each line as a task, in batches, several at the same time. A batch is atomic, the whole input is not. After the
 * first failure it sends no more batches and waits for the answers.
 */
export class LineEnqueuer {
  readonly #client: TaskMasterClient;
  readonly #settings: LinesSettings;
  readonly #counts = { created: 0, collapsed: 0, replaced: 0, rerun: 0, leased: 0, empty: 0, bytes: 0 };
  /** Batches sent and not acknowledged, in the order of their lines. */
  readonly #waiting = new Set<Batch>();
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
  }

  get report(): LinesReport {
    const unacknowledged = [...this.#waiting].map(({ lines, maybeStored }) => ({
      first: numberOf(lines[0]),
      last: numberOf(lines.at(-1)),
      maybeStored,
    }));
    const [earliest] = unacknowledged;
    return {
      ...this.#counts,
      storedThroughLine: earliest === undefined ? this.#lastLine : earliest.first - 1,
      unacknowledged,
      refused: this.#refused,
    };
  }

  /** Number of acknowledged tasks. */
  get tasks(): number {
    const { created, collapsed, replaced, rerun } = this.#counts;
    return created + collapsed + replaced + rerun;
  }

  async run(lines: AsyncIterable<Line>): Promise<void> {
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

  async *#batches(lines: AsyncIterable<Line>): AsyncGenerator<Batch, void> {
    const { batchTasks, fromLine } = this.#settings;
    let batch = emptyBatch();
    for await (const line of lines) {
      if (line.number < fromLine) continue;
      if (line.bytes.byteLength === 0) {
        this.#counts.empty++;
        continue;
      }
      const bytes = this.#itemBytes + this.#lineFactor * line.bytes.byteLength;
      if (batch.lines.length > 0 && batch.bytes + bytes > BATCH_BYTES) {
        yield batch;
        batch = emptyBatch();
      }
      batch.lines.push(line);
      batch.bytes += bytes;
      if (batch.lines.length < batchTasks) continue;
      yield batch;
      batch = emptyBatch();
    }
    if (batch.lines.length > 0) yield batch;
  }

  async #send(batch: Batch): Promise<void> {
    const { queue: name, pids } = this.#settings;
    const queue = this.#client.queue(name, { codec: bytesCodec });
    const update = this.#client.update();
    for (const line of batch.lines) {
      const pid = pidOfLine(line, pids);
      const task = this.#taskOf(line);
      update.enqueue(queue, line.bytes, pid === undefined ? task : { ...task, pid });
    }
    const last = batch.lines.at(-1);
    this.#lastLine = numberOf(last);
    this.#waiting.add(batch);
    // Ctrl-C does not abort this call, because the report must say whether the batch is stored.
    const { enqueued } = await update.commit().catch((error: unknown) => {
      this.#failed(batch, error);
      throw error;
    });
    this.#waiting.delete(batch);
    this.#counts.bytes = Math.max(this.#counts.bytes, last?.endsAt ?? 0);
    for (const outcome of enqueued) this.#count(outcome);
  }

  #taskOf({ bytes, number }: Line): TaskOptions {
    const { task, headersField } = this.#settings;
    return headersField === undefined ? task : { ...task, headers: headersOfLine(bytes, number, headersField, task) };
  }

  #count({ result, leased }: EnqueueOutcome): void {
    this.#counts[result]++;
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

function emptyBatch(): Batch {
  return { lines: [], bytes: 0, maybeStored: false };
}

function numberOf(line: Line | undefined): number {
  return line?.number ?? 0;
}
