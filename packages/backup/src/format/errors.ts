/** Why a backup cannot be made, read or restored. Stable, for programs. */
export type BackupReason =
  /** Bytes differ from their checksum, or cannot be read. */
  | 'BACKUP_DAMAGED'
  /** A part or the manifest is missing. */
  | 'BACKUP_INCOMPLETE'
  /** A newer release wrote the backup. */
  | 'BACKUP_TOO_NEW'
  /** The place has something else than a backup. */
  | 'NOT_A_BACKUP'
  /** The place is in use: it has a backup, other files, or another backup is being written there. */
  | 'BACKUP_PLACE_IN_USE'
  /** The place has no space left. */
  | 'BACKUP_PLACE_FULL'
  /** The data directory to restore into is not empty. */
  | 'DATA_DIRECTORY_IN_USE'
  /** The schema of a database to restore into has data. */
  | 'DATABASE_IN_USE'
  /** The place cannot be read or written. */
  | 'BACKUP_PLACE_FAILED'
  /** The base, or the unfinished backup, is of another cluster. */
  | 'OTHER_CLUSTER'
  /** This kind of place does not support the operation. */
  | 'UNSUPPORTED';

/** A backup cannot be made, read or restored. The message says why, and the hint what to do. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
  readonly reason: BackupReason;
  /** What to do next; undefined if the message says it. */
  readonly hint: string | undefined;

  constructor(
    reason: BackupReason,
    message: string,
    options: { readonly hint?: string; readonly cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.hint = options.hint;
  }
}
