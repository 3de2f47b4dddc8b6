import { setTimeout as sleep } from 'node:timers/promises';
import type { PartitionSource } from '@taskmaster/backup';
import { isTaskMasterError, type TaskMasterClient } from '@taskmaster/client';
import { isTemporary } from '../views/report-error.ts';

/** Wait before a node that sends as many partitions as it may is asked again, in ms, if it gives no retry delay. */
const BUSY_MS = 1_000;

/** The cluster behind a client. */
export function sourceOf(client: TaskMasterClient): PartitionSource {
  return {
    async *backupPartition({ partition, ...request }, { signal }) {
      for (;;) {
        try {
          for await (const part of client.cluster.backupPartition(partition, { ...request, signal })) yield { part };
          return;
        } catch (error) {
          // Refused before the first part. The node may be busy with large partitions for long, which is no failure.
          if (!isTaskMasterError(error) || error.reason !== 'TOO_MANY_BACKUPS') throw error;
          await sleep(error.retryDelayMs ?? BUSY_MS, undefined, { signal });
        }
      }
    },
    isTemporary: (error) => isTaskMasterError(error) && isTemporary(error),
  };
}
