import type { Family, KeyRange } from '../../ports/store.ts';
import { reuseMemory, type WriteBatch } from '../../ports/write-batch.ts';
import type { Failure } from '../rocks-errors.ts';
import { type StoreThread, startThread } from './store-thread.ts';
import { GROUP_BYTES, type WriterReply, type WriterRequest, type WriterSetup } from './writer-protocol.ts';

/** Requests that the thread may have at a time: one being synced and one that follows at once. Others wait here. */
const IN_HAND = 2;

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** The contents of one request to the thread. */
interface Parcel {
  readonly work:
    | { readonly kind: 'write'; readonly batch: WriteBatch; sync: boolean }
    | { readonly kind: 'deleteRange'; readonly family: Family; readonly range: KeyRange };
  readonly waiters: Waiter[];
}

export interface RocksWriterOptions extends WriterSetup {
  readonly errorOf: (failure: Failure) => Error;
  /** Called when the disk is full, before the waiting writes are rejected. */
  readonly onRefused: (error: Error) => void;
  /** Called once, after a failure that ends all writes, before the waiting writes are rejected. */
  readonly onFailed: (error: Error) => void;
}

/**
 * Sends writes to the writer thread and resolves them when they have taken effect.
 *
 *  H1  Requests are sent in the order of the calls. Writes that arrive while the thread is busy are joined, in order.
 *  H2  After a refusal, all outstanding and new writes are rejected until the callers know of the refusal, because these
 *      writes depend on the refused one.
 */
export class RocksWriter {
  readonly #options: RocksWriterOptions;
  readonly #thread: StoreThread<WriterRequest, WriterReply>;
  /** Requests that were sent and have no answer yet, by rising id. */
  readonly #sent: { readonly id: number; readonly waiters: readonly Waiter[] }[] = [];
  readonly #gathered: Parcel[] = [];
  #sending = false;
  #lastId = 0;
  #era = 0;
  /** A refusal that is not delivered to all callers yet. */
  #refusal: Error | undefined;
  #failure: Error | undefined;

  private constructor(options: RocksWriterOptions, thread: StoreThread<WriterRequest, WriterReply>) {
    this.#options = options;
    this.#thread = thread;
    thread.onReply((reply) => this.#answered(reply));
    thread.onDeath((error) => this.#fail(error));
  }

  /** Resolves when the thread is ready. */
  static async start(options: RocksWriterOptions): Promise<RocksWriter> {
    const { handle, dir, groupNumber, flushIntervalMs } = options;
    const setup: WriterSetup = { handle, dir, groupNumber, flushIntervalMs };
    return new RocksWriter(options, await startThread('rocks-writer-thread', setup));
  }

  write(batch: WriteBatch, sync: boolean): Promise<void> {
    return this.#submit((waiter) => {
      const last = this.#gathered.at(-1);
      if (last?.work.kind === 'write' && last.work.batch.byteLength < GROUP_BYTES) {
        last.work.batch.append(batch);
        last.work.sync ||= sync;
        last.waiters.push(waiter);
      } else {
        this.#gathered.push({ work: { kind: 'write', batch, sync }, waiters: [waiter] });
      }
    });
  }

  deleteRange(family: Family, range: KeyRange): Promise<void> {
    return this.#submit((waiter) => {
      this.#gathered.push({ work: { kind: 'deleteRange', family, range }, waiters: [waiter] });
    });
  }

  /** Finishes all earlier writes, then ends the thread. No call may follow. */
  async close(): Promise<void> {
    while (this.#gathered.length > 0) this.#send(this.#gathered.splice(0, 1));
    this.#thread.post({ kind: 'close' });
    await this.#thread.ended;
  }

  #submit(add: (waiter: Waiter) => void): Promise<void> {
    const error = this.#failure ?? this.#refusal;
    if (error !== undefined) return Promise.reject(error);
    const promise = new Promise<void>((resolve, reject) => add({ resolve, reject }));
    this.#sendSoon();
    return promise;
  }

  /** Sends requests at the end of the current turn, so that all writes of the turn can join. */
  #sendSoon(): void {
    if (this.#sending || this.#sent.length >= IN_HAND) return;
    this.#sending = true;
    queueMicrotask(() => {
      this.#sending = false;
      const room = IN_HAND - this.#sent.length;
      if (room > 0) this.#send(this.#gathered.splice(0, room));
    });
  }

  #send(parcels: readonly Parcel[]): void {
    for (const { work, waiters } of parcels) {
      const id = ++this.#lastId;
      const era = this.#era;
      this.#sent.push({ id, waiters });
      if (work.kind === 'write') {
        const records = work.batch.take();
        this.#thread.post({ kind: 'write', id, era, records, sync: work.sync }, [records.buffer]);
      } else {
        const { gte, lt } = work.range;
        this.#thread.post({ kind: 'deleteRange', id, era, family: work.family, gte, lt });
      }
    }
  }

  #answered(reply: WriterReply): void {
    switch (reply.kind) {
      case 'done': {
        const end = this.#sent.findIndex(({ id }) => id > reply.through);
        const done = this.#sent.splice(0, end === -1 ? this.#sent.length : end);
        for (const memory of reply.spent) reuseMemory(memory);
        this.#sendSoon();
        for (const { waiters } of done) for (const { resolve } of waiters) resolve();
        return;
      }
      case 'refused': {
        const error = this.#options.errorOf(reply.failure);
        this.#era++;
        this.#options.onRefused(error);
        const refused = this.#outstanding();
        for (const { reject } of refused) reject(error);
        if (refused.length === 0) return;
        this.#refusal = error;
        // A turn later every caller knows of it, even through a chain of promises.
        setImmediate(() => {
          this.#refusal = undefined;
        });
        return;
      }
      case 'failed':
        this.#fail(this.#options.errorOf(reply.failure));
        return;
      case 'ready':
        return;
      default:
        reply satisfies never;
    }
  }

  #fail(error: Error): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#options.onFailed(error);
    for (const { reject } of this.#outstanding()) reject(error);
  }

  /** Removes and returns all waiters, in order. */
  #outstanding(): Waiter[] {
    return [...this.#sent.splice(0), ...this.#gathered.splice(0)].flatMap(({ waiters }) => waiters);
  }
}
