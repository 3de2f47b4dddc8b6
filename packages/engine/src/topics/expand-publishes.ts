import { EnqueueResult, formatQueueName, ItemKind, limits, type QueueName } from '@taskmaster/proto';
import { BATCH_START, eachResult } from '../domain/batches.ts';
import type { BatchCommand, BatchOutcome, EnqueueItem, EnqueueOutcome, UpdateEnd } from '../domain/commands.ts';
import type { Instant } from '../domain/ids.ts';
import { Refusal, type RefusedItem, UpdateRefusal } from '../domain/refusal.ts';

/** The queues that are subscribed to a topic. */
export interface Subscribers {
  /** Those that get the task, by name. */
  queuesOf(topic: QueueName, item: EnqueueItem, now: Instant): readonly QueueName[];
  /** How many filters that looks at. */
  filtersOf(topic: QueueName): number;
}

/** What an enqueue of the request has become. */
interface Source {
  readonly item: EnqueueItem;
  /** The queues that get the task. Undefined: it is not published. */
  readonly queues: readonly QueueName[] | undefined;
}

/** A batch whose published tasks are enqueues in the queues that are subscribed at this instant. */
export interface Expansion {
  readonly batch: BatchCommand;
  /** Updates that publish too much, by their end in the expanded batch. */
  readonly refusals: ReadonlyMap<UpdateEnd, Refusal>;
  /** The outcome of the request, from that of the expanded batch. */
  fold(outcome: BatchOutcome): BatchOutcome;
}

/** Tasks that one turn may publish. More would delay other callers. */
const MOST_TASKS = limits.updateItems;
/** An update publishes at most this part of the bytes in flight, so that there is room for it beside other work. */
const IN_FLIGHT_PART = 0.5;
/** Approximate memory of a task that is published into a queue, beside its payload, until it is answered, in bytes. */
const COPY_BYTES = 512;
/** Numbers, tags and lengths of the outcome of a task, in bytes, and its PID if the queue assigns it. */
const OUTCOME_BYTES = 16;
const ASSIGNED_PID_BYTES = 16;
const RETRY_DELAY_MS = 1;
const NO_QUEUES: readonly QueueName[] = [];

/** Where publications go, and how many bytes they may have. */
export interface PublishRules {
  readonly subscribers: Subscribers;
  /** Bound of the work in flight, in bytes. */
  readonly maxInFlightBytes: number;
}

/** An update of a batch at an instant. */
interface PublishingUpdate {
  readonly end: UpdateEnd;
  readonly sources: readonly Source[];
  /** It publishes too much. */
  readonly refusal: Refusal | undefined;
}

export function expandPublishes(batch: BatchCommand, rules: PublishRules, now: Instant): Expansion {
  const enqueue: EnqueueItem[] = [];
  const updates: UpdateEnd[] = [];
  const refusals = new Map<UpdateEnd, Refusal>();
  const all = publishingUpdates(batch, rules, now);
  for (const { end, sources, refusal } of all) {
    // A refused update enqueues nothing.
    if (refusal === undefined) for (const source of sources) enqueue.push(...expanded(source));
    const expandedEnd = { ...end, enqueue: enqueue.length };
    if (refusal !== undefined) refusals.set(expandedEnd, refusal);
    updates.push(expandedEnd);
  }
  const expandedBatch = { ...batch, enqueue, updates };
  const sources = all.map((update) => update.sources);
  return { batch: expandedBatch, refusals, fold: (outcome) => fold(expandedBatch, sources, outcome) };
}

/** Approximate memory of the tasks that a batch publishes now, in bytes. It needs little memory itself. */
export function publishedWeight(batch: BatchCommand, rules: PublishRules, now: Instant): number {
  let bytes = 0;
  for (const { sources, refusal } of publishingUpdates(batch, rules, now)) {
    if (refusal !== undefined) continue;
    for (const { item, queues } of sources) {
      const copyBytes = COPY_BYTES + (item.pid?.length ?? 0) + (item.key?.length ?? 0) + item.data.byteLength;
      bytes += (queues?.length ?? 0) * copyBytes;
    }
  }
  return bytes;
}

function publishingUpdates(
  batch: BatchCommand,
  { subscribers, maxInFlightBytes }: PublishRules,
  now: Instant,
): PublishingUpdate[] {
  const mostBytes = Math.min(limits.publishedBytes, Math.floor(maxInFlightBytes * IN_FLIGHT_PART));
  const plain = batch.enqueue.filter(({ isPublished }) => !isPublished);
  const total = {
    tasks: 0,
    bytes: 0,
    looks: 0,
    outcomeBytes: plain.reduce((sum, item) => sum + outcomeBytes(item), 0),
  };
  let start = BATCH_START;
  return batch.updates.map((end) => {
    const items = batch.enqueue.slice(start.enqueue, end.enqueue);
    start = end;
    const tooMany = refusalOfLooks(items, subscribers, total);
    const sources = items.map(
      (item): Source => ({
        item,
        queues: !item.isPublished
          ? undefined
          : tooMany === undefined
            ? subscribers.queuesOf(item.queue, item, now)
            : NO_QUEUES,
      }),
    );
    return { end, sources, refusal: tooMany ?? refusalOf(sources, total, mostBytes) };
  });
}

/** The refusal of an update whose publications many filters would have to look at. */
function refusalOfLooks(
  items: readonly EnqueueItem[],
  subscribers: Subscribers,
  total: { looks: number },
): Refusal | undefined {
  let looks = 0;
  for (const { isPublished, queue } of items) if (isPublished) looks += subscribers.filtersOf(queue);
  const { filterLooks: most } = limits;
  if (looks > most) {
    const problem = `the update would look at ${looks} filters of subscriptions, counted for each task: at most ${most}`;
    return new Refusal('TOO_MANY_ITEMS', problem, {
      metadata: { field: 'update', value: String(looks), limit: String(most) },
    });
  }
  if (looks > 0 && total.looks + looks > most) return tooMuchInTurn();
  total.looks += looks;
  return undefined;
}

function* expanded({ item, queues }: Source): Generator<EnqueueItem> {
  if (queues === undefined) yield item;
  else for (const queue of queues) yield { ...item, queue, isPublished: false };
}

/** The refusal of an update that publishes too much. Otherwise its tasks and bytes are added to those of the turn. */
function refusalOf(
  sources: readonly Source[],
  total: { tasks: number; bytes: number; outcomeBytes: number },
  mostBytes: number,
): Refusal | undefined {
  let tasks = 0;
  let bytes = 0;
  let publishes = false;
  let plainOutcomeBytes = 0;
  let publishedOutcomeBytes = 0;
  for (const { item, queues } of sources) {
    tasks += queues?.length ?? 1;
    if (queues === undefined) {
      plainOutcomeBytes += outcomeBytes(item);
      continue;
    }
    publishes = true;
    bytes += queues.length * item.data.byteLength;
    publishedOutcomeBytes += outcomeBytes(item);
    for (const queue of queues) publishedOutcomeBytes += outcomeBytes(item) + nameBytes(queue);
  }
  if (!publishes) return undefined;
  if (tasks > MOST_TASKS) {
    return new Refusal('TOO_MANY_ITEMS', `the update would enqueue ${tasks} tasks, with those that it publishes`, {
      metadata: { field: 'update', value: String(tasks), limit: String(MOST_TASKS) },
    });
  }
  if (bytes > mostBytes) {
    const problem = `the update would publish ${bytes} bytes, counted for each queue: this node takes at most ${mostBytes}`;
    return new Refusal('REQUEST_TOO_LARGE', problem, {
      metadata: { field: 'update', value: String(bytes), limit: String(mostBytes) },
    });
  }
  const allOutcomeBytes = plainOutcomeBytes + publishedOutcomeBytes;
  const { publishedOutcomeBytes: most } = limits;
  if (allOutcomeBytes > most) {
    const problem = `the names of queues and the PIDs in the outcome would have ${allOutcomeBytes} bytes: at most ${most}. Publish fewer tasks in one update`;
    return new Refusal('REQUEST_TOO_LARGE', problem, {
      metadata: { field: 'update', value: String(allOutcomeBytes), limit: String(most) },
    });
  }
  const isTooMuch =
    total.tasks + tasks > MOST_TASKS ||
    total.bytes + bytes > mostBytes ||
    // The tasks that are not published are in the total already.
    total.outcomeBytes + publishedOutcomeBytes > most;
  if (isTooMuch) return tooMuchInTurn();
  total.outcomeBytes += publishedOutcomeBytes;
  total.tasks += tasks;
  total.bytes += bytes;
  return undefined;
}

const outcomeBytes = ({ pid }: EnqueueItem): number => OUTCOME_BYTES + (pid?.length ?? ASSIGNED_PID_BYTES);
const nameBytes = (queue: QueueName): number => Buffer.byteLength(formatQueueName(queue));

const tooMuchInTurn = (): Refusal =>
  new Refusal('OVERLOADED', 'the updates before this one publish as much as one turn may', {
    retryDelayMs: RETRY_DELAY_MS,
  });

function fold(batch: BatchCommand, sources: readonly (readonly Source[])[], outcome: BatchOutcome): BatchOutcome {
  const enqueued: EnqueueOutcome[] = [];
  const refusals = new Map<number, Refusal>();
  eachResult(
    batch,
    outcome,
    (index, from) => {
      let at = from.enqueue;
      for (const { item, queues } of sources[index] ?? []) {
        if (queues === undefined) {
          enqueued.push(outcomeAt(outcome, at++));
          continue;
        }
        const published = queues.map((queue) => ({ queue, ...outcomeAt(outcome, at++) }));
        const pid = item.pid ?? NO_PID;
        enqueued.push({ pid, result: EnqueueResult.ENQUEUE_RESULT_PUBLISHED, leased: false, published });
      }
    },
    (index, refusal) => refusals.set(index, foldedRefusal(refusal, sources[index] ?? [])),
  );
  return { ...outcome, enqueued, refusals };
}

const NO_PID = '' as EnqueueOutcome['pid'];

function outcomeAt({ enqueued }: BatchOutcome, at: number): EnqueueOutcome {
  const outcome = enqueued[at];
  if (outcome === undefined) throw new RangeError(`there is no outcome of the expanded enqueue ${at}`);
  return outcome;
}

/** The refusal with the items of the request. An item that is refused in several queues is named once. */
function foldedRefusal(refusal: Refusal, sources: readonly Source[]): Refusal {
  if (!(refusal instanceof UpdateRefusal)) return refusal;
  /** Indexes of the request's enqueues, by those of the enqueues that they have become. */
  const origins: number[] = [];
  for (const [index, { queues }] of sources.entries()) {
    for (let copies = queues?.length ?? 1; copies > 0; copies--) origins.push(index);
  }
  const named = new Set<number>();
  const folded: RefusedItem[] = [];
  for (const refused of refusal.items) {
    if (refused.kind !== ItemKind.ITEM_KIND_ENQUEUE) {
      folded.push(refused);
      continue;
    }
    const index = origins[refused.index] ?? refused.index;
    if (named.has(index)) continue;
    named.add(index);
    const source = sources[index];
    const published = source?.queues === undefined ? undefined : source.item.queue;
    const where = published === undefined ? '' : ` ${formatQueueName(refused.queue)}`;
    folded.push({ ...refused, index, queue: published ?? refused.queue, message: `${refused.message}${where}` });
  }
  const [first, ...more] = folded;
  return first === undefined ? refusal : new UpdateRefusal([first, ...more]);
}
