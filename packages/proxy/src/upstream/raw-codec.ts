import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

// Reads messages only as deep as routing needs. Payloads stay encoded.

/** The facts about an update that routing needs. */
export interface UpdateRoute {
  /** The queue of the first item that names one. Undefined if no item does. */
  readonly queue: string | undefined;
  /** The lists that have items: bit n for field n, so bit 1 for enqueues. */
  readonly lists: number;
  /** True if the update has a request id, so that it can be repeated. */
  readonly hasRequestId: boolean;
  /** Number of parts. 0: the request is one update. */
  readonly parts: number;
  /** True if a number is too long to check its range without decoding it. */
  readonly hasLongNumber: boolean;
}

/** A varint of this many bytes or more may exceed 2^53. */
const LONG_VARINT_BYTES = 8;
/** Fields 1 to 4 of UpdateTasksRequest are lists of items. The first field of each item is its queue. */
const LAST_LIST_FIELD = 4;
const REQUEST_ID_FIELD = 5;
const PARTS_FIELD = 6;
/** The list of the enqueues, and the field `topic` of an enqueue, which stands for its queue. */
const ENQUEUE_LIST = 1;
const TOPIC_FIELD = 10;
/**
 * The fields of the items of a list that are messages: `retry` and `headers` of an enqueue, and `error` of a release. They are
 * read only to find damage and long numbers.
 */
const MESSAGES: Readonly<Record<number, readonly number[]>> = { 1: [6, 8], 4: [6] };
const NO_FIELDS: readonly number[] = [];

/** Reads the route of an encoded UpdateTasksRequest. Throws if it is not valid protobuf. */
export function readUpdate(bytes: Uint8Array): UpdateRoute {
  const reader = new BinaryReader(bytes);
  const found = {
    queue: undefined as string | undefined,
    hasRequestId: false,
    hasLongNumber: false,
    lists: 0,
    parts: 0,
  };
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (type !== WireType.LengthDelimited || field > PARTS_FIELD) reader.skip(type, field);
    else if (field === REQUEST_ID_FIELD) found.hasRequestId = reader.bytes().length > 0;
    else if (field <= LAST_LIST_FIELD) {
      found.lists |= 1 << field;
      readItem(reader, found, field);
    } else {
      found.parts++;
      // It is read because a damaged part would break the stream to the node. It names no queue.
      const part = { queue: '', hasLongNumber: false };
      readItem(reader, part);
      found.hasLongNumber ||= part.hasLongNumber;
    }
  }
  return found;
}

/** `list`: the list that the item is of. Undefined: it is another message, in which nothing is looked for but long numbers. */
function readItem(
  reader: BinaryReader,
  found: { queue: string | undefined; hasLongNumber: boolean },
  list?: number,
): void {
  const end = entryEnd(reader);
  const wanted = found.queue === undefined;
  const messages = (list === undefined ? undefined : MESSAGES[list]) ?? NO_FIELDS;
  const isEnqueue = list === ENQUEUE_LIST;
  while (reader.pos < end) {
    const [field, type] = reader.tag();
    if (type === WireType.Varint) {
      const began = reader.pos;
      reader.skip(type, field);
      if (reader.pos - began >= LONG_VARINT_BYTES) found.hasLongNumber = true;
    } else if (wanted && (field === 1 || (isEnqueue && field === TOPIC_FIELD)) && type === WireType.LengthDelimited) {
      found.queue = text(reader.bytes());
    } else if (type === WireType.LengthDelimited && messages.includes(field)) {
      const message = { queue: '', hasLongNumber: false };
      readItem(reader, message);
      found.hasLongNumber ||= message.hasLongNumber;
    } else {
      reader.skip(type, field);
    }
  }
  if (reader.pos !== end) throw new RangeError('an item is truncated');
}

/** The text in field 1, which is the queue in requests about one queue. The last value counts, as in every decoder. */
export function readQueue(bytes: Uint8Array): string | undefined {
  const reader = new BinaryReader(bytes);
  let queue: string | undefined;
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === 1 && type === WireType.LengthDelimited) queue = text(reader.bytes());
    else reader.skip(type, field);
  }
  return queue;
}

/** The entries of field 1, as views: the requests of a batch, or the results or tasks of a reply. */
export const readEntries = (bytes: Uint8Array): Uint8Array[] => readEntriesOf(1, bytes);

/** The entries of another field, as views. */
export function readEntriesOf(field: number, bytes: Uint8Array): Uint8Array[] {
  const reader = new BinaryReader(bytes);
  const entries: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (number === field && type === WireType.LengthDelimited) entries.push(reader.bytes());
    else reader.skip(type, number);
  }
  return entries;
}

/** Encodes a message whose field 1 has these entries. */
export function writeEntries(entries: readonly Uint8Array[]): Uint8Array {
  const writer = new BinaryWriter();
  for (const entry of entries) writer.uint32(tag(1, WireType.LengthDelimited)).bytes(entry);
  return writer.finish();
}

const NOTHING = new Uint8Array(0);

/** Encodes one field of a message. */
export function writeField(field: number, bytes: Uint8Array): Uint8Array {
  return new BinaryWriter().uint32(tag(field, WireType.LengthDelimited)).bytes(bytes).finish();
}

/** The message with some numbers changed. They are appended, because the last value of a field counts. */
export function withNumbers(message: Uint8Array, numbers: Readonly<Record<number, number>>): Uint8Array {
  const writer = new BinaryWriter().raw(message);
  for (const [field, value] of Object.entries(numbers)) {
    writer.uint32(tag(Number(field), WireType.Varint)).int64(value);
  }
  return writer.finish();
}

/** The facts about a leased task that releasing it needs. */
export interface LeasedRef {
  readonly queue: string;
  readonly pid: Uint8Array;
  readonly leaseToken: number;
  /** Size of the payload, in bytes. */
  readonly dataBytes: number;
  /** 0: its queue was named. */
  readonly patternId: number;
}

/** Number of the field `pattern_id` of LeasedTask. */
const PATTERN_ID_FIELD = 15;

/** Reads a LeasedTask without its payload. */
export function readLeased(task: Uint8Array): LeasedRef {
  const reader = new BinaryReader(task);
  let queue = '';
  let pid: Uint8Array = NOTHING;
  let leaseToken = 0;
  let dataBytes = 0;
  let patternId = 0;
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === 1 && type === WireType.LengthDelimited) queue = text(reader.bytes());
    else if (field === 2 && type === WireType.LengthDelimited) pid = reader.bytes();
    else if (field === 3 && type === WireType.LengthDelimited) dataBytes = reader.bytes().length;
    else if (field === 4 && type === WireType.Varint) leaseToken = Number(reader.uint64());
    else if (field === PATTERN_ID_FIELD && type === WireType.Varint) patternId = reader.int32();
    else reader.skip(type, field);
  }
  return { queue, pid, leaseToken, dataBytes, patternId };
}

const tag = (field: number, type: WireType): number => (field << 3) | type;

function entryEnd(reader: BinaryReader): number {
  const end = reader.uint32() + reader.pos;
  if (end > reader.len) throw new RangeError('an entry is truncated');
  return end;
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}
