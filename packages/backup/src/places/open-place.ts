import type { Readable, Writable } from 'node:stream';
import { BackupError } from '../format/errors.ts';
import { Directory } from './directory.ts';
import type { BackupSource, BackupStore, BackupTarget } from './place.ts';
import { TarSource, TarTarget } from './tar.ts';

/** The streams behind `-`. */
export interface Streams {
  readonly stdin: Readable;
  readonly stdout: Writable;
}

/**
 * Opens the place where a backup is written: a directory, `s3://bucket/prefix`, or `-` for a tar stream on standard output.
 * Throws `BackupError` if there is no such place.
 */
export async function openTarget(place: string, { stdout }: Pick<Streams, 'stdout'>): Promise<BackupTarget> {
  return place === '-' ? new TarTarget(stdout) : openStore(place);
}

/** Opens the place where a backup is read; see `openTarget`. */
export async function openSource(place: string, { stdin }: Pick<Streams, 'stdin'>): Promise<BackupSource> {
  return place === '-' ? new TarSource(stdin) : openStore(place);
}

/** Opens a directory or an S3-compatible store. */
export async function openStore(place: string): Promise<BackupStore> {
  if (!place.includes('://')) return new Directory(place);
  const [, bucket, prefix = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(place) ?? [];
  if (bucket === undefined) {
    throw new BackupError('UNSUPPORTED', `${place} is not a place for backups`, {
      hint: 'give a directory, s3://bucket/prefix, or - for a tar stream',
    });
  }
  const folder = prefix.replace(/\/+$/, '');
  const { S3Store } = await loadS3();
  return new S3Store({ bucket, prefix: folder === '' ? '' : `${folder}/` });
}

/** The client of AWS is large, so it is optional. */
async function loadS3(): Promise<typeof import('./s3.ts')> {
  try {
    return await import('./s3.ts');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new BackupError('UNSUPPORTED', 'S3 needs the package @aws-sdk/client-s3, which is not installed', {
      hint: 'install it beside TaskMaster: npm install @aws-sdk/client-s3',
      cause: error,
    });
  }
}
