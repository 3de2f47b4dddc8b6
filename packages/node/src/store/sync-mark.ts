import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';

/*
 * RocksDB silently drops all records behind a damaged one of its write-ahead log. So every group of writes has a number, one
 * higher than that of the group before. The number of the last synced group is also kept in this file, outside RocksDB. A
 * database that opens with a lower number has lost acknowledged writes.
 *
 * The file has two slots, each on its own sector. They are written in turn, so that one of them is always whole:
 *   magic (8 bytes) · number (8, big-endian) · CRC-32 of both (4, big-endian)
 * The file is written after every synced group, with one system call, and synced about once a second. After a crash of the
 * process it has the exact number. After a power loss the number may be about a second old, but never too high.
 */

export const SYNC_MARK_FILE = 'sync-mark';
const MAGIC = 'TMSYNC01';
const CHECKED_BYTES = 16;
const SLOT_BYTES = CHECKED_BYTES + 4;
const SECTOR_BYTES = 512;

export type SyncMarkFound =
  | { readonly kind: 'missing' }
  | { readonly kind: 'damaged' }
  | { readonly kind: 'number'; readonly number: number };

function encodeSlot(number: number): Buffer {
  const slot = Buffer.alloc(SLOT_BYTES);
  slot.write(MAGIC, 'latin1');
  slot.writeBigUInt64BE(BigInt(number), 8);
  slot.writeUInt32BE(crc32(slot.subarray(0, CHECKED_BYTES)), CHECKED_BYTES);
  return slot;
}

function decodeSlot(slot: Buffer): number | undefined {
  if (slot.length < SLOT_BYTES || slot.toString('latin1', 0, 8) !== MAGIC) return undefined;
  if (crc32(slot.subarray(0, CHECKED_BYTES)) !== slot.readUInt32BE(CHECKED_BYTES)) return undefined;
  return Number(slot.readBigUInt64BE(8));
}

/** The number of the last group known to be synced in the database of `dir`. */
export function readSyncMark(dir: string): SyncMarkFound {
  let file: Buffer;
  try {
    file = readFileSync(join(dir, SYNC_MARK_FILE));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'missing' };
    throw error;
  }
  const slots = [decodeSlot(file.subarray(0, SLOT_BYTES)), decodeSlot(file.subarray(SECTOR_BYTES))];
  const numbers = slots.filter((number) => number !== undefined);
  return numbers.length === 0 ? { kind: 'damaged' } : { kind: 'number', number: Math.max(...numbers) };
}

/**
 * Creates the file durably and atomically. With `keep`, an existing file stays, so that two processes that create a database at
 * the same time cannot replace each other's file.
 */
export function createSyncMark(dir: string, number: number, options: { readonly keep: boolean }): void {
  const path = join(dir, SYNC_MARK_FILE);
  const draft = `${path}.${process.pid}.new`;
  const fd = openSync(draft, 'w');
  try {
    for (const at of [0, SECTOR_BYTES]) writeSync(fd, encodeSlot(number), 0, SLOT_BYTES, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  if (options.keep) linkOnce(draft, path);
  else renameSync(draft, path);
  syncDirectory(dir);
}

function linkOnce(draft: string, path: string): void {
  try {
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    unlinkSync(draft);
  }
}

/** Makes the names in a directory durable. */
export function syncDirectory(dir: string): void {
  const fd = openSync(dir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Keeps the file up to date. */
export class SyncMark {
  readonly #fd: number;
  #slot = 0;
  #dirty = false;
  #syncing: Promise<void> = Promise.resolve();

  /** The file must exist. */
  constructor(dir: string) {
    this.#fd = openSync(join(dir, SYNC_MARK_FILE), 'r+');
  }

  /** Call it after the group with this number was synced. Throws errors of the file system. */
  advance(number: number): void {
    writeSync(this.#fd, encodeSlot(number), 0, SLOT_BYTES, this.#slot * SECTOR_BYTES);
    this.#slot = 1 - this.#slot;
    this.#dirty = true;
  }

  /** Makes the latest number durable without blocking this thread. */
  async sync(): Promise<void> {
    if (!this.#dirty) return;
    this.#dirty = false;
    this.#syncing = promisify(fdatasync)(this.#fd);
    await this.#syncing;
  }

  async close(): Promise<void> {
    try {
      // Do not close the file during its sync: another file could get its descriptor.
      await Promise.allSettled([this.#syncing]);
      fdatasyncSync(this.#fd);
    } finally {
      closeSync(this.#fd);
    }
  }
}
