import type { PartRecord } from '../format/manifest.ts';

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
  /** Undefined if there is no object of this name. */
  read(name: string): Promise<Uint8Array | undefined>;
  /** Names of all objects, also of those that are not part of a backup. */
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
