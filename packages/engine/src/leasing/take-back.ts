import { batchOfOne, onlyOutcome } from '../domain/batches.ts';
import type { LeasedTask } from '../domain/commands.ts';
import { giveBack } from '../domain/give-back.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { updateTasks } from '../operations/update-tasks.ts';

/** Releases tasks that were leased for a caller that has disconnected, as if they had not been leased. Throws its refusal. */
export async function takeBack(engineState: EngineState | undefined, leased: readonly LeasedTask[]): Promise<never> {
  if (engineState) {
    await giveBack(async (release) => onlyOutcome(await updateTasks(engineState, batchOfOne(release))), leased);
  }
  throw new Refusal('CANCELLED', 'the call was cancelled');
}
