import type { TaskMasterClient } from '../../api/client.ts';
import type { TaskOptions } from '../../tasks/new-task.ts';
import type { EnqueueOutcome } from '../../tasks/update.ts';
import { bytesCodec } from '../../values/codec.ts';
import { isTaskMasterError } from '../../values/errors.ts';
import { pidText } from '../../values/pid.ts';
import { InFlight } from '../in-flight.ts';
import { type PidSource, pidOfLine } from './pid-source.ts';
import type { Line } from './read-input.ts';

export interface LinesSettings {
  readonly queue: string;
  readonly pids: PidSource;
  readonly task: TaskOptions;
  /** Most tasks in one batch. */
  readonly batchTasks: number;
  /** Batches sent and not yet answered. */
  readonly inFlight: number;
  /** Lines before this one are left out; from 1. */
  readonly fromLine: number;
}

/** What has come of the lines so far. */
export interface LinesReport {
  readonly created: number;
  readonly collapsed: number;
  readonly replaced: number;
  /** Of those collapsed and replaced: into tasks that are leased. */
  readonly leased: number;
  /** Lines left out because they are empty. */
  readonly empty: number;
  /** Of the input, up to the last line that was sent. */
  readonly bytes: number;
  /** All lines up to this one are stored, except for empty ones. */
  readonly storedThroughLine: number;
  /** Lines that were sent, but not acknowledged: first and last of each batch. */
  readonly unacknowledged: readonly UnacknowledgedLines[];
  /** Lines that made their batches impossible. */
  readonly refused: readonly RefusedLine[];
}

interface UnacknowledgedLines {
  readonly first: number;
  readonly last: number;
  /** No answer came, so they may be stored all the same. False: they are not stored. */
  readonly maybeStored: boolean;
}

export interface RefusedLine {
  readonly line: number;
  readonly reason: string;
  /** As `pidText` writes it. */
  readonly pid: string;
}

interface Batch {
  readonly lines: Line[];
  /** Of payloads and of what goes with each. */
  bytes: number;
  maybeStored: boolean;
}

/** A batch is sent when it has so many bytes: memory is bounded by this and the longest line. */
const BATCH_BYTES = 512 * 1024;
/** What a request needs for a task besides its payload, its PID and the queue's name, at most. */
const ITEM_BYTES = 64;

/**
 * Enqueues each line as a task, in batches, of which several may be under way. A batch is atomic, the whole is not. The
 * first failure stops it once all batches under way are answered.
 */
export class LineEnqueuer {
  readonly #client: TaskMasterClient;
  readonly #settings: LinesSettings;
  readonly #counts = { created: 0, collapsed: 0, replaced: 0, leased: 0, empty: 0, bytes: 0 };
  /** Sent and not acknowledged, in the order of their lines. */
  readonly #waiting = new Set<Batch>();
  readonly #refused: RefusedLine[] = [];
  readonly #itemBytes: number;
  #lastLine: number;

  constructor(client: TaskMasterClient, settings: LinesSettings) {
    this.#client = client;
    this.#settings = settings;
    this.#itemBytes = ITEM_BYTES + Buffer.byteLength(settings.queue);
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

  /** Tasks acknowledged. */
  get tasks(): number {
    return this.#counts.created + this.#counts.collapsed + this.#counts.replaced;
  }

  async run(lines: AsyncIterable<Line>): Promise<void> {
    const inFlight = new InFlight(this.#settings.inFlight);
    try {
      for await (const batch of this.#batches(lines)) {
        await inFlight.add(() => this.#send(batch));
      }
      await inFlight.drain();
    } finally {
      // What is under way is finished: the report must say what is stored.
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
      const bytes = this.#itemBytes + line.bytes.byteLength;
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
    const { queue: name, pids, task } = this.#settings;
    const queue = this.#client.queue(name, { codec: bytesCodec });
    const update = this.#client.update();
    for (const line of batch.lines) {
      const pid = pidOfLine(line, pids);
      update.enqueue(queue, line.bytes, pid === undefined ? task : { ...task, pid });
    }
    const last = batch.lines.at(-1);
    this.#lastLine = numberOf(last);
    this.#waiting.add(batch);
    // Without the signal of Ctrl-C: what was sent is waited for, so that the report can say whether it is stored.
    const { enqueued } = await update.commit().catch((error: unknown) => {
      this.#failed(batch, error);
      throw error;
    });
    this.#waiting.delete(batch);
    this.#counts.bytes = Math.max(this.#counts.bytes, last?.endsAt ?? 0);
    for (const outcome of enqueued) this.#count(outcome);
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

function emptyBatch(): Batch {
  return { lines: [], bytes: 0, maybeStored: false };
}

function numberOf(line: Line | undefined): number {
  return line?.number ?? 0;
}
