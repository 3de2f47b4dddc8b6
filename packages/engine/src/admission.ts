import { BATCH_START } from './domain/batches.ts';
import type {
  BatchCommand,
  DequeueItem,
  EngineHealth,
  RenewItem,
  UpdateCommand,
  UpdateEnd,
} from './domain/commands.ts';
import { Refusal } from './domain/refusal.ts';
import { Tally } from './queues/tally.ts';
import { diskFull } from './store-refusal.ts';

/** Part of the bounds that is reserved for requests that end work or keep leases alive. */
const KEPT_PART = 0.2;
/** Answers may use half of the reserved part, so that new work cannot starve them. Requests that end work have the rest. */
const ANSWERS_UP_TO = 0.9;
/** All answers together have at most this part of the bytes, so that they cannot starve new work. */
const ANSWERS_PART = 0.4;
const RETRY_DELAY_MS = 100;

/** Bytes reserved for an answer. Dispose of it to release them. A class, because a closure costs a lease more (bench row B4). */
export class AnswerRoom implements Disposable {
  readonly #admission: Admission;
  #left: number;

  constructor(admission: Admission, bytes: number) {
    this.#admission = admission;
    this.#left = bytes;
  }

  [Symbol.dispose](): void {
    this.#admission.endAnswer(this.#left);
    this.#left = 0;
  }
}

/**
 * Bounds the work in flight before memory grows. A refusal costs almost nothing.
 *
 *  A1  Requests and the payloads of answers share one bound of bytes. New work is refused from four fifths of it on. Answers
 *      wait for room from nine tenths on, or beyond their own part. So there is always room for requests that end work.
 *  A2  Answers get room in the order in which they asked for it.
 */
export class Admission {
  readonly #maxRequests: number;
  readonly #maxBytes: number;
  readonly #requests = new Tally();
  #bytes = 0;
  /** Bytes of answers; included in `#bytes`. */
  #answerBytes = 0;
  /** Waiters for room, in order. Each function takes the room it can get and returns true if it needs no more. */
  readonly #inLine = new Set<() => boolean>();
  /** `taking`: a waiter is being called. `released`: bytes were released during that call. */
  #turn: 'none' | 'taking' | 'released' = 'none';

  constructor(bounds: { readonly maxInFlightRequests: number; readonly maxInFlightBytes: number }) {
    this.#maxRequests = bounds.maxInFlightRequests;
    this.#maxBytes = bounds.maxInFlightBytes;
  }

  get requests(): number {
    return this.#requests.count;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Limit of the bytes of all answers together, and of a single one. */
  get maxAnswerBytes(): number {
    return this.#maxBytes * ANSWERS_PART;
  }

  /** Runs the work if there is room for it; otherwise throws `OVERLOADED`. New work leaves room for work that ends others. */
  async run<T>(kind: 'new' | 'ending', bytes: number, work: () => Promise<T>): Promise<T> {
    this.enter(kind, bytes);
    try {
      return await work();
    } finally {
      this.leave(bytes);
    }
  }

  /** As `run`, for work in the caller's own frame: the caller must call `leave` afterwards. */
  enter(kind: 'new' | 'ending', bytes: number): void {
    const part = kind === 'new' ? 1 - KEPT_PART : 1;
    // A request larger than the whole bound is admitted when it is alone.
    const tooMany = this.requests >= this.#maxRequests * part;
    const tooMuch = this.#bytes > 0 && this.#bytes + bytes > this.#maxBytes * part;
    if (tooMany || tooMuch) {
      const what = tooMany ? `${this.requests} requests` : `${this.#bytes} bytes`;
      throw new Refusal('OVERLOADED', `${what} are in flight already`, { retryDelayMs: RETRY_DELAY_MS });
    }
    this.#requests.enter();
    this.#bytes += bytes;
  }

  /**
   * As `enter`, for updates. If there is no room for new tasks, the updates that enqueue are refused and the others have entered.
   * On a full disk updates that leave results or checkpoints are refused, too. `publishedBytes`: memory of the tasks that the
   * batch publishes.
   */
  enterUpdates(
    batch: BatchCommand,
    health: EngineHealth,
    publishedBytes = 0,
  ): { readonly bytes: number; readonly noNewTasks: Refusal | undefined } {
    const isFull = health.kind === 'full';
    const adds =
      batch.enqueue.length > 0 || (isFull && (batch.dequeue.some(leavesResult) || batch.renew.some(leavesCheckpoint)));
    const bytes = weightOf(batch) + publishedBytes;
    try {
      if (adds && isFull) throw diskFull();
      this.enter(adds ? 'new' : 'ending', bytes);
      return { bytes, noNewTasks: undefined };
    } catch (error) {
      const refused = (_end: UpdateEnd, index: number) => growsIn(batch, index, isFull);
      if (!adds || !(error instanceof Refusal) || batch.updates.every(refused)) throw error;
      const bytes = weightOf({ ...batch, enqueue: [] });
      this.enter('ending', bytes);
      return { bytes, noNewTasks: error };
    }
  }

  leave(bytes: number): void {
    this.#release(bytes);
    this.#requests.leave();
  }

  /** Reserves room for an answer if there is room and no one waits for it already. A single answer always fits. */
  tryAnswer(bytes: number): AnswerRoom | undefined {
    if (this.#inLine.size > 0 && this.#turn === 'none') return undefined;
    const fits =
      this.#answerBytes + bytes <= this.maxAnswerBytes && this.#bytes + bytes <= this.#maxBytes * ANSWERS_UP_TO;
    if (!fits && this.#answerBytes > 0) return undefined;
    this.#answerBytes += bytes;
    this.#bytes += bytes;
    return new AnswerRoom(this, bytes);
  }

  /** Called by the room of an answer. */
  endAnswer(bytes: number): void {
    this.#answerBytes -= bytes;
    this.#release(bytes);
  }

  /** Waits in line for room. `take` is called when there may be room, until it returns true: it needs no more. */
  standInLine(take: () => boolean): void {
    this.#inLine.add(take);
  }

  /** Resolves with room for an answer. */
  answer(bytes: number): Promise<AnswerRoom> {
    const room = this.tryAnswer(bytes);
    if (room) return Promise.resolve(room);
    return new Promise((resolve) => {
      this.standInLine(() => {
        const room = this.tryAnswer(bytes);
        if (room) resolve(room);
        return room !== undefined;
      });
    });
  }

  /** Resolves when nothing is in flight. */
  idle(): Promise<void> {
    return this.#requests.idle();
  }

  #release(bytes: number): void {
    this.#bytes -= bytes;
    if (bytes === 0) return;
    if (this.#turn === 'none') this.#serveLine();
    else this.#turn = 'released';
  }

  #serveLine(): void {
    for (let [first] = this.#inLine; first !== undefined; [first] = this.#inLine) {
      this.#turn = 'taking';
      try {
        if (first()) this.#inLine.delete(first);
        else if (!this.#bytesReleased()) return;
      } finally {
        this.#turn = 'none';
      }
    }
  }

  #bytesReleased(): boolean {
    return this.#turn === 'released';
  }
}

const leavesResult = ({ result }: DequeueItem): boolean => result !== undefined;
const leavesCheckpoint = ({ checkpoint }: RenewItem): boolean => checkpoint !== undefined && checkpoint.byteLength > 0;

/** Whether an update of a batch enqueues or, on a full disk, leaves a result or a checkpoint. */
function growsIn(batch: BatchCommand, index: number, isFull: boolean): boolean {
  const start = batch.updates[index - 1] ?? BATCH_START;
  const end = batch.updates[index] ?? start;
  return grows(batch, start, end, isFull);
}

/** As `growsIn`, for the update between these ends. */
export const grows = ({ dequeue, renew }: UpdateCommand, start: UpdateEnd, end: UpdateEnd, isFull: boolean): boolean =>
  end.enqueue > start.enqueue ||
  (isFull &&
    (dequeue.slice(start.dequeue, end.dequeue).some(leavesResult) ||
      renew.slice(start.renew, end.renew).some(leavesCheckpoint)));

/** Approximate memory of updates until they are answered, in bytes. */
export function weightOf({ enqueue, dequeue, renew, release }: UpdateCommand): number {
  let bytes = 64 * (dequeue.length + renew.length + release.length);
  for (const { pid, key, data } of enqueue) bytes += 64 + (pid?.length ?? 0) + lengthOf(key) + data.byteLength;
  for (const { key, result, cancelReason } of dequeue) {
    bytes += lengthOf(key) + lengthOf(cancelReason) + (result === undefined ? 0 : 64 + result.data.byteLength);
  }
  for (const { progress, checkpoint } of renew) bytes += lengthOf(progress) + (checkpoint?.byteLength ?? 0);
  for (const { key, error } of release) {
    bytes += lengthOf(key) + (error === undefined ? 0 : 64 + error.message.length + error.details.length);
  }
  return bytes;
}

const lengthOf = (text: string | undefined): number => text?.length ?? 0;
