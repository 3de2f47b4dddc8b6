import { limits } from '@taskmaster/proto';
import type { Instant } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import {
  encodeSubscription,
  type ShownSubscription,
  type Subscription,
  type SubscriptionKey,
} from '../domain/topics.ts';
import type { EngineState } from '../engine-state.ts';
import { recordState } from '../operations/attempts.ts';
import { type Attempt, decide } from '../operations/decide.ts';
import { deadFor, showAllDue } from '../operations/expire.ts';
import type { Reaper } from '../operations/reaper.ts';
import { TaskDraft } from '../operations/task-draft.ts';
import { EngineView } from '../pending/engine-view.ts';
import { subscriptionRecords } from '../records/record-store.ts';
import { subscriptionPid } from './subscription-table.ts';

type Subscribed = { readonly created: boolean; readonly until: Instant | undefined };

/**
 * Makes a subscription, or replaces one and begins its time to live anew.
 * @param noNewTasks refuses a new one. Undefined: there is room on the disk.
 */
export async function subscribe(
  engineState: EngineState,
  subscription: Subscription,
  noNewTasks: Refusal | undefined,
): Promise<Subscribed> {
  const { group } = subscription.topic;
  const { result, durable } = await decide(
    engineState,
    engineState.partitionOf(group),
    (now, reads): Attempt<Subscribed> => {
      const before = engineState.subscriptions.find(subscription, now);
      if (before === undefined) refuseNew(engineState, group, now, noNewTasks);
      const draft = new TaskDraft(new EngineView(engineState, now, reads));
      const records = draft.queueFor(subscriptionRecords.of(group));
      const pid = subscriptionPid(subscription);
      const record = draft.find(records, pid);
      if (draft.needs.length > 0) return { kind: 'needs', needs: draft.needs };
      const data = encodeSubscription(subscription);
      const until = subscription.ttlMs === undefined ? undefined : ((now + subscription.ttlMs) as Instant);
      const state = recordState(data, now, until);
      const isSame = before !== undefined && Buffer.compare(encodeSubscription(before), data) === 0;
      if (record === undefined) draft.add(records, pid, state, data);
      // A renewal changes only the end, which is written with the log.
      else draft.change(records, pid, record, state, isSame ? undefined : data);
      const { changes, created } = draft;
      return { kind: 'decided', result: { created: before === undefined, until }, changes: { changes, created } };
    },
  );
  await durable;
  return result;
}

function refuseNew(engineState: EngineState, group: string, now: Instant, noNewTasks: Refusal | undefined): void {
  if (noNewTasks !== undefined) throw noNewTasks;
  if (engineState.subscriptions.list(group, undefined, now).length < limits.subscriptions) return;
  throw new Refusal('TOO_MANY_SUBSCRIPTIONS', `the group has ${limits.subscriptions} subscriptions`, {
    metadata: { group, limit: String(limits.subscriptions) },
  });
}

/** What has ended: a subscription, and perhaps its queue. */
interface Ended {
  readonly existed: boolean;
  readonly deletedTasks: number;
}

/** Ends a subscription, in one atom with the deletion of its queue if that was asked for and no other topic has the queue. */
export async function unsubscribe(
  engineState: EngineState,
  key: SubscriptionKey,
  reaper: Pick<Reaper, 'reap'>,
): Promise<Ended> {
  return end(engineState, key, reaper, (now) => engineState.subscriptions.find(key, now));
}

/** Removes the record of a subscription that has ended, and its queue. Nothing happens if it was renewed meanwhile. */
export async function removeEnded(
  engineState: EngineState,
  key: SubscriptionKey,
  reaper: Pick<Reaper, 'reap'>,
): Promise<void> {
  await end(engineState, key, reaper, (now) => engineState.subscriptions.findEnded(key, now));
}

async function end(
  engineState: EngineState,
  key: SubscriptionKey,
  reaper: Pick<Reaper, 'reap'>,
  find: (now: Instant) => ShownSubscription | undefined,
): Promise<Ended> {
  const { group } = key.topic;
  // Move dead tasks first: they belong into another queue.
  if (find(engineState.clock.now())?.deleteQueue) await showAllDue(engineState, deadFor(engineState, key.queue));
  const { result, durable } = await decide(engineState, engineState.partitionOf(group), (now, reads) => {
    const subscription = find(now);
    const draft = new TaskDraft(new EngineView(engineState, now, reads));
    const records = draft.queue(subscriptionRecords.of(group));
    if (subscription === undefined || records === undefined) return { kind: 'decided' as const, result: undefined };
    subscriptionRecords.remove(draft, group, subscriptionPid(key));
    if (draft.needs.length > 0) return { kind: 'needs' as const, needs: draft.needs };
    const isToGo = subscription.deleteQueue && !engineState.subscriptions.hasOther(key, now);
    const queue = isToGo ? engineState.table.get(key.queue) : undefined;
    const dropped = queue === undefined ? [] : [{ queueId: queue.ledger.queueId, reap: true, queue }];
    const result = { queue, tasks: queue?.ledger.size ?? 0 };
    return { kind: 'decided' as const, result, changes: { changes: draft.changes, dropped } };
  });
  await durable;
  if (result === undefined) return { existed: false, deletedTasks: 0 };
  if (result.queue !== undefined) reaper.reap(engineState.log, result.queue);
  return { existed: true, deletedTasks: result.tasks };
}
