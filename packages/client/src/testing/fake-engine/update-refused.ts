import type { ItemRefusal, Error as WireError } from '@taskmaster/proto';
import { errorFromWire } from '../../transport/wire-errors.ts';
import type { TaskMasterError } from '../../values/errors.ts';

/** The refusal of an update because of these items. */
export function updateRefused(first: ItemRefusal, items: ItemRefusal[]): TaskMasterError {
  const wire: WireError = {
    code: first.reason === 'TASK_NOT_FOUND' ? 5 : first.reason === 'TASK_EXISTS' ? 6 : 9,
    reason: first.reason,
    message: `${first.reason} in ${first.queue}`,
    metadata: { queue: first.queue },
    retryDelayMs: 0,
    items,
  };
  return errorFromWire(wire);
}
