import { pipeline, Readable, Transform } from 'node:stream';
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { BackupError } from '../format/errors.ts';
import type { PartRecord } from '../format/manifest.ts';
import { type BackupStore, intactPart, MAX_OBJECTS, tooLong, tooManyObjects } from './place.ts';

/** A bucket, and the beginning of the keys of one backup: empty, or with a slash at its end. */
export interface S3Address {
  readonly bucket: string;
  readonly prefix: string;
}

/** The variables of the AWS tools that name another endpoint than that of AWS. */
const ENDPOINT_VARIABLES = ['AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'];
const REGION_VARIABLES = ['AWS_REGION', 'AWS_DEFAULT_REGION'];

/** What tests change. */
interface S3Options {
  readonly env?: NodeJS.ProcessEnv;
  readonly limits?: S3Limits;
}

/** How long a server may take. Without these limits a server that is silent, or drips, would hold a backup for ever. */
export interface S3Limits {
  /** Time without a byte, in ms. */
  readonly stallMs: number;
  /** Time of a request or of a listing, in ms, without that for the bytes of an object. */
  readonly totalMs: number;
  /** The slowest rate at which the bytes of an object may come or go. */
  readonly bytesPerMs: number;
}

const LIMITS: S3Limits = { stallMs: 60_000, totalMs: 600_000, bytesPerMs: 16 };

/** Limit of replies that are not objects, in bytes. A page of 1,000 long keys has some MB. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;

/** A backup in a bucket of an S3-compatible store: one object for each part. */
export class S3Store implements BackupStore {
  readonly title: string;
  readonly maxConcurrency = undefined;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #limits: S3Limits;

  /** Credentials, region and endpoint come from where the tools of AWS look for them. */
  constructor({ bucket, prefix }: S3Address, { env = process.env, limits = LIMITS }: S3Options = {}) {
    this.title = `s3://${bucket}/${prefix}`;
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.#limits = limits;
    const hasEndpoint = ENDPOINT_VARIABLES.some((name) => Boolean(env[name]));
    const hasRegion = REGION_VARIABLES.some((name) => Boolean(env[name]));
    this.#client = new S3Client({
      // Other stores seldom have a host name for each bucket, and need no region.
      ...(hasEndpoint && { forcePathStyle: true }),
      ...(hasEndpoint && !hasRegion && { region: 'us-east-1' }),
      // Older stores know no checksums of requests. The manifest has its own.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: { connectionTimeout: limits.stallMs, socketTimeout: limits.stallMs },
    });
    // The client reads replies into memory, whatever their size. `read` bounds those that are objects.
    this.#client.middlewareStack.add(
      (next, { commandName }) =>
        async (args) => {
          const result = await next(args);
          const response = result.response as { body?: unknown; readonly statusCode?: number };
          const isObject = commandName === 'GetObjectCommand' && response.statusCode === 200;
          if (!isObject && response.body instanceof Readable) response.body = bounded(response.body);
          return result;
        },
      { step: 'deserialize', priority: 'low', name: 'boundReplies' },
    );
  }

  get store(): BackupStore {
    return this;
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    const request = { ...this.#at(name), Body: bytes, ContentLength: bytes.byteLength };
    const command = new PutObjectCommand(request);
    await this.#doing(`cannot write ${name}`, bytes.byteLength, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
  }

  /** A stored object is durable. */
  finish(name: string, bytes: Uint8Array): Promise<void> {
    return this.write(name, bytes);
  }

  read(name: string, maxBytes: number): Promise<Uint8Array | undefined> {
    return this.#doing(`cannot read ${name}`, maxBytes, async (abortSignal) => {
      try {
        const { Body } = await this.#client.send(new GetObjectCommand(this.#at(name)), { abortSignal });
        return Body && (await bytesOf(Body as Readable, name, maxBytes));
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    });
  }

  list(): Promise<readonly string[]> {
    return this.#doing('cannot list the objects', 0, async (abortSignal) => {
      const names: string[] = [];
      let token: string | undefined;
      do {
        const request = { Bucket: this.#bucket, Prefix: this.#prefix, ContinuationToken: token };
        const command = new ListObjectsV2Command(request);
        const { Contents = [], NextContinuationToken } = await this.#client.send(command, { abortSignal });
        for (const { Key } of Contents) if (Key !== undefined) names.push(Key.slice(this.#prefix.length));
        if (names.length > MAX_OBJECTS) throw tooManyObjects(this.title);
        token = NextContinuationToken;
      } while (token !== undefined);
      return names;
    });
  }

  async remove(name: string): Promise<void> {
    const command = new DeleteObjectCommand(this.#at(name));
    await this.#doing(`cannot remove ${name}`, 0, (abortSignal) => this.#client.send(command, { abortSignal }));
  }

  /** The store copies the object. Its size is checked here, its content by the store. */
  async copyFrom(base: BackupStore, part: PartRecord): Promise<boolean> {
    if (!(base instanceof S3Store)) {
      const bytes = await intactPart(base, part);
      if (!bytes) return false;
      await this.write(part.name, bytes);
      return true;
    }
    return this.#doing(`cannot copy ${part.name}`, part.bytes, async (abortSignal) => {
      try {
        const { ContentLength } = await base.#client.send(new HeadObjectCommand(base.#at(part.name)), {
          abortSignal,
        });
        if (ContentLength !== part.bytes) return false;
        const { Bucket, Key } = base.#at(part.name);
        const CopySource = [Bucket, ...Key.split('/')].map(encodeURIComponent).join('/');
        await this.#client.send(new CopyObjectCommand({ ...this.#at(part.name), CopySource }), { abortSignal });
        return true;
      } catch (error) {
        if (isMissing(error)) return false;
        throw error;
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.destroy();
  }

  #at(name: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.#bucket, Key: this.#prefix + name };
  }

  /** `bytes`: what the action may send or receive of an object. */
  async #doing<T>(what: string, bytes: number, action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ms = this.#limits.totalMs + Math.ceil(bytes / this.#limits.bytesPerMs);
    const signal = AbortSignal.timeout(ms);
    try {
      return await action(signal);
    } catch (error) {
      if (error instanceof BackupError) throw error;
      if (signal.aborted) {
        throw new BackupError('BACKUP_PLACE_FAILED', `${what} in ${this.title}: it took longer than ${ms} ms`, {
          cause: error,
        });
      }
      if (isFull(error)) {
        throw new BackupError('BACKUP_PLACE_FULL', `no space is left in ${this.title}`, {
          hint: 'free space, then run the same command again: it continues',
          cause: error,
        });
      }
      const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
      throw new BackupError('BACKUP_PLACE_FAILED', `${what} in ${this.title}: ${name}: ${message}`, { cause: error });
    }
  }
}

function bounded(body: Readable): Readable {
  let length = 0;
  const limit = new Transform({
    transform(chunk: Uint8Array, _encoding, done) {
      length += chunk.byteLength;
      done(length > MAX_REPLY_BYTES ? new Error(`the reply is longer than ${MAX_REPLY_BYTES} bytes`) : null, chunk);
    },
  });
  // The reader of `limit` gets the error.
  pipeline(body, limit, () => {});
  return limit;
}

async function bytesOf(body: Readable, name: string, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Leaving the loop early ends the connection.
  for await (const chunk of body) {
    length += chunk.byteLength;
    if (length > maxBytes) throw tooLong(name, maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const isMissing = (error: unknown): boolean =>
  error instanceof S3ServiceException && (error.name === 'NoSuchKey' || error.name === 'NotFound');

/** Insufficient Storage, or a quota. AWS has no limit, but other stores have. */
const isFull = (error: unknown): boolean =>
  error instanceof S3ServiceException &&
  (error.$metadata.httpStatusCode === 507 || /StorageFull|QuotaExceeded/.test(error.name));
