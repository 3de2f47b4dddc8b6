import type { CallOf, EndReply, Outcome } from '@taskmaster/cli/testing/history';
import type { ModelEnd, Span, World } from './world.ts';

// What ended tasks leave, by the contract.

/** How long results are kept. Dead letters leave their ends for longer. */
export const RESULT_MS = 30_000;

/** The world after a task went to a dead-letter queue. */
export function withDeath(world: World, queue: string, pid: string): World {
  const { time, epoch } = world;
  return world.withEnd(queue, pid, { outcome: 'dead-lettered', result: undefined, from: time, epoch });
}

/** The world after a cancelled task was removed. */
export function withoutCancelled(world: World, queue: string, pid: string, now = world.time): World {
  const { time, epoch } = world;
  const end = { outcome: 'cancelled' as const, result: undefined, from: time, epoch };
  return world.remove(queue, pid, false, now).withEnd(queue, pid, end);
}

/** Whether the replies show how the tasks have ended in this world. */
export function areEndsOf(
  world: World,
  { queue }: CallOf<'ends'>,
  { tasks }: Extract<Outcome, { kind: 'ended' }>,
  span: Span,
): boolean {
  return tasks.every((reply) => isEndOf(world, queue, reply, span));
}

function isEndOf(world: World, queue: string, { pid, outcome, result }: EndReply, span: Span): boolean {
  if (world.task(queue, pid) !== undefined) return outcome === undefined;
  const end = world.end(queue, pid);
  if (end !== undefined && outcome === end.outcome && result === end.result) return true;
  return outcome === 'unknown' && (end === undefined || mayBeGone(end, world.epoch, span));
}

/** A search removes what was kept long enough. Until then it may be shown. */
const mayBeGone = ({ from, epoch }: ModelEnd, now: number, span: Span): boolean =>
  epoch !== now || from + RESULT_MS <= span.to;
