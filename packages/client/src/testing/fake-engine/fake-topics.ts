import {
  type Enqueue,
  formatQueueName,
  type HeaderTest,
  type ListSubscriptionsRequest,
  type ListSubscriptionsResponse,
  parseQueueName,
  type SubscribeRequest,
  type SubscribeResponse,
  type Subscription,
  type UnsubscribeRequest,
} from '@taskmaster/proto';
import type { Timing } from '../../transport/timing.ts';

/** The subscriptions of the fake engine. Names and filters are not checked. */
export class FakeTopics {
  readonly #timing: Timing;
  #subscriptions: readonly Subscription[] = [];

  constructor(timing: Timing) {
    this.#timing = timing;
  }

  subscribe(request: SubscribeRequest): SubscribeResponse {
    const created = this.end(request) === undefined;
    const expiresUnixMs = request.ttlMs === 0 ? 0 : Math.round(this.#timing.now() + request.ttlMs);
    const others = this.#current().filter((other) => !isSame(other, request));
    const sorted = [...others, { ...request, expiresUnixMs }].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    this.#subscriptions = sorted;
    return { created, expiresUnixMs };
  }

  /** The subscription that is there no longer. */
  end(key: UnsubscribeRequest): Subscription | undefined {
    const found = this.#current().find((other) => isSame(other, key));
    this.#subscriptions = this.#subscriptions.filter((other) => other !== found);
    return found;
  }

  list({ topic }: ListSubscriptionsRequest): ListSubscriptionsResponse {
    const { group, name } = parseQueueName(topic);
    const subscriptions = this.#current().filter((one) => {
      const of = parseQueueName(one.topic);
      return of.group === group && (name === '' || of.name === name);
    });
    return { subscriptions };
  }

  /** An enqueue for each queue that gets the task. */
  targetsOf(item: Enqueue): Enqueue[] {
    const { topic, headers } = item;
    if (topic === '') return [item];
    return this.#current()
      .filter((one) => canonical(one.topic) === canonical(topic))
      .filter(({ filter }) => (filter?.all ?? []).every((test) => passes(test, headers[test.key])))
      .map(({ queue }) => ({ ...item, queue }));
  }

  #current(): readonly Subscription[] {
    const now = this.#timing.now();
    this.#subscriptions = this.#subscriptions.filter(({ expiresUnixMs: at }) => at === 0 || at > now);
    return this.#subscriptions;
  }
}

const canonical = (name: string): string => formatQueueName(parseQueueName(name));
const keyOf = ({ topic, queue }: UnsubscribeRequest): string => `${canonical(topic)}\n${canonical(queue)}`;
const isSame = (a: UnsubscribeRequest, b: UnsubscribeRequest): boolean => keyOf(a) === keyOf(b);

function passes({ test }: HeaderTest, value: string | undefined): boolean {
  if (test?.$case === 'exists') return (value !== undefined) === test.value;
  if (value === undefined || test === undefined) return false;
  return test.$case === 'prefix' ? value.startsWith(test.value) : test.value.values.includes(value);
}
