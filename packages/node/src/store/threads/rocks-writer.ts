import { type Family, type KeyRange, reuseMemory, type WriteBatch } from '@taskmaster/engine/ports';
import type { Failure } from '../rocks-errors.ts';
import { type StoreThread, startThread } from './store-thread.ts';
import type { WriterReply, WriterRequest, WriterSetup } from './writer-protocol.ts';

/** A request that was sent and has no answer yet. */
interface Sent {
  readonly id: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
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
 *  H1  Requests are sent in the order of the calls, at once. The thread joins writes that arrive while it is busy.
 *  H2  After a refusal, all outstanding and new writes are rejected until the callers know of the refusal, because these
 *      writes depend on the refused one.
 */
export class RocksWriter {
  readonly #options: RocksWriterOptions;
  readonly #thread: StoreThread<WriterRequest, WriterReply>;
  /** By rising id. */
  readonly #sent: Sent[] = [];
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
    return this.#send((id, era) => {
      const records = batch.take();
      this.#thread.post({ kind: 'write', id, era, records, sync }, [records.buffer]);
    });
  }

  deleteRange(family: Family, { gte, lt }: KeyRange): Promise<void> {
    return this.#send((id, era) => this.#thread.post({ kind: 'deleteRange', id, era, family, gte, lt }));
  }

  /** Finishes all earlier writes, then ends the thread. No call may follow. */
  async close(): Promise<void> {
    this.#thread.post({ kind: 'close' });
    await this.#thread.ended;
  }

  #send(post: (id: number, era: number) => void): Promise<void> {
    const error = this.#failure ?? this.#refusal;
    if (error !== undefined) return Promise.reject(error);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#sent.push({ id, resolve, reject });
      post(id, this.#era);
    });
  }

  #answered(reply: WriterReply): void {
    switch (reply.kind) {
      case 'done': {
        const end = this.#sent.findIndex(({ id }) => id > reply.through);
        const done = this.#sent.splice(0, end === -1 ? this.#sent.length : end);
        for (const memory of reply.spent) reuseMemory(memory);
        for (const { resolve } of done) resolve();
        return;
      }
      case 'refused': {
        const error = this.#options.errorOf(reply.failure);
        this.#era++;
        this.#options.onRefused(error);
        const refused = this.#sent.splice(0);
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
    for (const { reject } of this.#sent.splice(0)) reject(error);
  }
}
