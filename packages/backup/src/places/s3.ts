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
import { isIntact, type PartRecord } from '../format/manifest.ts';
import type { BackupStore } from './place.ts';

/** A bucket, and the beginning of the keys of one backup: empty, or with a slash at its end. */
export interface S3Address {
  readonly bucket: string;
  readonly prefix: string;
}

/** The variables of the AWS tools that name another endpoint than that of AWS. */
const ENDPOINT_VARIABLES = ['AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'];
const REGION_VARIABLES = ['AWS_REGION', 'AWS_DEFAULT_REGION'];

/** A backup in a bucket of an S3-compatible store: one object for each part. */
export class S3Store implements BackupStore {
  readonly title: string;
  readonly maxConcurrency = undefined;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  /** Credentials, region and endpoint come from where the tools of AWS look for them. */
  constructor({ bucket, prefix }: S3Address, env: NodeJS.ProcessEnv = process.env) {
    this.title = `s3://${bucket}/${prefix}`;
    this.#bucket = bucket;
    this.#prefix = prefix;
    const hasEndpoint = ENDPOINT_VARIABLES.some((name) => Boolean(env[name]));
    const hasRegion = REGION_VARIABLES.some((name) => Boolean(env[name]));
    this.#client = new S3Client({
      // Other stores seldom have a host name for each bucket, and need no region.
      ...(hasEndpoint && { forcePathStyle: true }),
      ...(hasEndpoint && !hasRegion && { region: 'us-east-1' }),
      // Older stores know no checksums of requests. The manifest has its own.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
  }

  get store(): BackupStore {
    return this;
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    const request = { ...this.#at(name), Body: bytes, ContentLength: bytes.byteLength };
    await this.#doing(`cannot write ${name}`, () => this.#client.send(new PutObjectCommand(request)));
  }

  /** A stored object is durable. */
  finish(name: string, bytes: Uint8Array): Promise<void> {
    return this.write(name, bytes);
  }

  read(name: string): Promise<Uint8Array | undefined> {
    return this.#doing(`cannot read ${name}`, async () => {
      try {
        const { Body } = await this.#client.send(new GetObjectCommand(this.#at(name)));
        return Body?.transformToByteArray();
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    });
  }

  list(): Promise<readonly string[]> {
    return this.#doing('cannot list the objects', async () => {
      const names: string[] = [];
      let token: string | undefined;
      do {
        const request = { Bucket: this.#bucket, Prefix: this.#prefix, ContinuationToken: token };
        const { Contents = [], NextContinuationToken } = await this.#client.send(new ListObjectsV2Command(request));
        for (const { Key } of Contents) if (Key !== undefined) names.push(Key.slice(this.#prefix.length));
        token = NextContinuationToken;
      } while (token !== undefined);
      return names;
    });
  }

  async remove(name: string): Promise<void> {
    await this.#doing(`cannot remove ${name}`, () => this.#client.send(new DeleteObjectCommand(this.#at(name))));
  }

  /** The store copies the object. Its size is checked here, its content by the store. */
  async copyFrom(base: BackupStore, part: PartRecord): Promise<boolean> {
    if (!(base instanceof S3Store)) {
      const bytes = await base.read(part.name);
      if (!bytes || !isIntact(part, bytes)) return false;
      await this.write(part.name, bytes);
      return true;
    }
    return this.#doing(`cannot copy ${part.name}`, async () => {
      try {
        const { ContentLength } = await base.#client.send(new HeadObjectCommand(base.#at(part.name)));
        if (ContentLength !== part.bytes) return false;
        const { Bucket, Key } = base.#at(part.name);
        const CopySource = [Bucket, ...Key.split('/')].map(encodeURIComponent).join('/');
        await this.#client.send(new CopyObjectCommand({ ...this.#at(part.name), CopySource }));
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

  async #doing<T>(what: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
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

const isMissing = (error: unknown): boolean =>
  error instanceof S3ServiceException && (error.name === 'NoSuchKey' || error.name === 'NotFound');

/** Insufficient Storage, or a quota. AWS has no limit, but other stores have. */
const isFull = (error: unknown): boolean =>
  error instanceof S3ServiceException &&
  (error.$metadata.httpStatusCode === 507 || /StorageFull|QuotaExceeded/.test(error.name));
