import { createReadStream, fstatSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import { systemTiming, type Timing } from '@taskmaster/client/internal';
import { CommandFailedError, UsageError } from '../views/cli-errors.ts';
import type { Shell } from '../views/output.ts';

const NEWLINE = 0x0a;
/** Size of one read of a file, in bytes. */
const CHUNK_BYTES = 256 * 1024;

/** A file or stdin. */
export interface Input {
  readonly stream: Readable;
  /** Name for messages. */
  readonly name: string;
  /** Undefined: unknown. */
  readonly totalBytes: number | undefined;
}

/** Opens a file, or stdin for `-`. Reading fails when the signal is aborted. @throws CommandFailedError. */
export async function openInput(path: string, { stdin, signal, err }: Shell): Promise<Input> {
  if (path === '-') {
    // Node.js takes it for an empty input.
    if (stdin === process.stdin && fstatSync(0).isDirectory()) throw new UsageError('stdin is a directory');
    if (stdin.isTTY) err.line('Reading from the terminal; end with Ctrl-D.');
    return { stream: addAbortSignal(signal, stdin), name: 'stdin', totalBytes: undefined };
  }
  try {
    const stats = await stat(path);
    if (stats.isDirectory()) throw new UsageError(`${path} is a directory`);
    const stream = addAbortSignal(signal, createReadStream(path, { highWaterMark: CHUNK_BYTES }));
    // The size of a pipe or a device is not the length of its data.
    return { stream, name: path, totalBytes: stats.isFile() ? stats.size : undefined };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw unreadable(path, error);
  }
}

/** The whole input. `limitOf`: whose limit it is, for the message. @throws UsageError when it is longer than `maxBytes`. */
export async function readWhole(
  { stream, name, totalBytes }: Input,
  maxBytes: number,
  limitOf = 'a task; --lines makes a task of each line',
): Promise<Buffer> {
  const tooLong = (): UsageError => new UsageError(`${name} has more than ${maxBytes} bytes, the limit of ${limitOf}`);
  if (totalBytes !== undefined && totalBytes > maxBytes) throw tooLong();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunksOf(stream, name)) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** A line of an input. */
export interface Line {
  /** From 1. */
  readonly number: number;
  /** The line without its delimiter. A view of a larger buffer: copy it to keep it. */
  readonly bytes: Buffer;
  /** Bytes of the input up to the end of this line. */
  readonly endsAt: number;
}

export interface LineOptions {
  /** Default: a newline. */
  readonly delimiter?: Buffer;
  readonly maxBytes: number;
}

/** The input has brought nothing for a moment. */
export const PAUSE = Symbol('pause');
/** The moment, in ms. */
const PAUSE_MS = 200;

/**
 * The lines of an input, byte for byte. Text behind the last delimiter is a line too. Memory is bounded by one chunk and one
 * line of `maxBytes`.
 * @throws UsageError for a line that is too long.
 */
export async function* readLines(input: Input, options: LineOptions): AsyncGenerator<Line, void> {
  for await (const line of linesOf(chunksOf(input.stream, input.name), input.name, options)) {
    if (line !== PAUSE) yield line;
  }
}

/** As `readLines`, with a mark where the input pauses. A part of a line may have come by then. */
export function readLinesAndPauses(
  { stream, name }: Input,
  options: LineOptions,
  timing: Pick<Timing, 'after'> = systemTiming,
): AsyncGenerator<Line | typeof PAUSE, void> {
  return linesOf(withPauses(chunksOf(stream, name), timing), name, options);
}

async function* linesOf(
  chunks: AsyncIterable<Buffer | typeof PAUSE>,
  name: string,
  options: LineOptions,
): AsyncGenerator<Line | typeof PAUSE, void> {
  const delimiter = options.delimiter ?? Buffer.of(NEWLINE);
  let number = 0;
  let endsAt = 0;
  let rest: Buffer = Buffer.alloc(0);
  /** Bytes of `rest` that are searched already, so that each chunk of a long line is searched once. */
  let searched = 0;
  const line = (bytes: Buffer, delimiterBytes: number): Line => {
    number++;
    endsAt += bytes.byteLength + delimiterBytes;
    if (bytes.byteLength > options.maxBytes) throw tooLong(name, number, options.maxBytes);
    return { number, bytes, endsAt };
  };
  for await (const chunk of chunks) {
    if (chunk === PAUSE) {
      yield PAUSE;
      continue;
    }
    rest = rest.byteLength === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (;;) {
      const at = rest.indexOf(delimiter, start + searched);
      if (at < 0) break;
      yield line(rest.subarray(start, at), delimiter.byteLength);
      start = at + delimiter.byteLength;
      searched = 0;
    }
    rest = rest.subarray(start);
    searched = Math.max(0, rest.byteLength - delimiter.byteLength + 1);
    if (rest.byteLength > options.maxBytes + delimiter.byteLength) throw tooLong(name, number + 1, options.maxBytes);
  }
  if (rest.byteLength > 0) yield line(rest, 0);
}

async function* chunksOf(stream: Readable, name: string): AsyncGenerator<Buffer, void> {
  try {
    for await (const chunk of stream) yield chunk as Buffer;
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') throw error;
    throw unreadable(name, error);
  }
}

/** A mark for each pause between two chunks. */
async function* withPauses(
  chunks: AsyncGenerator<Buffer, void>,
  timing: Pick<Timing, 'after'>,
): AsyncGenerator<Buffer | typeof PAUSE, void> {
  try {
    for (;;) {
      const next = chunks.next();
      const pause = Promise.withResolvers<typeof PAUSE>();
      const cancel = timing.after(PAUSE_MS, () => pause.resolve(PAUSE));
      const first = await Promise.race([next, pause.promise]).finally(cancel);
      if (first === PAUSE) yield PAUSE;
      const { value, done } = await next;
      if (done) return;
      yield value;
    }
  } finally {
    // Not waited for: a read that is under way may take for ever.
    void chunks.return();
  }
}

function tooLong(name: string, line: number, maxBytes: number): UsageError {
  return new UsageError(`${name}: line ${line} has more than ${maxBytes} bytes, the limit of a task`);
}

function unreadable(name: string, cause: unknown): CommandFailedError {
  const { code = 'READ_FAILED', message } = cause as NodeJS.ErrnoException;
  const why = code === 'ENOENT' ? 'no such file' : message;
  return new CommandFailedError(code, `${name} cannot be read: ${why}`, { cause });
}
