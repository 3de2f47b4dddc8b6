import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import { BackupError } from './errors.ts';

/** How the messages of a part are compressed. The numbers are part of the format. */
const GZIP = 1;
const ZSTD = 2;

/** Node.js has Zstandard from 22.15 on. It is ten times as fast as gzip, and compresses better. */
const hasZstd = typeof zlib.zstdCompress === 'function';

/** The codec of new parts. */
export const bestCodec = hasZstd ? ZSTD : GZIP;

const gzip = promisify(zlib.gzip);
const gunzip = promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gunzip);

/** Compresses on a thread of the pool. */
export function pack(codec: number, bytes: Uint8Array): Promise<Buffer> {
  switch (codec) {
    case GZIP:
      return gzip(bytes);
    case ZSTD:
      return promisify(zlib.zstdCompress)(bytes);
    default:
      throw new RangeError(`codec ${codec} is unknown`);
  }
}

/** Unpacks to at most `maxBytes` bytes. Rejects if there are more, or if the bytes cannot be unpacked. */
export async function unpack(codec: number, bytes: Uint8Array, maxBytes: number): Promise<Buffer> {
  const options = { maxOutputLength: Math.max(1, maxBytes) };
  switch (codec) {
    case GZIP:
      return gunzip(bytes, options);
    case ZSTD:
      if (hasZstd) return promisify<zlib.InputType, zlib.ZstdOptions, Buffer>(zlib.zstdDecompress)(bytes, options);
      throw new BackupError('UNSUPPORTED', 'the backup is compressed with Zstandard', {
        hint: 'use Node.js 22.15 or later',
      });
    default:
      throw new RangeError(`codec ${codec} is unknown`);
  }
}
