import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Standard output or standard error: a terminal, a pipe or a file. */
export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number };

/** Size of the terminal. 80 columns and 24 rows if it is unknown or there is no terminal. */
export function sizeOf({ columns, rows }: OutputStream): { readonly columns: number; readonly rows: number } {
  // A terminal may report 0 for an unknown size.
  return { columns: columns || 80, rows: rows || 24 };
}

/**
 * Standard output. It is no error if the reader closes it (`| head -1`): `closed` is aborted, and later output is
 * dropped.
 */
export class Output {
  readonly json: boolean;
  readonly stream: OutputStream;
  readonly #closed = new AbortController();
  #isHandedOver = false;

  constructor(stream: OutputStream, options: { readonly json: boolean }) {
    this.stream = stream;
    this.json = options.json;
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // The reader closed the pipe or the terminal.
      if (
        !this.#isHandedOver &&
        error.code !== 'EPIPE' &&
        error.code !== 'EIO' &&
        error.code !== 'ERR_STREAM_DESTROYED'
      )
        throw error;
      this.#closed.abort(error);
    });
  }

  /** Aborted when the reader has closed the stream. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  get isTerminal(): boolean {
    return this.stream.isTTY === true;
  }

  /** Gives the stream to a caller that writes bytes and handles the errors of the stream. */
  handOver(): OutputStream {
    this.#isHandedOver = true;
    return this.stream;
  }

  /** Writes, and waits for a slow reader. */
  async write(data: string | Uint8Array): Promise<void> {
    if (this.#closed.signal.aborted || this.stream.write(data)) return;
    try {
      await once(this.stream, 'drain', { signal: this.#closed.signal });
    } catch (error) {
      if (!this.#closed.signal.aborted) throw error;
    }
  }

  /** Writes one line. */
  line(text = ''): Promise<void> {
    return this.write(`${text}\n`);
  }

  /** Writes a JSON object as one line. */
  object(value: object): Promise<void> {
    return this.write(`${JSON.stringify(value)}\n`);
  }

  /** Resolves when all output has left this process. */
  async flush(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stream.write('', () => resolve());
    this.#closed.signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
  }
}
