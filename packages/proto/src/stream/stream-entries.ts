import { BinaryReader } from '@bufbuild/protobuf/wire';
import { checkEnd, readTag, skipField } from '../codec/fields.ts';
import { readInt64 } from '../codec/int64.ts';

/** One call of a StreamRequest or one result of a StreamResponse, with the number of the field that it contains. */
export interface StreamEntry {
  readonly id: number;
  /** 0: no field. */
  readonly field: number;
  /** The encoded message in that field. */
  readonly bytes: Uint8Array;
}

/** Fields of StreamCall. */
export const CallField = { update: 2, lease: 3, cancel: 4, wait: 5, events: 6 } as const;
/** Fields of StreamResult. */
export const ResultField = { update: 2, lease: 3, error: 4, wait: 5, events: 6 } as const;

/** The first and the last of these fields. */
const FIRST_FIELD = 2;
const LAST_FIELD = 6;
/** Tags of an entry, which is the first field of both messages, and of its id. */
const ENTRY_TAG = 0x0a;
const ID_TAG = 0x08;
/** Wire type of fields with a length. */
const LENGTH_DELIMITED = 2;

/**
 * Encodes a StreamRequest with calls, or a StreamResponse with results. Each is copied once, because it may have megabytes (bench
 * row B16).
 */
export function encodeStreamEntries(entries: readonly StreamEntry[]): Buffer {
  let bytes = 0;
  for (const entry of entries) bytes += fieldBytes(insideBytes(entry));
  const message = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const entry of entries) {
    message[at] = ENTRY_TAG;
    at = writeVarint(message, at + 1, insideBytes(entry));
    message[at] = ID_TAG;
    at = writeVarint(message, at + 1, entry.id);
    message[at] = (entry.field << 3) | LENGTH_DELIMITED;
    at = writeVarint(message, at + 1, entry.bytes.length);
    message.set(entry.bytes, at);
    at += entry.bytes.length;
  }
  return message;
}

const insideBytes = ({ id, bytes }: StreamEntry): number => 1 + varintBytes(id) + fieldBytes(bytes.length);

/** The size of a field with a content of this length. Tags of fields below 16 have one byte. */
export const fieldBytes = (length: number): number => 1 + varintBytes(length) + length;

function varintBytes(value: number): number {
  let bytes = 1;
  for (let left = value; left >= 0x80; left = Math.floor(left / 0x80)) bytes++;
  return bytes;
}

/** Returns the end of the varint. */
function writeVarint(to: Buffer, from: number, value: number): number {
  let at = from;
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 0x80)) to[at++] = (left % 0x80) | 0x80;
  to[at++] = left;
  return at;
}

const NOTHING = new Uint8Array(0);

/**
 * The calls of a StreamRequest or the results of a StreamResponse, which stay encoded. It reads the same entries as the decoder.
 * Throws if they are damaged.
 */
export function readStreamEntries(message: Uint8Array): StreamEntry[] {
  const reader = new BinaryReader(message);
  const entries: StreamEntry[] = [];
  while (reader.pos < reader.len) {
    const tag = readTag(reader);
    if (tag === ENTRY_TAG) entries.push(readStreamEntry(reader));
    else skipField(reader, tag);
  }
  checkEnd(reader, reader.len);
  return entries;
}

function readStreamEntry(reader: BinaryReader): StreamEntry {
  const end = reader.uint32() + reader.pos;
  let id = 0;
  let inside = 0;
  let bytes: Uint8Array = NOTHING;
  while (reader.pos < end) {
    const tag = readTag(reader);
    const field = tag >>> 3;
    if (tag === ID_TAG) {
      id = readInt64(reader);
    } else if (field >= FIRST_FIELD && field <= LAST_FIELD && (tag & 7) === LENGTH_DELIMITED) {
      inside = field;
      bytes = reader.bytes();
    } else {
      skipField(reader, tag);
    }
  }
  checkEnd(reader, end);
  return { id, field: inside, bytes };
}
