import type { CountsReply, EnqueueCall, RefusedItemReply } from '@taskmaster/cli/testing/history';
import type { Engine } from '@taskmaster/engine';
import { limits, parseQueueName } from '@taskmaster/proto';

/** The topic of all runs. */
const TOPIC = 'g#topic';
/** The queues that are subscribed to it, in order. One subscription has a time to live, which no run outlives. */
const SUBSCRIBED = ['g#q', 'g#r'] as const;

/** Subscribes the queues. */
export async function subscribeAll(engine: Engine): Promise<void> {
  for (const [at, queue] of SUBSCRIBED.entries()) {
    const key = { topic: parseQueueName(TOPIC), queue: parseQueueName(queue) };
    const ttlMs = at === 0 ? undefined : limits.subscriptionMs;
    await engine.topics.subscribe({ ...key, filter: [], ttlMs, deleteQueue: false });
  }
}

/** The subscriptions as a queue on disk. */
export const subscriptionCounts: readonly CountsReply[] = [
  { queue: 'subscriptions', available: 1, leased: 0, delayed: 1, completed: 0 },
];

/** The enqueues that a publication is for the model: one for each subscribed queue, one behind the other. */
export const publicationOf = (item: EnqueueCall): readonly EnqueueCall[] =>
  SUBSCRIBED.map((queue) => ({ ...item, queue, topic: TOPIC }));

/** The places of the enqueues that a request sends: of a publication only the first. */
export function sentEnqueues(enqueue: readonly EnqueueCall[]): number[] {
  const sent: number[] = [];
  for (let at = 0; at < enqueue.length; at += enqueue[at]?.topic === undefined ? 1 : SUBSCRIBED.length) sent.push(at);
  return sent;
}

/** The items that a refusal names: of a publication only its first enqueue, and once. */
export function namedItems(
  enqueue: readonly EnqueueCall[],
  refused: readonly RefusedItemReply[],
): readonly RefusedItemReply[] {
  const sent = sentEnqueues(enqueue);
  const named = refused.map((item) =>
    item.kind === 'enqueue' ? { ...item, index: sent.findLast((at) => at <= item.index) ?? item.index } : item,
  );
  return named.filter(
    ({ kind, index }, at) => at === named.findIndex((one) => one.kind === kind && one.index === index),
  );
}
