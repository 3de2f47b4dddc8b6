import { subscriptionMessage } from '@taskmaster/engine/domain';
import { ListSubscriptionsResponse, limits, Subscription } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';
import { expect, test } from 'vitest';
import { parseSubscribe } from './parse-topics.ts';

test('the largest subscriptions of a group fit into one listing', () => {
  const group = 'g'.repeat(limits.nameBytes);
  const name = 'n'.repeat(limits.nameBytes);
  const keys = Array.from({ length: limits.filterTests }, (_, at) => String(at));
  const noValues = limits.filterTests * limits.filterValues;
  const long = 'v'.repeat(limits.filterBytes - keys.length);
  const all = keys.map((key, at) => ({
    key,
    test: {
      $case: 'in' as const,
      value: { values: Array.from({ length: limits.filterValues }, (_, of) => (at + of === 0 ? long : '')) },
    },
  }));
  const largest = parseSubscribe({
    topic: `${group}#${name}`,
    queue: `${group}#${name}`,
    filter: { all },
    ttlMs: limits.subscriptionMs,
    deleteQueue: true,
  });
  const message = { ...subscriptionMessage(largest), expiresUnixMs: Number.MAX_SAFE_INTEGER };
  const bytes = Subscription.encode(message).finish().length;
  expect(bytes).toBeGreaterThan(4 * limits.nameBytes + limits.filterBytes + 2 * noValues);
  const one = ListSubscriptionsResponse.encode({ subscriptions: [message] }).finish().length;
  expect(limits.subscriptions * one).toBeLessThan(REPLY_BYTES);
});
