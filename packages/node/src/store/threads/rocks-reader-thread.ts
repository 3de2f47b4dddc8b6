import { parentPort, workerData } from 'node:worker_threads';
import rocks from '@nxtedition/rocksdb';
import { columnOf, columnsOf } from '../column-families.ts';
import { failureOf } from '../rocks-errors.ts';
import type { Read, ReaderReply, ReaderRequest, ReaderSetup, ReadResult } from './reader-protocol.ts';

/*
 * Reads on a separate thread, because the binding's asynchronous reads have two faults. The creation of an iterator seeks on
 * the calling thread and blocks it. And if an asynchronous get finds a damaged block, its promise never settles and the error
 * becomes an uncaught exception. This thread never closes the database.
 */

/** The binding takes limits as signed 32-bit numbers. */
const MOST = 2 ** 31 - 1;
const limited = (limit: number): number => Math.min(Math.max(Math.floor(limit), 1), MOST);

if (parentPort === null) throw new Error('this file is the source of a thread');
const port = parentPort;
const db = new rocks.RocksLevel((workerData as ReaderSetup).handle);
await db.open();
const columns = columnsOf(db);

function get(read: Read & { kind: 'get' }): ReadResult {
  const keys = read.keys.map((key) => Buffer.from(key, 'latin1'));
  if (keys.length === 0) return pack([]);
  const values = db._getManySync(keys, { column: columnOf(columns, read.family), valueEncoding: 'buffer' });
  if (values.includes(null)) throw new Error('a read was cut short');
  return pack(values);
}

function scan(read: Read & { kind: 'scan' }): ReadResult {
  const { rows: flat } = db.querySync({
    gte: Buffer.from(read.gte, 'latin1'),
    lt: Buffer.from(read.lt, 'latin1'),
    limit: limited(read.rows),
    highWaterMarkBytes: limited(read.bytes),
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    // The head of a queue is read repeatedly. Without the cache, each read would go to the file system.
    fillCache: read.once !== true,
    column: columnOf(columns, read.family),
  });
  return pack(withinBytes(flat, read.bytes));
}

/** Removes the last row if it exceeds the bound, because RocksDB returns it, too. */
function withinBytes(flat: readonly Buffer[], most: number): readonly Buffer[] {
  let bytes = 0;
  for (const part of flat) bytes += part.byteLength;
  return bytes > most && flat.length > 2 ? flat.slice(0, -2) : flat;
}

/** A value of at least this size gives its memory back at once. Garbage collection of this small heap would be late. */
const LARGE_BYTES = 64 * 1024;

/** Packs all parts into one block, which is transferred to the other thread without a copy. Large parts are empty afterwards. */
function pack(parts: readonly (Buffer | undefined | null)[]): ReadResult {
  const lengths = new Int32Array(parts.length);
  let bytes = 0;
  for (const [index, part] of parts.entries()) {
    lengths[index] = part ? part.byteLength : -1;
    bytes += part ? part.byteLength : 0;
  }
  const block = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    if (!part) continue;
    block.set(part, at);
    at += part.byteLength;
    if (part.byteLength >= LARGE_BYTES && part.byteLength === part.buffer.byteLength) giveBack(part);
  }
  return { kind: 'found', block, lengths };
}

/** Frees the memory of a buffer that has an array buffer of its own. */
function giveBack(part: Buffer): void {
  if (part.buffer instanceof ArrayBuffer) part.buffer.transfer(0);
}

function answer(read: Read): ReadResult {
  try {
    return read.kind === 'get' ? get(read) : scan(read);
  } catch (error) {
    return { kind: 'failed', failure: failureOf(error) };
  }
}

const reply = (message: ReaderReply, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer);

port.on('message', (request: ReaderRequest) => {
  if (request.kind === 'close') {
    port.close();
    return;
  }
  const results = request.reads.map(answer);
  const blocks = results.flatMap((result) => (result.kind === 'found' ? [result.block.buffer as ArrayBuffer] : []));
  reply({ kind: 'results', results }, blocks);
});
reply({ kind: 'ready' });
