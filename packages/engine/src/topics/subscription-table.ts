import type { QueueName } from '@taskmaster/proto';
import type { TaskChange } from '../domain/atom.ts';
import { ByteWriter, latin1Of } from '../domain/bytes.ts';
import type { EnqueueItem } from '../domain/commands.ts';
import { headersOf, type TaskHeaders } from '../domain/headers.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { LONG_AGO, NEVER, type Visibility } from '../domain/task.ts';
import {
  decodeSubscription,
  type ShownSubscription,
  type Subscription,
  type SubscriptionKey,
  testOf,
} from '../domain/topics.ts';
import type { RecordRows } from '../log/records.ts';
import type { Queue } from '../queues/queue.ts';
import type { RecordsInMemory } from '../records/record-table.ts';
import type { Subscribers } from './expand-publishes.ts';

/** A subscription in memory. */
interface Kept {
  readonly subscription: Subscription;
  readonly passes: (headers: TaskHeaders) => boolean;
  /** Until when its record is hidden. */
  until: Instant | undefined;
}

interface OfTopic {
  /** In the order of their queues. */
  readonly all: Kept[];
  /** How many have a filter. */
  filters: number;
}

interface OfGroup {
  readonly byPid: Map<Pid, Kept>;
  /** By topic. Undefined: to be made again. */
  byTopic: Map<string, OfTopic> | undefined;
}

const writer = new ByteWriter();

/** The key of the record of a subscription. */
export function subscriptionPid({ topic, queue }: SubscriptionKey): Pid {
  writer.utf8(topic.name);
  writer.utf8(queue.name);
  return latin1Of(writer.view()) as Pid;
}

/**
 * The subscriptions of all groups, which are records of their groups. The record of one with a time to live is hidden until its
 * end, so its end moves with the clocks like a delay. From then on it gets nothing, whether or not a sweep has removed it.
 */
export class SubscriptionTable implements RecordsInMemory, Subscribers {
  readonly #byGroup = new Map<string, OfGroup>();
  /** No subscription ends before this instant. */
  #earliest = NEVER;

  queuesOf(topic: QueueName, item: EnqueueItem, now: Instant): readonly QueueName[] {
    // Decoded only if a filter looks at them.
    let headers: TaskHeaders | undefined;
    const passes = ({ subscription: { filter }, passes }: Kept): boolean => {
      if (filter.length === 0) return true;
      headers ??= headersOf(item);
      return passes(headers);
    };
    return this.#ofTopic(topic)
      .all.filter((one) => !hasEnded(one, now) && passes(one))
      .map(({ subscription: { queue } }) => queue);
  }

  /** Number of queues that are subscribed to a topic. Some may not get a task, because of their filters or because they end. */
  countOf(topic: QueueName): number {
    return this.#ofTopic(topic).all.length;
  }

  filtersOf(topic: QueueName): number {
    return this.#ofTopic(topic).filters;
  }

  /** A subscription that has not ended. */
  find(key: SubscriptionKey, now: Instant): ShownSubscription | undefined {
    const kept = this.#byGroup.get(key.topic.group)?.byPid.get(subscriptionPid(key));
    return kept === undefined || hasEnded(kept, now) ? undefined : shown(kept);
  }

  /** A subscription that has ended and whose record is still there. */
  findEnded(key: SubscriptionKey, now: Instant): ShownSubscription | undefined {
    const kept = this.#byGroup.get(key.topic.group)?.byPid.get(subscriptionPid(key));
    return kept !== undefined && hasEnded(kept, now) ? shown(kept) : undefined;
  }

  /** True if the queue is subscribed to another topic. */
  hasOther({ topic, queue }: SubscriptionKey, now: Instant): boolean {
    for (const one of this.#byGroup.get(topic.group)?.byPid.values() ?? []) {
      const { subscription: other } = one;
      if (other.queue.name === queue.name && other.topic.name !== topic.name && !hasEnded(one, now)) return true;
    }
    return false;
  }

  /** The subscriptions of a topic, or of all topics of a group, that have not ended, in order. */
  list(group: string, topic: QueueName | undefined, now: Instant): ShownSubscription[] {
    const kept = topic === undefined ? [...(this.#byGroup.get(group)?.byPid.values() ?? [])] : this.#ofTopic(topic).all;
    return kept
      .filter((one) => !hasEnded(one, now))
      .map(shown)
      .sort((a, b) => compare(a.topic.name, b.topic.name) || compare(a.queue.name, b.queue.name));
  }

  /** None ends before this instant. */
  get earliest(): Instant {
    return this.#earliest;
  }

  /** Subscriptions whose records are still there, although they have ended. */
  ended(now: Instant): SubscriptionKey[] {
    if (now < this.#earliest) return [];
    const ended: SubscriptionKey[] = [];
    let earliest = NEVER;
    for (const { byPid } of this.#byGroup.values()) {
      for (const kept of byPid.values()) {
        if (hasEnded(kept, now)) ended.push(kept.subscription);
        else if (kept.until !== undefined && kept.until < earliest) earliest = kept.until;
      }
    }
    // What has ended is looked at again until it is removed.
    this.#earliest = ended.length > 0 ? now : earliest;
    return ended;
  }

  adopt({ ledger }: Queue, rows: RecordRows): void {
    const byPid = new Map(
      [...rows].map(([pid, { data, hidden }]) => [pid, kept(data, hidden && untilOf(hidden.visibility))] as const),
    );
    for (const one of byPid.values()) this.#noteEnd(one);
    this.#byGroup.set(ledger.name.group, { byPid, byTopic: undefined });
  }

  changed({ ledger }: Queue, change: TaskChange): void {
    const { group } = ledger.name;
    const of = this.#byGroup.get(group) ?? { byPid: new Map<Pid, Kept>(), byTopic: undefined };
    this.#byGroup.set(group, of);
    if (change.kind === 'dequeue') {
      of.byPid.delete(change.pid);
      of.byTopic = undefined;
      return;
    }
    const until = untilOf(change.after.visibility);
    let one = of.byPid.get(change.pid);
    if (change.data !== undefined) {
      one = kept(change.data, until);
      of.byPid.set(change.pid, one);
      of.byTopic = undefined;
    } else if (one !== undefined) one.until = until;
    if (one !== undefined) this.#noteEnd(one);
  }

  forget({ ledger }: Queue): void {
    this.#byGroup.delete(ledger.name.group);
  }

  /** One whose record is shown has ended, whatever has shown it. */
  #noteEnd({ subscription: { ttlMs }, until = LONG_AGO }: Kept): void {
    if (ttlMs !== undefined && until < this.#earliest) this.#earliest = until;
  }

  #ofTopic({ group, name }: QueueName): Readonly<OfTopic> {
    const of = this.#byGroup.get(group);
    if (of === undefined) return NONE;
    of.byTopic ??= byTopic(of.byPid.values());
    return of.byTopic.get(name) ?? NONE;
  }
}

const NONE: Readonly<OfTopic> = { all: [], filters: 0 };

function byTopic(all: Iterable<Kept>): Map<string, OfTopic> {
  const sorted = [...all].sort((a, b) => compare(a.subscription.queue.name, b.subscription.queue.name));
  const topics = new Map<string, OfTopic>();
  for (const one of sorted) {
    const { topic, filter } = one.subscription;
    const of = topics.get(topic.name) ?? { all: [], filters: 0 };
    topics.set(topic.name, of);
    of.all.push(one);
    if (filter.length > 0) of.filters++;
  }
  return topics;
}

function kept(data: Uint8Array, until: Instant | undefined): Kept {
  const subscription = decodeSubscription(data);
  return { subscription, passes: testOf(subscription.filter), until };
}

/** The record of one that ends is hidden until its end, and may be shown later. */
const hasEnded = ({ subscription: { ttlMs }, until }: Kept, now: Instant): boolean =>
  ttlMs !== undefined && (until === undefined || until <= now);

const shown = ({ subscription, until }: Kept): ShownSubscription => ({ ...subscription, until });

const untilOf = (visibility: Visibility): Instant | undefined =>
  visibility.kind === 'hidden' ? visibility.until : undefined;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
