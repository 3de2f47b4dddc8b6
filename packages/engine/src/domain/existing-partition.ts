import type { PartitionId } from './ids.ts';
import { Refusal } from './refusal.ts';

/** The partition of this number. `count`: number of partitions. Throws a `Refusal` if there is no such partition. */
export function existingPartition(partition: number, count: number): PartitionId {
  const max = count - 1;
  if (Number.isSafeInteger(partition) && partition >= 0 && partition <= max) return partition as PartitionId;
  throw new Refusal('INVALID_ARGUMENT', `partition is ${partition}: must be a whole number from 0 to ${max}`, {
    metadata: { field: 'partition', value: String(partition), min: '0', max: String(max) },
  });
}
