import type { Family, KeyRange } from '../../ports/store.ts';
import { reuseMemory, type WriteBatch } from '../../ports/write-batch.ts';
import type { Failure } from '../rocks-errors.ts';
import { type StoreThread, startThread } from './store-thread.ts';
import { GROUP_BYTES, type WriterReply, type WriterRequest, type WriterSetup } from './writer-protocol.ts';

/** Requests the thread may have at a time: one being synced and one that follows at once. The rest gathers here. */
const IN_HAND = 2;

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** What becomes one request to the thread. */
interface Parcel {
  readonly work:
    | { readonly kind: 'write'; readonly batch: WriteBatch; sync: boolean }
    | { readonly kind: 'deleteRange'; readonly family: Family; readonly range: KeyRange };
  readonly waiters: Waiter[];
}

export interface RocksWriterOptions extends WriterSetup {
  readonly errorOf: (failure: Failure) => Error;
  /** Called before those who wait for a write are told that the disk is full. */
  readonly onRefused: (error: Error) => void;
  /** Called once, before those who wait are told that nothing will be written any more. */
  readonly onFailed: (error: Error) => void;
}

/**
 * Hands writes to the writer thread and tells when they took effect.
 *
 *  H1  Requests are sent in the order of the calls; writes given while the thread is busy are joined, in order.
 *  H2  From a refusal until its callers have heard of it all that is outstanding or given is rejected: they have built
 *      it on what was refused.
 */
export class RocksWriter {
  readonly #options: RocksWriterOptions;
  readonly #thread: StoreThread<WriterRequest, WriterReply>;
  /** Sent, not answered; by rising id. */
  readonly #sent: { readonly id: number; readonly waiters: readonly Waiter[] }[] = [];
  readonly #gathered: Parcel[] = [];
  #sending = false;
  #lastId = 0;
  #era = 0;
  /** A refusal that no caller has heard of yet. */
  #refusal: Error | undefined;
  #failure: Error | undefined;

  private constructor(options: RocksWriterOptions, thread: StoreThread<WriterRequest, WriterReply>) {
    this.#options = options;
    this.#thread = thread;
    thread.onReply((reply) => this.#answered(reply));
    thread.onDeath((error) => this.#fail(error));
  }

  /** Resolves when the thread takes requests. */
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

  /** Finishes what was given, then ends the thread. Nothing may be given any more. */
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

  /** Lets the rest of the current turn join, then sends what the thread may have. */
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
        // A turn later every caller has heard of it, through however many promises.
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

  /** Takes everybody who waits, in order. */
  #outstanding(): Waiter[] {
    return [...this.#sent.splice(0), ...this.#gathered.splice(0)].flatMap(({ waiters }) => waiters);
  }
}
