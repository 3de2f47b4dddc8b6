import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { StoreCorruptError, StoreNewerError } from '@taskmaster/engine/ports';
import { DATA_FORMAT, dataFormats, oldestReaderOf } from '@taskmaster/proto';
import { syncDirectory } from './sync-mark.ts';

/*
 * The format of the data in a directory is kept in a file, outside RocksDB. A release must know it before it opens RocksDB:
 * the open itself writes files, and a newer release may have column families that this one does not know.
 *
 * The file has one line of JSON and its CRC-32. Every release must be able to read it, so fields are never removed. A
 * directory without the file has the first format.
 */

export const FORMAT_FILE = 'format';

/** The format of a directory, and the releases that can use it. */
export interface DirectoryFormat {
  readonly format: number;
  /** Version of the release that has written this format first. Undefined without the file. */
  readonly writtenBy?: string | undefined;
  /** Releases that write this format or a later one can use the directory. */
  readonly oldestReader: number;
  /** First release that can use the directory. */
  readonly readableFrom: string;
}

const WITHOUT_FILE: DirectoryFormat = { format: 1, oldestReader: 1, readableFrom: dataFormats[0].release };

/** Reads the format of a directory. Changes nothing. Throws `StoreCorruptError` for a damaged file. */
export async function readFormat(dir: string): Promise<DirectoryFormat> {
  const path = join(dir, FORMAT_FILE);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return WITHOUT_FILE;
    throw error;
  }
  const [body = '', sum] = text.split('\n');
  if (Number(sum) === crc32(body)) return JSON.parse(body) as DirectoryFormat;
  throw new StoreCorruptError(
    `${path} is damaged: it is not known which release has written the directory. Check the disk. If the last release was ` +
      `this one, delete the file and start again; otherwise restore the directory from a backup`,
  );
}

/** Throws `StoreNewerError` if this release, with this version, cannot use a directory of the format. */
export function assertReadable(dir: string, found: DirectoryFormat, release: string): void {
  const { format, writtenBy = 'unknown', oldestReader, readableFrom } = found;
  if (oldestReader <= DATA_FORMAT) return;
  throw new StoreNewerError(
    `the directory ${dir} has data format ${format}, written by release ${writtenBy}; this release, ${release}, ` +
      `reads data formats up to ${DATA_FORMAT}. Nothing was changed. Start release ${readableFrom} or newer, or give this node another directory`,
  );
}

/** Records durably that the directory has the format of this release. */
export async function writeFormat(dir: string, release: string): Promise<void> {
  const oldest = oldestReaderOf(dataFormats);
  const found: DirectoryFormat = {
    format: DATA_FORMAT,
    writtenBy: release,
    oldestReader: oldest.format,
    readableFrom: oldest.release,
  };
  const body = JSON.stringify(found);
  const path = join(dir, FORMAT_FILE);
  {
    await using draft = await open(`${path}.new`, 'w');
    await draft.writeFile(`${body}\n${crc32(body)}\n`);
    await draft.datasync();
  }
  await rename(`${path}.new`, path);
  syncDirectory(dir);
}
