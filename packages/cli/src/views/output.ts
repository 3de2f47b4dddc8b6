import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { escapeControls, visibleJson } from '@taskmaster/proto';
import { CommandFailedError } from './cli-errors.ts';

/** Standard output or standard error: a terminal, a pipe or a file. */
export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number };

/** Size of the terminal. 80 columns and 24 rows if it is unknown or there is no terminal. */
export function sizeOf({ columns, rows }: OutputStream): { readonly columns: number; readonly rows: number } {
  // A terminal may report 0 for an unknown size.
  return { columns: columns || 80, rows: rows || 24 };
}

/** Errors of a stream whose reader is gone: it closed the pipe or the terminal. */
const GONE: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EIO', 'ERR_STREAM_DESTROYED']);

const problems: Readonly<Record<string, string>> = {
  ENOSPC: 'no space is left on the device',
  EDQUOT: 'the quota of the disk is reached',
  EFBIG: 'the file is as large as it may be',
};

/**
 * Standard output. It is no error if the reader closes it (`| head -1`): `closed` is aborted, and later output is
 * dropped. Other errors of the stream fail the command.
 */
export class Output {
  readonly json: boolean;
  readonly stream: OutputStream;
  readonly #closed = new AbortController();
  #isHandedOver = false;
  /** Why output could not be written. */
  #failure: CommandFailedError | undefined;

  constructor(stream: OutputStream, options: { readonly json: boolean }) {
    this.stream = stream;
    this.json = options.json;
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!this.#isHandedOver && !GONE.has(error.code)) this.#failure ??= unwritable(error);
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

  /** Writes bytes as they are, and waits for a slow reader. @throws CommandFailedError */
  async write(data: string | Uint8Array): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#closed.signal.aborted || this.stream.write(data)) return;
    try {
      await once(this.stream, 'drain', { signal: this.#closed.signal });
    } catch (error) {
      if (!this.#closed.signal.aborted) throw error;
    }
  }

  /** Writes one line, in which text of other users cannot control the terminal. */
  line(text = ''): Promise<void> {
    return this.write(`${escapeControls(text)}\n`);
  }

  /** Writes lines of a table or another view, which has escaped the text of other users. */
  block(text: string): Promise<void> {
    return this.write(`${text}\n`);
  }

  /** Writes a JSON object as one line. */
  object(value: object): Promise<void> {
    return this.write(`${jsonText(value)}\n`);
  }

  /** Resolves when all output has left this process. @throws CommandFailedError if it could not be written. */
  async flush(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#closed.signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stream.write('', () => resolve());
    this.#closed.signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** Standard error: messages for people, and errors for programs as lines of JSON. */
export class Messages {
  readonly stream: OutputStream;

  constructor(stream: OutputStream) {
    this.stream = stream;
  }

  get isTerminal(): boolean {
    return this.stream.isTTY === true;
  }

  /** Writes one line, in which text of other users cannot control the terminal. */
  line(text: string): void {
    this.stream.write(`${escapeControls(text)}\n`);
  }

  /** Writes lines of a stack trace. They are indented, so that none looks like a message. */
  stack(text: string): void {
    for (const line of text.split('\n')) this.line(`  ${line}`);
  }

  /** Writes a JSON object as one line. */
  object(value: object): void {
    this.stream.write(`${jsonText(value)}\n`);
  }
}

/** JSON in one line. Characters that a terminal obeys instead of showing them are escapes. */
const jsonText = (value: object): string => visibleJson(JSON.stringify(value));

function unwritable(error: NodeJS.ErrnoException): CommandFailedError {
  const { code = 'WRITE_FAILED', message } = error;
  const why = problems[code] ?? message;
  return new CommandFailedError(code, `standard output cannot be written: ${why}`, { cause: error });
}

/** The streams of a command and the signal that interrupts it. */
export interface Shell {
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly out: Output;
  readonly err: Messages;
  /** Aborted by Ctrl-C, SIGTERM or SIGHUP. Its reason is an `InterruptedError`. */
  readonly signal: AbortSignal;
}
