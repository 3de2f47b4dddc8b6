import type { CallOf, EndReply, Outcome } from '@taskmaster/client/testing/history';
import { deadLetterQueueOf } from './records/settings.ts';
import type { ModelEnd, Span, World } from './world.ts';

// What ended tasks leave, by the contract.

/** How long results are kept. Dead letters leave their ends for longer. */
export const RESULT_MS = 30_000;
/** Longer than a change of the world may be uncertain. */
const MARGIN_MS = 10_000;

/**
 * The world after a task went to a dead-letter queue. It leaves its end only if its group keeps others.
 * @param diedAt the earliest instant at which it may have gone: a search in the background may have found it before any request.
 */
export function withDeath(world: World, queue: string, pid: string, diedAt: number): World {
  const { time, epoch } = world;
  if (!world.mayKeepEnds(queue)) return world;
  const isKept = (end: ModelEnd): boolean =>
    end.isSure && end.epoch === epoch && end.from < diedAt && time + MARGIN_MS < end.from + RESULT_MS;
  const isSure = world.endsOfGroup(queue).some(isKept);
  return world.withEnd(queue, pid, { outcome: 'dead-lettered', result: undefined, from: time, epoch, isSure });
}

/** The world after a cancelled task was removed. */
export function withoutCancelled(world: World, queue: string, pid: string): World {
  const { time, epoch } = world;
  const end = { outcome: 'cancelled' as const, result: undefined, from: time, epoch, isSure: true };
  return world.remove(queue, pid, false).withEnd(queue, pid, end);
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
  if (end !== undefined && !mayBeGone(end, world.epoch, span)) return false;
  const isDead = world.task(deadLetterQueueOf(queue, undefined), pid)?.origin?.queue === queue;
  return outcome === (isDead ? 'dead-lettered' : 'unknown');
}

/** A search removes what was kept long enough. Until then it may be shown. */
const mayBeGone = ({ from, epoch, isSure }: ModelEnd, now: number, span: Span): boolean =>
  !isSure || epoch !== now || from + RESULT_MS <= span.to;
