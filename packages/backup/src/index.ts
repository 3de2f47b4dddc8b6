export {
  type CreatedBackup,
  type CreateOptions,
  type CreateProgress,
  createBackup,
} from './create/create-backup.ts';
export type { PartitionSource } from './create/partition-source.ts';
export type { Retry } from './create/retry.ts';
export { BackupError, type BackupReason } from './format/errors.ts';
export { MANIFEST, type Manifest, type PartitionRecord, type PartRecord } from './format/manifest.ts';
export { openSource, openStore, openTarget, type Streams } from './places/open-place.ts';
export type { BackupSource, BackupStore, BackupStream, BackupTarget } from './places/place.ts';
export { type BackupEvent, readBackup } from './read/read-backup.ts';
export { readManifest } from './read/stored-objects.ts';
export { type VerifyProgress, verifyBackup } from './read/verify-backup.ts';
