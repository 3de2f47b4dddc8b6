import { Family, type SimNode } from '@taskmaster/node/testing';
import type { Key } from '@taskmaster/server/domain';

/**
 * (i) What a node at rest has beyond what it holds: queues in memory of partitions that are not its own, or twice; and
 * payloads on disk of no task, which a queue of the same number would find.
 */
export function leftoversOf({ name, partitions, h }: SimNode): string[] {
  const wrong: string[] = [];
  const held = partitions.held();
  const queues = held.reduce((sum, one) => sum + one.queues, 0);
  const listed = h.engine.figures().queues;
  if (listed !== queues) wrong.push(`(i) ${name} has ${listed} queues, and ${queues} in the partitions that it holds`);
  const payloads = new Map<number, number>();
  for (const { key } of h.disk.rowsOf(Family.data)) {
    const id = partitionOf(key);
    payloads.set(id, (payloads.get(id) ?? 0) + 1);
  }
  for (const { id, tasks } of held) {
    const rows = payloads.get(id) ?? 0;
    if (rows !== tasks) wrong.push(`(i) ${name} has ${rows} payloads of partition ${id} on disk, and ${tasks} tasks`);
  }
  return wrong;
}

/** Keys of tasks begin with two bytes of their partition. */
const partitionOf = (key: Key): number => key.charCodeAt(0) * 256 + key.charCodeAt(1);
