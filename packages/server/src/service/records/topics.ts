import type {
  ListSubscriptionsRequest,
  ListSubscriptionsResponse,
  SubscribeRequest,
  SubscribeResponse,
  Subscription as SubscriptionMessage,
  UnsubscribeRequest,
  UnsubscribeResponse,
} from '@taskmaster/proto';
import type { TaskEngine } from '../../domain/commands.ts';
import { type ShownSubscription, subscriptionMessage } from '../../domain/topics.ts';
import type { Caller } from '../caller.ts';
import { parseListSubscriptions, parseSubscribe, parseUnsubscribe } from './parse-topics.ts';

// Who may lease the tasks of a group may also direct copies of published tasks to its queues: it could remove any task already.

export async function subscribe(
  engine: TaskEngine,
  request: SubscribeRequest,
  { access }: Caller,
): Promise<SubscribeResponse> {
  const subscription = parseSubscribe(request);
  access.require('lease', subscription.topic.group);
  const { created, until } = await engine.topics.subscribe(subscription);
  return { created, expiresUnixMs: until ?? 0 };
}

export async function unsubscribe(
  engine: TaskEngine,
  request: UnsubscribeRequest,
  { access }: Caller,
): Promise<UnsubscribeResponse> {
  const key = parseUnsubscribe(request);
  access.require('lease', key.topic.group);
  return engine.topics.unsubscribe(key);
}

export async function listSubscriptions(
  engine: TaskEngine,
  request: ListSubscriptionsRequest,
  { access }: Caller,
): Promise<ListSubscriptionsResponse> {
  const { group, topic } = parseListSubscriptions(request);
  access.require('read', group);
  return listReply(await engine.topics.list(group, topic));
}

const listReply = (subscriptions: readonly ShownSubscription[]): ListSubscriptionsResponse => ({
  subscriptions: subscriptions.map(
    (shown): SubscriptionMessage => ({ ...subscriptionMessage(shown), expiresUnixMs: shown.until ?? 0 }),
  ),
});
