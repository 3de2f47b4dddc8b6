import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** A stream as processes have them: a terminal, a pipe or a file. */
export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number };

/** How much a stream shows. One that does not know, as one that is no terminal, has a size that suits most. */
export function sizeOf({ columns, rows }: OutputStream): { readonly columns: number; readonly rows: number } {
  // 0 is what terminals say that were never told their size.
  return { columns: columns || 80, rows: rows || 24 };
}

/**
 * Standard output. A reader that goes away (`| head -1`) is no error: `closed` is aborted and what is written after
 * that is dropped.
 */
export class Output {
  readonly json: boolean;
  readonly stream: OutputStream;
  readonly #closed = new AbortController();

  constructor(stream: OutputStream, options: { readonly json: boolean }) {
    this.stream = stream;
    this.json = options.json;
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A pipe that is closed, or a terminal that is gone.
      if (error.code !== 'EPIPE' && error.code !== 'EIO' && error.code !== 'ERR_STREAM_DESTROYED') throw error;
      this.#closed.abort(error);
    });
  }

  /** Aborted when nobody reads any more. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  get isTerminal(): boolean {
    return this.stream.isTTY === true;
  }

  /** Writes and waits while the reader is slow. */
  async write(data: string | Uint8Array): Promise<void> {
    if (this.#closed.signal.aborted || this.stream.write(data)) return;
    try {
      await once(this.stream, 'drain', { signal: this.#closed.signal });
    } catch (error) {
      if (!this.#closed.signal.aborted) throw error;
    }
  }

  line(text = ''): Promise<void> {
    return this.write(`${text}\n`);
  }

  /** One line that is a JSON object. */
  object(value: object): Promise<void> {
    return this.write(`${JSON.stringify(value)}\n`);
  }

  /** Resolves when all that was written is out of this process. */
  async flush(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stream.write('', () => resolve());
    this.#closed.signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
  }
}
