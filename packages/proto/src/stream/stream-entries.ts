import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

/** One call of a StreamRequest or one result of a StreamResponse, with the number of the field that it contains. */
export interface StreamEntry {
  readonly id: number;
  /** 0: no field. */
  readonly field: number;
  /** The encoded message in that field. */
  readonly bytes: Uint8Array;
}

/** Fields of StreamCall. */
export const CallField = { update: 2, lease: 3, cancel: 4, wait: 5 } as const;
/** Fields of StreamResult. */
export const ResultField = { update: 2, lease: 3, error: 4, wait: 5 } as const;

/** The last of these fields. */
const LAST_FIELD = 5;
/** Tags of an entry, which is the first field of both messages, and of its id. */
const ENTRY_TAG = 0x0a;
const ID_TAG = 0x08;
/** Wire type of fields with a length. */
const LENGTH_DELIMITED = 2;

/**
 * Encodes a StreamRequest with calls, or a StreamResponse with results. Each is copied once, because it may have megabytes.
 */
export function encodeStreamEntries(entries: readonly StreamEntry[]): Buffer {
  let bytes = 0;
  for (const entry of entries) {
    const inside = insideBytes(entry);
    bytes += 1 + varintBytes(inside) + inside;
  }
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

/** Tags of fields below 16 have one byte. */
function insideBytes({ id, bytes }: StreamEntry): number {
  return 2 + varintBytes(id) + varintBytes(bytes.length) + bytes.length;
}

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

/** The calls of a StreamRequest or the results of a StreamResponse. Throws if it is not valid protobuf. */
export function readStreamEntries(message: Uint8Array): StreamEntry[] {
  const reader = new BinaryReader(message);
  const entries: StreamEntry[] = [];
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === 1 && type === WireType.LengthDelimited) entries.push(readStreamEntry(reader));
    else reader.skip(type, field);
  }
  return entries;
}

function readStreamEntry(reader: BinaryReader): StreamEntry {
  const end = reader.uint32() + reader.pos;
  if (end > reader.len) throw new RangeError('an entry is truncated');
  let id = 0;
  let inside = 0;
  let bytes: Uint8Array = NOTHING;
  while (reader.pos < end) {
    const [field, type] = reader.tag();
    if (field === 1 && type === WireType.Varint) {
      id = Number(reader.uint64());
      if (!Number.isSafeInteger(id)) throw new RangeError('an id is beyond MAX_SAFE_INTEGER');
    } else if (field >= 2 && field <= LAST_FIELD && type === WireType.LengthDelimited) {
      inside = field;
      bytes = reader.bytes();
    } else {
      reader.skip(type, field);
    }
  }
  if (reader.pos !== end) throw new RangeError('an entry is truncated');
  return { id, field: inside, bytes };
}
