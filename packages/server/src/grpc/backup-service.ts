import { Refusal } from '@taskmaster/engine/domain';
import { type BackupPartitionRequest, type BackupPartitionResponse, methods } from '@taskmaster/proto';
import { requireClusterRight } from '../calls/check-rights.ts';
import type { StreamingHandler, UnaryCaller } from '../calls/raw-service.ts';
import { decodeCall } from '../requests/codec.ts';
import type { StreamingService } from './server-streams/streaming-service.ts';

/** Sends a partition to a backup; see backup.proto. */
export type BackupHandler = (
  request: BackupPartitionRequest,
  caller: UnaryCaller,
) => AsyncIterable<BackupPartitionResponse>;

/**
 * The service for the partitions of a node, or for those that a router reaches. Its handler takes and returns encoded
 * messages.
 */
export function createBackupService(backupPartition: StreamingHandler): StreamingService {
  return {
    name: 'taskmaster.v1.BackupService',
    streaming: { BackupPartition: backupPartition },
    tooSlow: () => new Refusal('BACKUP_TOO_SLOW', 'the backup is not read: it was ended'),
  };
}

/** The handler for the partitions of a node. */
export function encodedBackup(backup: BackupHandler): StreamingHandler {
  return async function* (bytes, caller) {
    const request = decodeCall(methods.backupPartition, bytes);
    requireClusterRight(caller.access, methods.backupPartition);
    for await (const part of backup(request, caller)) yield methods.backupPartition.responseSerialize(part);
  };
}
