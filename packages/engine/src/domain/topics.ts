import {
  encodeToBuffer,
  type HeaderFilter as FilterMessage,
  formatQueueName,
  parseQueueName,
  type QueueName,
  Subscription as SubscriptionMessage,
  type HeaderTest as TestMessage,
} from '@taskmaster/proto';
import type { TaskHeaders } from './headers.ts';
import type { Instant } from './ids.ts';

/** A test of one header. */
export type HeaderTest =
  | { readonly kind: 'in'; readonly key: string; readonly values: readonly string[] }
  | { readonly kind: 'prefix'; readonly key: string; readonly prefix: string }
  | { readonly kind: 'exists'; readonly key: string; readonly exists: boolean };

/** Passed if all tests pass. */
export type HeaderFilter = readonly HeaderTest[];

type Passes = (headers: TaskHeaders) => boolean;

/** A function that says whether headers pass. It may be asked for many tasks, so it takes as long for many values as for few. */
export function testOf(filter: HeaderFilter): Passes {
  const tests = filter.map(passesTest);
  return (headers) => tests.every((passes) => passes(headers));
}

function passesTest(test: HeaderTest): Passes {
  const { key } = test;
  switch (test.kind) {
    case 'in': {
      const values = new Set(test.values);
      return ({ [key]: value }) => value !== undefined && values.has(value);
    }
    case 'prefix':
      return ({ [key]: value }) => value?.startsWith(test.prefix) ?? false;
    case 'exists':
      return ({ [key]: value }) => (value !== undefined) === test.exists;
    default:
      return test satisfies never;
  }
}

/** A queue that is subscribed to a topic of its group. */
export interface Subscription {
  readonly topic: QueueName;
  readonly queue: QueueName;
  readonly filter: HeaderFilter;
  /** Undefined: it does not end by itself. */
  readonly ttlMs: number | undefined;
  /** Whether the queue is deleted when the subscription ends. */
  readonly deleteQueue: boolean;
}

export interface ShownSubscription extends Subscription {
  /** When it ends. */
  readonly until: Instant | undefined;
}

/** Names a subscription. */
export type SubscriptionKey = Pick<Subscription, 'topic' | 'queue'>;

/** The operations of a node on topics. They settle as those of an `Engine` do. */
export interface TopicOperations {
  /** Makes or replaces a subscription. */
  subscribe(subscription: Subscription): Promise<{ readonly created: boolean; readonly until: Instant | undefined }>;
  /** Resolves with whether there was a subscription, and the number of tasks deleted with its queue. */
  unsubscribe(key: SubscriptionKey): Promise<{ readonly existed: boolean; readonly deletedTasks: number }>;
  /** Number of queues that a task which is published to the topic may go to. */
  countOf(topic: QueueName): number;
  /** The subscriptions of a topic of the group, or of all of them. */
  list(group: string, topic: QueueName | undefined): Promise<readonly ShownSubscription[]>;
}

/** A subscription as a message, without its end. */
export function subscriptionMessage({ topic, queue, filter, ttlMs, deleteQueue }: Subscription): SubscriptionMessage {
  return {
    topic: formatQueueName(topic),
    queue: formatQueueName(queue),
    filter: filter.length === 0 ? undefined : { all: filter.map(testMessage) },
    ttlMs: ttlMs ?? 0,
    deleteQueue,
    expiresUnixMs: 0,
  };
}

/** A subscription as it is stored. */
export const encodeSubscription = (subscription: Subscription): Uint8Array =>
  encodeToBuffer(SubscriptionMessage, subscriptionMessage(subscription));

export function decodeSubscription(bytes: Uint8Array): Subscription {
  const { topic, queue, filter, ttlMs, deleteQueue } = SubscriptionMessage.decode(bytes);
  return {
    topic: parseQueueName(topic),
    queue: parseQueueName(queue),
    filter: filterOf(filter),
    ttlMs: ttlMs === 0 ? undefined : ttlMs,
    deleteQueue,
  };
}

export const filterOf = (filter: FilterMessage | undefined): HeaderFilter =>
  filter?.all.flatMap(({ key, test }): HeaderTest[] => {
    if (test === undefined) return [];
    switch (test.$case) {
      case 'in':
        return [{ kind: 'in', key, values: test.value.values }];
      case 'prefix':
        return [{ kind: 'prefix', key, prefix: test.value }];
      case 'exists':
        return [{ kind: 'exists', key, exists: test.value }];
      default:
        return test satisfies never;
    }
  }) ?? [];

function testMessage(test: HeaderTest): TestMessage {
  const { key } = test;
  switch (test.kind) {
    case 'in':
      return { key, test: { $case: 'in', value: { values: [...test.values] } } };
    case 'prefix':
      return { key, test: { $case: 'prefix', value: test.prefix } };
    case 'exists':
      return { key, test: { $case: 'exists', value: test.exists } };
    default:
      return test satisfies never;
  }
}
