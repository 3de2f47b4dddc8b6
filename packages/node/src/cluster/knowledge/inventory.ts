import type { HeldPartition } from '@taskmaster/engine';
import { type InventoryEntry, PartitionState } from '@taskmaster/proto';
import type { HandOffProgress } from '../placement/handoff/sender.ts';

/** The partitions that a node holds, in the form sent to other nodes. */
export function inventoryOf(held: readonly HeldPartition[], progress: readonly HandOffProgress[]): InventoryEntry[] {
  const sending = new Map(progress.map((one) => [one.partition, one]));
  return held.map((partition) => {
    const { id, epoch, queues, tasks, to } = partition;
    const moving = sending.get(id);
    return {
      id,
      epoch,
      queues,
      tasks,
      state: stateOf(partition, moving),
      to: to ?? moving?.to ?? '',
      movedRows: moving?.rows ?? 0,
      movedBytes: moving?.bytes ?? 0,
    };
  });
}

function stateOf({ state }: HeldPartition, moving: HandOffProgress | undefined): PartitionState {
  switch (state) {
    case 'serving':
      return moving ? PartitionState.PARTITION_STATE_MOVING : PartitionState.PARTITION_STATE_SERVING;
    case 'frozen':
      return PartitionState.PARTITION_STATE_FROZEN;
    case 'handing-over':
      // In phase `frozen` the target was just asked to take the partition; it answers within milliseconds.
      return moving?.phase === 'frozen'
        ? PartitionState.PARTITION_STATE_FROZEN
        : PartitionState.PARTITION_STATE_UNRESOLVED;
    default:
      return state satisfies never;
  }
}
