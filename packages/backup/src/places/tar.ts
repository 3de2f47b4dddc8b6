import type { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createTarDecoder, createTarPacker } from 'modern-tar';
import { BackupError } from '../format/errors.ts';
import { MANIFEST, MAX_MANIFEST_BYTES, partOfName } from '../format/manifest.ts';
import { DAMAGE_HINT, MAX_PART_BYTES } from '../format/part.ts';
import type { BackupObject, BackupStream, BackupTarget } from './place.ts';

/** Writes a backup as a tar stream. Parts of one partition must not come between those of another. */
export class TarTarget implements BackupTarget {
  readonly title = 'standard output';
  readonly maxConcurrency = 1;
  readonly store = undefined;
  readonly #packer = createTarPacker();
  readonly #written: Promise<void>;
  #failure: unknown;

  constructor(out: Writable) {
    this.#written = this.#send(out);
    // A caller of `write` or `finish` gets the error.
    this.#written.catch((error: unknown) => {
      this.#failure = error;
      this.#packer.controller.error(error);
    });
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    try {
      const entry = this.#packer.controller.add({ name, size: bytes.byteLength, mode: 0o600 }).getWriter();
      await entry.write(bytes);
      await entry.close();
    } catch (error) {
      throw asBackupError(this.#failure ?? error);
    }
  }

  async finish(name: string, bytes: Uint8Array): Promise<void> {
    await this.write(name, bytes);
    this.#packer.controller.finalize();
    await this.#written.catch((error: unknown) => {
      throw asBackupError(error);
    });
  }

  /** An unfinished stream has no end mark, so a reader finds that it is truncated. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#packer.controller.error(new Error('the backup ended early'));
    await this.#written.catch(() => {});
  }

  async #send(out: Writable): Promise<void> {
    const failed = finished(out, { readable: false });
    failed.catch(() => {});
    for await (const chunk of this.#packer.readable) {
      if (!out.write(chunk)) await Promise.race([drained(out), failed]);
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    out.write('', (error) => (error ? reject(error) : resolve()));
    await Promise.race([promise, failed]);
  }
}

/** Limit of what may come behind the end mark. Programs fill blocks up to some of this size at most. */
const MAX_PADDING_BYTES = 16 * 1024 * 1024;

/** Reads a backup from a tar stream. */
export class TarSource implements BackupStream {
  readonly title = 'standard input';
  readonly store = undefined;
  readonly #input: Readable;
  /** Bytes that have arrived since the last one that belongs to an entry. The decoder takes any number of them. */
  #idleBytes = 0;

  constructor(input: Readable) {
    this.#input = input;
  }

  /** The manifest and the parts. Skips everything else. Throws `BackupError` if the stream is truncated or not a tar stream. */
  async *stream(): AsyncGenerator<BackupObject> {
    const { readable, writable } = createTarDecoder({ strict: true });
    const piped = this.#pipe(writable);
    piped.catch(() => {});
    try {
      for await (const { header, body } of readable) {
        const name = header.name.split('/').at(-1) ?? '';
        const limit = limitOf(name);
        if (limit === undefined || (header.type ?? 'file') !== 'file') {
          for await (const _ of body) this.#idleBytes = 0;
          continue;
        }
        if (header.size > limit) throw damaged(`${name} would be ${header.size} bytes long`);
        const chunks: Uint8Array[] = [];
        for await (const chunk of body) {
          this.#idleBytes = 0;
          chunks.push(chunk);
        }
        yield { name, bytes: Buffer.concat(chunks) };
        this.#idleBytes = 0;
      }
      await piped;
    } catch (error) {
      throw error instanceof BackupError ? error : damaged(error instanceof Error ? error.message : String(error));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#input.destroy();
  }

  async #pipe(writable: WritableStream<Uint8Array>): Promise<void> {
    const writer = writable.getWriter();
    try {
      for await (const chunk of this.#input) {
        this.#idleBytes += chunk.byteLength;
        if (this.#idleBytes > MAX_PADDING_BYTES) throw damaged('it goes on behind its end');
        await writer.write(chunk);
      }
      await writer.close();
    } catch (error) {
      await writer.abort(error).catch(() => {});
      throw error;
    }
  }
}

function limitOf(name: string): number | undefined {
  if (name === MANIFEST) return MAX_MANIFEST_BYTES;
  return partOfName(name) ? MAX_PART_BYTES : undefined;
}

function drained(out: Writable): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  out.once('drain', resolve);
  return promise;
}

const damaged = (why: string): BackupError =>
  new BackupError('BACKUP_DAMAGED', `the tar stream cannot be read: ${why}`, { hint: DAMAGE_HINT });

function asBackupError(error: unknown): BackupError {
  if (error instanceof BackupError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC') {
    return new BackupError('BACKUP_PLACE_FULL', 'no space is left where standard output goes', { cause: error });
  }
  return new BackupError('BACKUP_PLACE_FAILED', `cannot write to standard output: ${message}`, { cause: error });
}
