import type { HeaderFilter, HeaderTest, Subscription, SubscriptionKey } from '@taskmaster/engine/domain';
import {
  type HeaderFilter as FilterMessage,
  type ListSubscriptionsRequest,
  limits,
  type QueueName,
  type SubscribeRequest,
  type HeaderTest as TestMessage,
} from '@taskmaster/proto';
import {
  countAtMost,
  duration,
  headerKey,
  headerValue,
  type Place,
  queueIn,
  queueName,
  queueOrGroup,
  refuse,
} from '@taskmaster/server/requests';

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parseSubscribe(request: SubscribeRequest): Subscription {
  const key = parseSubscriptionKey(request);
  const { ttlMs } = request;
  const least = ttlMs === 0 ? 0 : limits.minSubscriptionMs;
  const ttl = duration(ttlMs, { field: 'ttl_ms' }, least, limits.subscriptionMs);
  return {
    ...key,
    filter: parseHeaderFilter(request.filter, 'filter.all'),
    ttlMs: ttl === 0 ? undefined : ttl,
    deleteQueue: request.deleteQueue,
  };
}

/** The group, and the topic if it is named. */
export function parseListSubscriptions({ topic }: ListSubscriptionsRequest): {
  readonly group: string;
  readonly topic: QueueName | undefined;
} {
  const named = queueOrGroup(topic, { field: 'topic', whole: 'as group#' });
  return { group: named.group, topic: named.name === '' ? undefined : named };
}

/** As `parseSubscribe`. */
export function parseSubscriptionKey({ topic, queue }: Pick<SubscribeRequest, 'topic' | 'queue'>): SubscriptionKey {
  const key = { topic: queueName(topic, { field: 'topic' }), queue: queueIn(queue) };
  if (key.topic.group === key.queue.group) return key;
  return refuse('MIXED_GROUPS', { field: 'queue' }, 'is of another group than the topic', {
    group: key.queue.group,
    otherGroup: key.topic.group,
  });
}

/** Throws a `Refusal` if the filter is too large or not well-formed. `list`: the field of its tests. */
export function parseHeaderFilter(filter: FilterMessage | undefined, list: string): HeaderFilter {
  if (filter === undefined) return [];
  const place = { field: list };
  countAtMost(filter.all.length, place, limits.filterTests);
  const tests = filter.all.map((test, index) => parseTest(test, { list, index, field: '' }));
  const keys = new Set<string>();
  for (const [index, { key }] of tests.entries()) {
    if (keys.has(key)) refuse('INVALID_ARGUMENT', { list, index, field: '' }, `tests ${key} again`);
    keys.add(key);
  }
  const bytes = tests.reduce((sum, test) => sum + bytesOf(test), 0);
  if (bytes > limits.filterBytes) {
    refuse('INVALID_ARGUMENT', place, `have ${bytes} bytes of keys and values: at most ${limits.filterBytes}`, {
      value: bytes,
      limit: limits.filterBytes,
    });
  }
  return tests;
}

function parseTest({ key: given, test }: TestMessage, place: Place): HeaderTest {
  const key = headerKey(given, place);
  switch (test?.$case) {
    case 'in': {
      const { values } = test.value;
      if (values.length === 0) refuse('INVALID_ARGUMENT', place, 'has no value, so no task could pass');
      countAtMost(values.length, place, limits.filterValues);
      return { kind: 'in', key, values: values.map((value) => headerValue(value, key, place)) };
    }
    case 'prefix':
      if (test.value === '') refuse('INVALID_ARGUMENT', place, 'has an empty prefix: use exists');
      return { kind: 'prefix', key, prefix: headerValue(test.value, key, place) };
    case 'exists':
      return { kind: 'exists', key, exists: test.value };
    case undefined:
      return refuse('INVALID_ARGUMENT', place, 'has no test: give in, prefix or exists');
  }
}

function bytesOf(test: HeaderTest): number {
  const texts = test.kind === 'in' ? test.values : test.kind === 'prefix' ? [test.prefix] : [];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), test.key.length);
}
