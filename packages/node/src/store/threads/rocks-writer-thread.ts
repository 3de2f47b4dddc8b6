import { promisify } from 'node:util';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import rocks, { type Column } from '@nxtedition/rocksdb';
import { Family, familyNames, visitWrites, type WriteVisitor } from '@taskmaster/engine/ports';
import { columnOf, columnsOf } from '../column-families.ts';
import { encodeGroupNumber, GROUP_NUMBER_KEY } from '../group-number.ts';
import { failureOf, lacksDescriptors } from '../rocks-errors.ts';
import { SyncMark } from '../sync-mark.ts';
import { SyncedFiles } from '../synced-files.ts';
import { GROUP_BYTES, type WriterReply, type WriterRequest, type WriterSetup } from './writer-protocol.ts';

/*
 * The only thread that writes. Requests that arrive during the sync of a group form the next group: one write, one fsync, one
 * reply.
 *
 *  W1  Requests take effect in the order in which they were sent, and replies have the same order.
 *  W2  The mark is written after the sync of its group, never before.
 *  W3  After a refusal, no request of its era is written; after a failure, no request at all.
 *  W4  This thread never closes the database, because other threads use it.
 */

const GUARD_INTERVAL_MS = 1000;
/** Under load, RocksDB starts a new log every few megabytes. Complete logs should soon be guarded. */
const GUARD_BYTES = 2 * 1024 * 1024;
const GUARD_LEAST_INTERVAL_MS = 200;

if (parentPort === null) throw new Error('this file is the source of a thread');
const port = parentPort;
const setup = workerData as WriterSetup;

const db = new rocks.RocksLevel(setup.handle);
await db.open();
const columns = columnsOf(db);
const numberColumn = columnOf(columns, Family.meta);
const batch = db._chainedBatch();
/** By family. */
const options = familyNames.map((name) => ({ column: columnOf(columns, Family[name]) }));
function optionsOf(family: Family): { readonly column: Column } {
  const found = options[family];
  if (found === undefined) throw new RangeError(`there is no family ${family}`);
  return found;
}

/** Adds rows to the batch. */
const adding: WriteVisitor = {
  put: (family, key, value) => batch._put(key, value, optionsOf(family)),
  delete: (family, key) => batch._del(key, optionsOf(family)),
};
const mark = new SyncMark(setup.dir);
const files = new SyncedFiles(setup.dir);

let groupNumber = setup.groupNumber;
/** True if rows were written since the last sync. */
let unsynced = false;
let flushTimer: NodeJS.Timeout | undefined;
let refusedEra = -1;
let failed = false;
let running = false;
let guarding: Promise<void> | undefined;
let guardedAtMs = 0;
let unguardedBytes = 0;
const inbox: WriterRequest[] = [];

const reply = (message: WriterReply, transfer: readonly ArrayBuffer[] = []): void =>
  port.postMessage(message, transfer);

/** The next request, in the order in which they were sent. */
const next = (): WriterRequest | undefined =>
  inbox.shift() ?? (receiveMessageOnPort(port)?.message as WriterRequest | undefined);

const isVoid = (request: { readonly era: number }): boolean => failed || request.era <= refusedEra;

function fail(error: unknown): void {
  if (failed) return;
  failed = true;
  reply({ kind: 'failed', failure: { kind: 'failed', message: failureOf(error).message } });
}

/** Replies that the requests of an era are refused, and why. */
function refuse(error: unknown, era: number): void {
  const failure = failureOf(error);
  if (failure.kind === 'full') {
    refusedEra = era;
    reply({ kind: 'refused', failure });
  } else {
    fail(error);
  }
}

/** Commits the batch and empties it. Throws errors of RocksDB. */
function commit(sync: boolean): void {
  try {
    batch._put(GROUP_NUMBER_KEY, encodeGroupNumber(groupNumber + 1), { column: numberColumn });
    batch._writeSync({ sync });
  } finally {
    batch._clear();
  }
  groupNumber++;
  unsynced = !sync;
  if (sync) advanceMark();
  else planFlush();
}

function advanceMark(): void {
  try {
    mark.advance(groupNumber);
  } catch (error) {
    markFailed(error);
  }
}

/** Updates the guards that the next open checks: the mark and the record of the files. One update at a time. */
function guard(): void {
  guardedAtMs = performance.now();
  unguardedBytes = 0;
  guarding ??= Promise.all([mark.sync(), files.look()])
    .then(() => undefined, markFailed)
    .finally(() => {
      guarding = undefined;
    });
}

function guardSoon(bytes: number): void {
  unguardedBytes += bytes;
  if (unguardedBytes >= GUARD_BYTES && performance.now() - guardedAtMs >= GUARD_LEAST_INTERVAL_MS) guard();
}

/** On a full disk or without descriptors the guards become stale: they detect less damage, but report no false one. */
function markFailed(error: unknown): void {
  const { kind, message } = failureOf(error);
  if (kind !== 'full' && !lacksDescriptors(message)) fail(error);
}

function planFlush(): void {
  flushTimer ??= setTimeout(flush, setup.flushIntervalMs);
}

/** Syncs earlier writes that were not synced. No caller waits for it, so a full disk only delays it. */
function flush(): void {
  flushTimer = undefined;
  if (failed || !unsynced) return;
  try {
    commit(true);
  } catch (error) {
    if (failureOf(error).kind === 'full') planFlush();
    else fail(error);
  }
}

/** Commits the request and the writes that wait behind it, up to the size of a group. */
function writeGroup(first: WriterRequest & { kind: 'write' }): void {
  let bytes = 0;
  let sync = false;
  let through = 0;
  const spent: ArrayBuffer[] = [];
  let era = first.era; // the same for all that are not void
  let request: WriterRequest | undefined = first;
  while (request?.kind === 'write') {
    if (!isVoid(request)) {
      visitWrites(request.records, adding);
      spent.push(request.records.buffer);
      bytes += request.records.byteLength;
      sync ||= request.sync;
      through = request.id;
      era = request.era;
    }
    request = bytes < GROUP_BYTES ? next() : undefined;
  }
  if (request !== undefined) inbox.unshift(request);
  if (through === 0) return;
  try {
    commit(sync);
    if (!failed) reply({ kind: 'done', through, spent }, spent);
    guardSoon(bytes);
  } catch (error) {
    refuse(error, era);
  }
}

async function deleteRange(request: WriterRequest & { kind: 'deleteRange' }): Promise<void> {
  if (isVoid(request)) return;
  const range = { gte: Buffer.from(request.gte, 'latin1'), lt: Buffer.from(request.lt, 'latin1') };
  try {
    // The deletion is complete when the call returns; the binding only reports it later.
    await promisify(db._clear.bind(db))({ ...range, column: columnOf(columns, request.family) });
    unsynced = true;
    planFlush();
    reply({ kind: 'done', through: request.id, spent: [] });
  } catch (error) {
    refuse(error, request.era);
  }
}

async function close(): Promise<void> {
  flush();
  clearTimeout(flushTimer);
  clearInterval(guardTimer);
  await guarding;
  await mark.close();
  port.close();
}

async function run(): Promise<void> {
  for (let request = next(); request !== undefined; request = next()) {
    switch (request.kind) {
      case 'write':
        writeGroup(request);
        break;
      case 'deleteRange':
        await deleteRange(request);
        break;
      case 'close':
        await close();
        return;
      default:
        request satisfies never;
    }
  }
  running = false;
}

guard();
const guardTimer = setInterval(guard, GUARD_INTERVAL_MS);

port.on('message', (request: WriterRequest) => {
  inbox.push(request);
  if (running) return;
  running = true;
  run().catch(fail);
});
reply({ kind: 'ready' });
