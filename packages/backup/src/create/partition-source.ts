import type { BackupPartitionRequest, BackupPartitionResponse } from '@taskmaster/proto';

/** The cluster that is backed up. */
export interface PartitionSource {
  /**
   * Sends one partition; see `BackupService`. Everything that was acknowledged before the call is in it. Throws if the stream
   * ends before the end of the partition.
   */
  backupPartition(
    request: BackupPartitionRequest,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<BackupPartitionResponse>;
  /** Whether the partition can be begun again after this error: it moved, or its holder does not answer. */
  isTemporary(error: unknown): boolean;
}
