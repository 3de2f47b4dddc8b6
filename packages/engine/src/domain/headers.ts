import { limits, NO_ENTRIES } from '@taskmaster/proto';
import { ByteReader, ByteWriter } from './bytes.ts';

/** Texts by key. */
export type TaskHeaders = Readonly<Record<string, string>>;

/**
 * A stored payload: the encoded headers, if there are any, and behind them the data. So headers are written and read with the
 * data, and the state of a task, which changes often, only has their size.
 */
export interface Payload {
  readonly data: Uint8Array;
  /** Size of the encoded headers. 0: none. */
  readonly headerBytes: number;
}

const writer = new ByteWriter();

/** Puts headers in front of the data, in the order of their keys: the same headers have the same bytes. */
export function withHeaders(headers: TaskHeaders, data: Uint8Array): Payload {
  for (const key of Object.keys(headers).sort()) {
    writer.utf8(key);
    writer.utf8(headers[key] ?? '');
  }
  const { length } = writer;
  if (length === 0) return { data, headerBytes: 0 };
  const payload = Buffer.allocUnsafeSlow(length + data.byteLength);
  writer.moveTo(payload, 0);
  payload.set(data, length);
  return { data: payload, headerBytes: length };
}

/** The headers of a stored payload. */
export function headersOf({ data, headerBytes }: Payload): Record<string, string> {
  if (headerBytes === 0) return NO_ENTRIES;
  const headers: Record<string, string> = Object.create(null);
  const from = new ByteReader(data.subarray(0, headerBytes));
  while (!from.atEnd) headers[from.utf8()] = from.utf8();
  return headers;
}

/** The shortest header has a key of one byte and no value. */
const SHORTEST_HEADER_BYTES = 3;
/** Tags and lengths of a header in a reply that are not stored. */
const HEADER_TAG_BYTES = 6;

/** What headers take in a reply beyond their stored size, at most. */
export function headerRoom(headerBytes: number): number {
  return HEADER_TAG_BYTES * Math.min(limits.headers, Math.floor(headerBytes / SHORTEST_HEADER_BYTES));
}

/** The data of a stored payload, as a view. */
export const dataOf = ({ data, headerBytes }: Payload): Uint8Array =>
  headerBytes === 0 ? data : data.subarray(headerBytes);
