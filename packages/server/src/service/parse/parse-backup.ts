import type { BackupPartitionRequest } from '@taskmaster/proto';
import type { PartitionId } from '../../domain/ids.ts';
import { wholeNumber } from './checks.ts';

/** The partition in a request. `count`: number of partitions. Throws a `Refusal` if there is no such partition. */
export function parsePartition({ partition }: BackupPartitionRequest, count: number): PartitionId {
  return wholeNumber(partition, { field: 'partition' }, 0, count - 1) as PartitionId;
}
