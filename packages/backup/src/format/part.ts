import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import { crc32 } from 'node:zlib';
import { BackupPartitionResponse, encodeToBuffer, hasMoreEntries, limits } from '@taskmaster/proto';
import { BackupError } from './errors.ts';

/*
 * A part is a run of messages of one partition. Numbers are little-endian:
 *    0  4 bytes  'TMBP'
 *    4  1        version of this layout
 *    5  1        codec of the body
 *    6  2        0
 *    8  4        length of the body before it was compressed
 *   12  4        CRC-32 of all other bytes of the part
 *   16           body, compressed: messages, each behind its length (4 bytes)
 * The manifest has the SHA-256 of each part. The CRC-32 finds damage where the manifest comes last: in a stream.
 */

const MAGIC = Buffer.from('TMBP', 'latin1');
const VERSION = 1;
const HEAD_BYTES = 16;
const CRC_AT = 12;
const LENGTH_BYTES = 4;

/** Usual size of the messages in one part, in bytes. The last message may exceed it. */
export const PART_BYTES = 16 * 1024 * 1024;
/** Limit of the messages of one part, in bytes. A longer part is damaged, so memory stays bounded. */
const MAX_BODY_BYTES = 4 * PART_BYTES;
/** Limit of one message: no program receives longer ones. */
const MAX_MESSAGE_BYTES = 4 * limits.requestBytes;
/** Limit of the rows or atoms in one message. A node sends some thousand. */
const MAX_ITEMS = 100_000;
/** Rows and atoms in a `BackupPartitionResponse`. */
const ITEMS = { 2: { 1: 'each' }, 3: { 1: 'each' } } as const;

/** Limit of a part in bytes. */
export const MAX_PART_BYTES = MAX_BODY_BYTES + 1024 * 1024;

/** A message as it stands in the body of a part. */
export function encodeMessage(message: BackupPartitionResponse): Buffer {
  const bytes = encodeToBuffer(BackupPartitionResponse, message);
  const framed = Buffer.allocUnsafe(LENGTH_BYTES + bytes.byteLength);
  framed.writeUInt32LE(bytes.byteLength, 0);
  framed.set(bytes, LENGTH_BYTES);
  return framed;
}

/** Makes a part of encoded messages. */
export async function encodePart(messages: readonly Uint8Array[]): Promise<Buffer> {
  const body = Buffer.concat(messages);
  const packed = await pack(bestCodec, body);
  const part = Buffer.alloc(HEAD_BYTES + packed.byteLength);
  part.set(MAGIC, 0);
  part.writeUInt8(VERSION, 4);
  part.writeUInt8(bestCodec, 5);
  part.writeUInt32LE(body.byteLength, 8);
  part.set(packed, HEAD_BYTES);
  part.writeUInt32LE(checksumOf(part), CRC_AT);
  return part;
}

/**
 * Reads a part. Rejects with `BackupError` if it is damaged, or if a newer release wrote it. Each message is decoded when it is
 * taken, because the messages of a hostile part need far more memory than its bytes.
 */
export async function decodePart(name: string, bytes: Uint8Array): Promise<Iterable<BackupPartitionResponse>> {
  const part = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (part.byteLength < HEAD_BYTES || !part.subarray(0, MAGIC.byteLength).equals(MAGIC)) {
    throw damaged(name, 'it does not begin like a part');
  }
  const version = part.readUInt8(4);
  if (part.readUInt32LE(CRC_AT) !== checksumOf(part)) throw damaged(name, 'its checksum is wrong');
  if (version > VERSION) throw tooNew(`part ${name} has version ${version} of the format`);
  const length = part.readUInt32LE(8);
  if (length > MAX_BODY_BYTES) throw damaged(name, `it would be ${length} bytes long`);
  try {
    const body = await unpack(part.readUInt8(5), part.subarray(HEAD_BYTES), length);
    if (body.byteLength !== length) throw new RangeError(`${body.byteLength} of ${length} bytes were unpacked`);
    return messagesOf(name, body);
  } catch (error) {
    throw asDamage(name, error);
  }
}

function* messagesOf(name: string, body: Buffer): Generator<BackupPartitionResponse> {
  for (let at = 0; at < body.byteLength; ) {
    let message: BackupPartitionResponse;
    try {
      const end = at + LENGTH_BYTES + body.readUInt32LE(at);
      if (end > body.byteLength) throw new RangeError('a message is longer than its part');
      message = messageOf(body.subarray(at + LENGTH_BYTES, end));
      at = end;
    } catch (error) {
      throw asDamage(name, error);
    }
    yield message;
  }
}

function messageOf(bytes: Buffer): BackupPartitionResponse {
  if (bytes.byteLength > MAX_MESSAGE_BYTES) throw new RangeError(`a message has ${bytes.byteLength} bytes`);
  if (hasMoreEntries(bytes, ITEMS, MAX_ITEMS)) throw new RangeError(`a message has more than ${MAX_ITEMS} rows`);
  return BackupPartitionResponse.decode(bytes);
}

const checksumOf = (part: Buffer): number => crc32(part.subarray(CRC_AT + 4), crc32(part.subarray(0, CRC_AT)));

const asDamage = (name: string, error: unknown): BackupError =>
  error instanceof BackupError ? error : damaged(name, error instanceof Error ? error.message : String(error), error);

const damaged = (name: string, why: string, cause?: unknown): BackupError =>
  new BackupError('BACKUP_DAMAGED', `part ${name} is damaged: ${why}`, { hint: DAMAGE_HINT, cause });

/** What to do with a damaged or incomplete backup. */
export const DAMAGE_HINT = 'get this backup from another copy, or use another backup';

/** A newer release wrote the backup. */
export const tooNew = (what: string): BackupError =>
  new BackupError('BACKUP_TOO_NEW', `a newer release wrote this backup: ${what}`, {
    hint: 'use the release that wrote it, or a later one',
  });

/** How the messages of a part are compressed. The numbers are part of the format. */
const GZIP = 1;
const ZSTD = 2;

/** Node.js has Zstandard from 22.15 on. It is ten times as fast as gzip, and compresses better. */
const hasZstd = typeof zlib.zstdCompress === 'function';

/** The codec of new parts. */
const bestCodec = hasZstd ? ZSTD : GZIP;

const gzip = promisify(zlib.gzip);
const gunzip = promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gunzip);

/** Compresses on a thread of the pool. */
function pack(codec: number, bytes: Uint8Array): Promise<Buffer> {
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
async function unpack(codec: number, bytes: Uint8Array, maxBytes: number): Promise<Buffer> {
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
