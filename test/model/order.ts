import { NEVER } from '@taskmaster/engine/domain';
import type { ModelTask, Span, World } from './world.ts';

// Tasks of a queue with one order key, by the contract: all but the first are parked.

/** A task that is due when its order allows it. */
const AT_ONCE: Span = { from: 0, to: 0 };
const PARKED = { until: { from: NEVER, to: NEVER }, leasedBy: undefined };

/** The task as the last one of its order key. */
export function joined(world: World, queue: string, task: ModelTask): ModelTask {
  if (task.orderKey === undefined) return task;
  const places = world.tasks(queue).flatMap(({ orderKey, place = 0 }) => (orderKey === task.orderKey ? place : 0));
  const last = Math.max(0, ...places);
  if (last === 0) return { ...task, place: 1 };
  return { ...task, place: last + 1, parked: task.hidden?.until ?? AT_ONCE, hidden: PARKED };
}

/** The task that is due at another instant when its order allows it. Undefined: at once. */
export const rescheduled = (task: ModelTask, due: Span | undefined): ModelTask => ({ ...task, parked: due ?? AT_ONCE });
