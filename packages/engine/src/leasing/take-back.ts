import { batchOf, giveBack, type LeasedTask, onlyOutcome, Refusal } from '@taskmaster/server/domain';
import type { EngineState } from '../engine-state.ts';
import { updateTasks } from '../operations/update-tasks.ts';

/** Releases tasks that were leased for a caller that has disconnected, as if they had not been leased. Throws its refusal. */
export async function takeBack(engineState: EngineState | undefined, leased: readonly LeasedTask[]): Promise<never> {
  if (engineState) {
    await giveBack(
      async (release) => onlyOutcome(await updateTasks(engineState, batchOf([release], undefined))),
      leased,
    );
  }
  throw new Refusal('CANCELLED', 'the call was cancelled');
}
