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
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';

/*
 * Some damage RocksDB takes for a crash in the middle of writing, and goes on with less, without a word: it drops what
 * follows a damaged record of its write-ahead log, and the changes cut off the end of its manifest, with all tables
 * they named. So what is known to be synced is also kept here, outside RocksDB, and compared at open:
 *  - every group of writes carries a number, one higher than the group before; here is the one of the last synced group;
 *  - the manifest only grows; here is which one it was and how long.
 *
 * The file holds two slots, written in turn so that one is whole at any time, each on a sector of its own:
 *   magic (8 bytes) · number (8) · number of the manifest (8) · its length (8) · CRC-32 of all that (4); big-endian
 * It is written after every synced group, which costs a system call, and synced about once a second: a crash of the
 * process leaves the exact number, a power loss one that is at most that much behind, never ahead.
 */

export const SYNC_MARK_FILE = 'sync-mark';
const MAGIC = 'TMSYNC01';
const CHECKED_BYTES = 32;
const SLOT_BYTES = CHECKED_BYTES + 4;
const SECTOR_BYTES = 512;

/** The list of RocksDB's files, as far as it is known to be on disk. */
export interface ManifestMark {
  /** From its name; 0: none known. */
  readonly number: number;
  readonly bytes: number;
}

export interface SyncedState {
  /** Of the last group of writes that was synced; 0: none. */
  readonly groupNumber: number;
  readonly manifest: ManifestMark;
}

export const NOTHING_SYNCED: SyncedState = { groupNumber: 0, manifest: { number: 0, bytes: 0 } };

export type SyncMarkFound =
  | { readonly kind: 'missing' }
  | { readonly kind: 'damaged' }
  | { readonly kind: 'found'; readonly synced: SyncedState };

function encodeSlot({ groupNumber, manifest }: SyncedState): Buffer {
  const slot = Buffer.alloc(SLOT_BYTES);
  slot.write(MAGIC, 'latin1');
  slot.writeBigUInt64BE(BigInt(groupNumber), 8);
  slot.writeBigUInt64BE(BigInt(manifest.number), 16);
  slot.writeBigUInt64BE(BigInt(manifest.bytes), 24);
  slot.writeUInt32BE(crc32(slot.subarray(0, CHECKED_BYTES)), CHECKED_BYTES);
  return slot;
}

function decodeSlot(slot: Buffer): SyncedState | undefined {
  if (slot.length < SLOT_BYTES || slot.toString('latin1', 0, 8) !== MAGIC) return undefined;
  if (crc32(slot.subarray(0, CHECKED_BYTES)) !== slot.readUInt32BE(CHECKED_BYTES)) return undefined;
  return {
    groupNumber: Number(slot.readBigUInt64BE(8)),
    manifest: { number: Number(slot.readBigUInt64BE(16)), bytes: Number(slot.readBigUInt64BE(24)) },
  };
}

const isLater = (a: SyncedState, b: SyncedState): boolean =>
  a.groupNumber - b.groupNumber > 0 ||
  (a.groupNumber === b.groupNumber &&
    (a.manifest.number > b.manifest.number ||
      (a.manifest.number === b.manifest.number && a.manifest.bytes > b.manifest.bytes)));

/** What is known to be synced in the database of `dir`. */
export function readSyncMark(dir: string): SyncMarkFound {
  let file: Buffer;
  try {
    file = readFileSync(join(dir, SYNC_MARK_FILE));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'missing' };
    throw error;
  }
  const slots = [file.subarray(0, SLOT_BYTES), file.subarray(SECTOR_BYTES)].map(decodeSlot);
  const [first, ...others] = slots.filter((slot) => slot !== undefined);
  if (first === undefined) return { kind: 'damaged' };
  return { kind: 'found', synced: others.reduce((last, slot) => (isLater(slot, last) ? slot : last), first) };
}

/**
 * Creates the file, durably, whole or not at all. An existing one stays if `keep` is set, so that two processes that
 * create a database at once cannot take it from each other.
 */
export function createSyncMark(dir: string, synced: SyncedState, options: { readonly keep: boolean }): void {
  const path = join(dir, SYNC_MARK_FILE);
  const draft = `${path}.${process.pid}.new`;
  const fd = openSync(draft, 'w');
  try {
    for (const at of [0, SECTOR_BYTES]) writeSync(fd, encodeSlot(synced), 0, SLOT_BYTES, at);
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

function syncDirectory(dir: string): void {
  const fd = openSync(dir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** The manifest RocksDB uses, as long as it certainly is on disk; undefined while it is being replaced. */
export async function syncedManifest(dir: string): Promise<ManifestMark | undefined> {
  try {
    const name = (await readFile(join(dir, 'CURRENT'), 'latin1')).trim();
    await using manifest = await open(join(dir, name), 'r');
    const { size } = await manifest.stat();
    await manifest.datasync(); // RocksDB does so too, but maybe not yet
    return { number: Number(name.replace(/^MANIFEST-/, '')), bytes: size };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Keeps the file up to date. */
export class SyncMark {
  readonly #fd: number;
  #synced: SyncedState;
  #slot = 0;
  #dirty = false;
  #syncing: Promise<void> = Promise.resolve();

  /** The file must exist, and say `synced`. */
  constructor(dir: string, synced: SyncedState) {
    this.#fd = openSync(join(dir, SYNC_MARK_FILE), 'r+');
    this.#synced = synced;
  }

  /** Called after the group of that number was synced. Throws what the file system throws. */
  advance(groupNumber: number): void {
    this.#write({ ...this.#synced, groupNumber });
  }

  /** Called with what `syncedManifest` found. Throws what the file system throws. */
  noteManifest(manifest: ManifestMark): void {
    const { number, bytes } = this.#synced.manifest;
    if (manifest.number !== number || manifest.bytes !== bytes) this.#write({ ...this.#synced, manifest });
  }

  /** Makes the latest state durable, off the calling thread. */
  async sync(): Promise<void> {
    if (!this.#dirty) return;
    this.#dirty = false;
    this.#syncing = promisify(fdatasync)(this.#fd);
    await this.#syncing;
  }

  async close(): Promise<void> {
    try {
      // A file must not be closed while it is being synced, nor again by a later user of its number.
      await Promise.allSettled([this.#syncing]);
      fdatasyncSync(this.#fd);
    } finally {
      closeSync(this.#fd);
    }
  }

  #write(synced: SyncedState): void {
    writeSync(this.#fd, encodeSlot(synced), 0, SLOT_BYTES, this.#slot * SECTOR_BYTES);
    this.#synced = synced;
    this.#slot = 1 - this.#slot;
    this.#dirty = true;
  }
}
