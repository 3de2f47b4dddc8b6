import type { QueueName } from '@taskmaster/proto';
import type { EngineState } from '../engine-state.ts';
import { decide } from './decide.ts';
import { deadFor, showAllDue } from './expire.ts';
import type { Reaper } from './reaper.ts';

/** Deletes a queue with all its tasks. Resolves with their number. The reaper deletes their rows later. */
export async function deleteQueue(
  engineState: EngineState,
  name: QueueName,
  reaper: Pick<Reaper, 'reap'>,
): Promise<number> {
  // Move dead tasks first: they belong into another queue, and dead tasks of other queues may belong into this one.
  await showAllDue(engineState, deadFor(engineState, name));
  const { result: queue, durable } = await decide(engineState, engineState.partitionOf(name.group), () => {
    const found = engineState.table.get(name);
    const dropped = found && [{ queueId: found.ledger.queueId, reap: true, queue: found }];
    return {
      kind: 'decided',
      result: found && { found, size: found.ledger.size },
      changes: dropped && { changes: [], dropped },
    };
  });
  await durable;
  if (queue === undefined) return 0;
  reaper.reap(engineState.log, queue.found);
  return queue.size;
}
