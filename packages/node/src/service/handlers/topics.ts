import type { Engine } from '@taskmaster/engine';
import { type ShownSubscription, subscriptionMessage } from '@taskmaster/engine/domain';
import type { Subscription as SubscriptionMessage } from '@taskmaster/proto';
import type { TaskHandlers } from '@taskmaster/server/calls';
import { parseListSubscriptions, parseSubscribe, parseSubscriptionKey } from './parse-topics.ts';

/** The part of the service about topics. */
export function topicHandlers({
  topics,
}: Pick<Engine, 'topics'>): Pick<TaskHandlers, 'subscribe' | 'unsubscribe' | 'listSubscriptions'> {
  return {
    async subscribe(request) {
      const { created, until } = await topics.subscribe(parseSubscribe(request));
      return { created, expiresUnixMs: until ?? 0 };
    },
    unsubscribe: async (request) => topics.unsubscribe(parseSubscriptionKey(request)),
    async listSubscriptions(request) {
      const { group, topic } = parseListSubscriptions(request);
      return { subscriptions: (await topics.list(group, topic)).map(messageOf) };
    },
  };
}

const messageOf = (shown: ShownSubscription): SubscriptionMessage => ({
  ...subscriptionMessage(shown),
  expiresUnixMs: shown.until ?? 0,
});
