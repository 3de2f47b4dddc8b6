import type { Key } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import type { SimNode } from '@taskmaster/node/testing';

/**
 * (i) A settled node must have no leftovers. In memory: no queue of a partition that it does not hold, and no queue twice. On
 * disk: no payload without a task, because a later queue with the same id would find it.
 */
export function leftoversOf({ name, partitions, h }: SimNode): string[] {
  const wrong: string[] = [];
  const held = partitions.held();
  const queues = held.reduce((sum, one) => sum + one.queues, 0);
  const listed = h.engine.figures().queues;
  if (listed !== queues) wrong.push(`(i) ${name} has ${listed} queues, and ${queues} in the partitions that it holds`);
  const payloads = new Map<number, number>();
  for (const { key } of h.rowsOf(Family.data)) {
    const id = partitionOf(key);
    payloads.set(id, (payloads.get(id) ?? 0) + 1);
  }
  for (const { id, tasks } of held) {
    const rows = payloads.get(id) ?? 0;
    if (rows !== tasks) wrong.push(`(i) ${name} has ${rows} payloads of partition ${id} on disk, and ${tasks} tasks`);
  }
  return wrong;
}

/** Keys of tasks begin with the two bytes of their partition. */
const partitionOf = (key: Key): number => key.charCodeAt(0) * 256 + key.charCodeAt(1);
