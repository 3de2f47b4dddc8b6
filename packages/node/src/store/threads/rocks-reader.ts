import type { Key } from '@taskmaster/engine/domain';
import type { Family, KeyRange, Row, ScanLimit } from '@taskmaster/engine/ports';
import type { Failure } from '../rocks-errors.ts';
import type { Read, ReaderReply, ReaderRequest, ReaderSetup, ReadResult } from './reader-protocol.ts';
import { type StoreThread, startThread } from './store-thread.ts';

type Found = ReadResult & { readonly kind: 'found' };

interface Waiter {
  readonly resolve: (found: Found) => void;
  readonly reject: (error: Error) => void;
}

export interface RocksReaderOptions extends ReaderSetup {
  readonly errorOf: (failure: Failure) => Error;
}

/** Sends reads to one reader thread; the reads of one turn of the event loop are sent together. */
export class RocksReader {
  readonly #thread: StoreThread<ReaderRequest, ReaderReply>;
  readonly #errorOf: (failure: Failure) => Error;
  #gathered: { readonly read: Read; readonly waiter: Waiter }[] = [];
  /** Waiters of the requests that were sent, in order. */
  readonly #sent: Waiter[][] = [];
  #outstanding = 0;
  #death: Error | undefined;

  private constructor(options: RocksReaderOptions, thread: StoreThread<ReaderRequest, ReaderReply>) {
    this.#errorOf = options.errorOf;
    this.#thread = thread;
    thread.onReply((reply) => this.#answered(reply));
    thread.onDeath((error) => this.#died(error));
  }

  /** Resolves when the thread is ready. */
  static async start(options: RocksReaderOptions): Promise<RocksReader> {
    const setup: ReaderSetup = { handle: options.handle };
    return new RocksReader(options, await startThread('rocks-reader-thread', setup));
  }

  /** Number of reads without an answer yet, to choose between readers. */
  get outstanding(): number {
    return this.#outstanding;
  }

  async get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]> {
    return unpackValues(await this.#read({ kind: 'get', family, keys }));
  }

  async scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]> {
    return unpackRows(await this.#read({ kind: 'scan', family, ...range, ...limit }));
  }

  /** Finishes the reads in progress, then ends the thread. */
  async close(): Promise<void> {
    this.#send();
    this.#thread.post({ kind: 'close' });
    await this.#thread.ended;
  }

  #read(read: Read): Promise<Found> {
    if (this.#death !== undefined) return Promise.reject(this.#death);
    if (this.#gathered.length === 0) queueMicrotask(() => this.#send());
    this.#outstanding++;
    return new Promise((resolve, reject) => void this.#gathered.push({ read, waiter: { resolve, reject } }));
  }

  #send(): void {
    const gathered = this.#gathered;
    if (gathered.length === 0) return;
    this.#gathered = [];
    this.#sent.push(gathered.map(({ waiter }) => waiter));
    this.#thread.post({ kind: 'read', reads: gathered.map(({ read }) => read) });
  }

  #answered(reply: ReaderReply): void {
    if (reply.kind === 'ready') return;
    const waiters = this.#sent.shift() ?? [];
    this.#outstanding -= waiters.length;
    for (const [index, { resolve, reject }] of waiters.entries()) {
      const result = reply.results[index];
      if (result?.kind === 'found') resolve(result);
      else reject(this.#errorOf(result?.failure ?? { kind: 'failed', message: 'a read was not answered' }));
    }
  }

  #died(error: Error): void {
    this.#death = this.#errorOf({ kind: 'failed', message: `reading stopped: ${error.message}` });
    const waiters = [...this.#sent.splice(0).flat(), ...this.#gathered.splice(0).map(({ waiter }) => waiter)];
    for (const { reject } of waiters) reject(this.#death);
  }
}

/** Cuts the block into its parts, views of it. */
function unpackValues({ block, lengths }: Found): (Uint8Array | undefined)[] {
  const bytes = asBuffer(block);
  const values: (Uint8Array | undefined)[] = [];
  let at = 0;
  for (const length of lengths) {
    values.push(length < 0 ? undefined : bytes.subarray(at, at + length));
    at += Math.max(length, 0);
  }
  return values;
}

function unpackRows({ block, lengths }: Found): Row[] {
  const bytes = asBuffer(block);
  const rows: Row[] = [];
  let at = 0;
  for (let index = 0; index + 1 < lengths.length; index += 2) {
    const keyEnd = at + (lengths[index] ?? 0);
    const valueEnd = keyEnd + (lengths[index + 1] ?? 0);
    rows.push({ key: bytes.toString('latin1', at, keyEnd) as Key, value: bytes.subarray(keyEnd, valueEnd) });
    at = valueEnd;
  }
  return rows;
}

const asBuffer = (block: Uint8Array): Buffer => Buffer.from(block.buffer, block.byteOffset, block.byteLength);
