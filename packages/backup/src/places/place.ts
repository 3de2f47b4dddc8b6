import { BackupError } from '../format/errors.ts';
import { isIntact, type PartRecord } from '../format/manifest.ts';
import { DAMAGE_HINT } from '../format/part.ts';

/** An object of a backup: a part, or the manifest. */
export interface BackupObject {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** Where a backup is written. Every method rejects with `BackupError` if the place is full or fails. */
export interface BackupTarget extends AsyncDisposable {
  /** For people: the path or the address. */
  readonly title: string;
  /** Number of partitions that may be written at the same time; undefined: any number. */
  readonly maxConcurrency: number | undefined;
  /** Undefined if the place cannot be read again, so that a backup cannot be continued there. */
  readonly store: BackupStore | undefined;
  /** Writes an object completely or not at all. Replaces an object of the same name. */
  write(name: string, bytes: Uint8Array): Promise<void>;
  /** Writes the last object. It is durable only after all others are. */
  finish(name: string, bytes: Uint8Array): Promise<void>;
}

/** Named objects that can be read in any order. */
export interface BackupStore extends BackupTarget {
  readonly store: BackupStore;
  /**
   * Undefined if there is no object of this name. Rejects with BACKUP_DAMAGED if the object has more than `maxBytes` bytes, and
   * with BACKUP_PLACE_FAILED if its bytes do not arrive in time. Reads no more than `maxBytes` into memory.
   */
  read(name: string, maxBytes: number): Promise<Uint8Array | undefined>;
  /** Names of all objects, also of those that are not part of a backup. Rejects if there are more than `MAX_OBJECTS`. */
  list(): Promise<readonly string[]>;
  remove(name: string): Promise<void>;
  /**
   * Takes a part over from another place. If both places are of one kind, the data does not pass through this program.
   * Returns false if the other place does not have the part of this record.
   */
  copyFrom(base: BackupStore, part: PartRecord): Promise<boolean>;
}

/** The objects of a backup in the order in which they arrive. They can be read once. */
export interface BackupStream extends AsyncDisposable {
  /** For people: where it comes from. */
  readonly title: string;
  readonly store: undefined;
  stream(): AsyncIterable<BackupObject>;
}

/** Where a backup is read. */
export type BackupSource = BackupStore | BackupStream;

/** Limit of the objects in a place. The longest manifest names fewer. */
export const MAX_OBJECTS = 2_000_000;

/** The place has more than `MAX_OBJECTS` objects. */
export const tooManyObjects = (title: string): BackupError =>
  new BackupError('BACKUP_PLACE_FAILED', `${title} has more than ${MAX_OBJECTS} objects`, {
    hint: 'a place has one backup and little else: check the place',
  });

/** The object has more bytes than it may have. */
export const tooLong = (name: string, maxBytes: number): BackupError =>
  new BackupError('BACKUP_DAMAGED', `${name} is too long: it has more than ${maxBytes} bytes`, { hint: DAMAGE_HINT });

/** The part, if the store has it and it matches its record. Otherwise undefined. */
export async function intactPart(store: BackupStore, part: PartRecord): Promise<Uint8Array | undefined> {
  try {
    const bytes = await store.read(part.name, part.bytes);
    return bytes && isIntact(part, bytes) ? bytes : undefined;
  } catch (error) {
    if (error instanceof BackupError && error.reason === 'BACKUP_DAMAGED') return undefined;
    throw error;
  }
}
