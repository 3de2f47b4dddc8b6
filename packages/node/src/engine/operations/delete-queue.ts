import type { QueueName } from '@taskmaster/proto';
import type { EngineState } from '../engine-state.ts';
import { deadFor, showAllDue } from './expire.ts';
import type { Reaper } from './reaper.ts';

/** Deletes a queue with all its tasks. Resolves with their number. The reaper deletes their rows later. */
export async function deleteQueue(memory: EngineState, name: QueueName, reaper: Pick<Reaper, 'reap'>): Promise<number> {
  // Move dead tasks first: they belong into another queue, and dead tasks of other queues may belong into this one.
  await showAllDue(memory, deadFor(memory, name));
  const id = memory.partitionOf(name.group);
  for (let gate = memory.holdings.gate(id); gate; gate = memory.holdings.gate(id)) await gate;
  memory.assertCurrent();
  const queue = memory.table.get(name);
  const deleted = queue?.ledger.size ?? 0;
  if (queue) memory.dropQueue(queue, true);
  await memory.durable();
  if (queue) reaper.reap(memory.log, queue);
  return deleted;
}
