import type { Writable } from 'node:stream';

/** The output of a command could not be written: the disk of the file is full, for example. */
export class OutputError extends Error {
  override readonly name = 'OutputError';
}

/** Errors of a stream whose reader is gone, as after `| head -1`. */
const GONE: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EIO', 'ERR_STREAM_DESTROYED']);

/** Writes all output of a command, and resolves when it has left the process. @throws OutputError */
export function writeOutput(text: string, stream: Writable = process.stdout): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error: NodeJS.ErrnoException | null | undefined) => {
      if (error == null || GONE.has(error.code)) resolve();
      else reject(new OutputError(`standard output cannot be written: ${error.message}`, { cause: error }));
    });
  });
}
