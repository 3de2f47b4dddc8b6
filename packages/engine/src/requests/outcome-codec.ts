import { EnqueueResult, ItemKind, type QueueName, type Reason } from '@taskmaster/proto';
import { BATCH_START } from '../domain/batches.ts';
import { ByteReader, ByteWriter, latin1Of, UnreadableBytesError } from '../domain/bytes.ts';
import type {
  BatchCommand,
  BatchOutcome,
  EnqueueOutcome,
  PublishedTask,
  RenewOutcome,
  UpdateEnd,
  UpdateOutcome,
} from '../domain/commands.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { Refusal, type RefusedItem, UpdateRefusal } from '../domain/refusal.ts';

/** All updates were applied. */
const APPLIED = 1;
/** Some updates were refused. */
const PARTLY_REFUSED = 2;
/** Flag: some renewals were told that their tasks are cancelled. */
const WITH_CANCELLATIONS = 4;
const VERSIONS = [APPLIED, PARTLY_REFUSED, APPLIED | WITH_CANCELLATIONS, PARTLY_REFUSED | WITH_CANCELLATIONS];
const NONE = 0;
/** Flag in the byte of an enqueue's result: the task was leased. */
const LEASED = 0x80;
const writer = new ByteWriter();

/**
 * Encodes the fingerprint of a request and the outcome that a repetition of it gets, as a latin1 string of bytes. Instants are
 * never 0, so 0 means undefined.
 */
export function encodeOutcome(fingerprint: number, outcome: BatchOutcome): string {
  const { refusals } = outcome;
  const cancellations = outcome.renewed.filter(({ cancelReason }) => cancelReason !== undefined).length;
  const applied = refusals.size === 0 ? APPLIED : PARTLY_REFUSED;
  writer.byte(cancellations === 0 ? applied : applied | WITH_CANCELLATIONS);
  writer.number(fingerprint);
  writeOutcome(outcome);
  if (refusals.size > 0) {
    writer.number(refusals.size);
    for (const [index, refusal] of refusals) {
      writer.number(index);
      writeRefusal(refusal);
    }
  }
  if (cancellations > 0) writeCancellations(cancellations, outcome);
  return latin1Of(writer.view());
}

/** The recorded outcome of this batch. Undefined: it was recorded for a request with another fingerprint. */
export function decodeOutcome(latin1: string, fingerprint: number, batch: BatchCommand): BatchOutcome | undefined {
  const from = new ByteReader(Buffer.from(latin1, 'latin1'));
  const version = from.version(VERSIONS, 'recorded outcome');
  if (from.number() !== fingerprint) return undefined;
  const outcome = readOutcome(from, batch.group);
  const refusals = new Map<number, Refusal>();
  for (let n = version & PARTLY_REFUSED ? from.number() : 0; n > 0; n--) {
    const index = from.number();
    refusals.set(index, readRefusal(from, batch, batch.updates[index - 1] ?? BATCH_START));
  }
  const renewed = version & WITH_CANCELLATIONS ? readCancellations(from, outcome) : outcome.renewed;
  return { ...outcome, renewed, refusals };
}

function writeCancellations(count: number, { renewed }: UpdateOutcome): void {
  writer.number(count);
  for (const [index, { cancelReason }] of renewed.entries()) {
    if (cancelReason === undefined) continue;
    writer.number(index);
    writer.utf8(cancelReason);
  }
}

function readCancellations(from: ByteReader, outcome: UpdateOutcome): RenewOutcome[] {
  const renewed = [...outcome.renewed];
  for (let n = from.number(); n > 0; n--) {
    const index = from.number();
    const cancelReason = from.utf8();
    const renewal = renewed[index];
    if (renewal === undefined) throw new UnreadableBytesError('a recorded cancellation is of no renewal');
    renewed[index] = { ...renewal, cancelReason };
  }
  return renewed;
}

function writeOutcome({ enqueued, renewed, released }: UpdateOutcome): void {
  writer.number(enqueued.length);
  for (const outcome of enqueued) {
    writeEnqueued(outcome);
    if (outcome.published === undefined) continue;
    writer.number(outcome.published.length);
    for (const task of outcome.published) {
      writer.utf8(task.queue.name);
      writeEnqueued(task);
    }
  }
  writer.number(renewed.length);
  for (const { until } of renewed) writer.number(until);
  writer.number(released.length);
  for (const { until, deadLetterQueue } of released) {
    writer.number(until ?? NONE);
    writer.utf8(deadLetterQueue ?? '');
  }
}

function writeEnqueued({ pid, result, leased }: EnqueueOutcome): void {
  writer.latin1(pid);
  writer.byte(leased ? result | LEASED : result);
}

function readEnqueued(from: ByteReader): EnqueueOutcome {
  const pid = from.latin1() as Pid;
  const result = from.byte();
  return { pid, result: (result & ~LEASED) as EnqueueResult, leased: (result & LEASED) !== 0 };
}

function readPublished(from: ByteReader, group: string): PublishedTask[] {
  const published: PublishedTask[] = [];
  for (let n = from.number(); n > 0; n--) {
    const queue = { group, name: from.utf8() };
    published.push({ queue, ...readEnqueued(from) });
  }
  return published;
}

function readOutcome(from: ByteReader, group: string): UpdateOutcome {
  const enqueued: EnqueueOutcome[] = [];
  for (let n = from.number(); n > 0; n--) {
    const outcome = readEnqueued(from);
    const isPublished = outcome.result === EnqueueResult.ENQUEUE_RESULT_PUBLISHED;
    enqueued.push(isPublished ? { ...outcome, published: readPublished(from, group) } : outcome);
  }
  const renewed: RenewOutcome[] = [];
  for (let n = from.number(); n > 0; n--) renewed.push({ until: from.number() as Instant, cancelReason: undefined });
  const released: { until: Instant | undefined; deadLetterQueue: string | undefined }[] = [];
  for (let n = from.number(); n > 0; n--) {
    const until = from.number();
    const deadLetterQueue = from.utf8();
    released.push({
      until: until === NONE ? undefined : (until as Instant),
      deadLetterQueue: deadLetterQueue === '' ? undefined : deadLetterQueue,
    });
  }
  return { enqueued, renewed, released };
}

/** A refused item is recorded without its queue and PID: the repeated request has them. */
function writeRefusal(refusal: Refusal): void {
  const { reason, message, metadata, retryDelayMs } = refusal;
  const items = refusal instanceof UpdateRefusal ? refusal.items : [];
  writer.number(items.length);
  for (const item of items) {
    writer.byte(item.kind);
    writer.number(item.index);
    writer.utf8(item.reason);
    writer.utf8(item.message);
  }
  if (items.length === 0) writer.utf8(JSON.stringify({ reason, message, metadata, retryDelayMs }));
}

function readRefusal(from: ByteReader, batch: BatchCommand, start: UpdateEnd): Refusal {
  const items: RefusedItem[] = [];
  for (let n = from.number(); n > 0; n--) {
    const kind = from.byte() as ItemKind;
    const index = from.number();
    const named = itemAt(batch, start, kind, index);
    if (named === undefined)
      throw new UnreadableBytesError('a recorded refusal names an item that the request does not have');
    const { queue, pid = '' as Pid } = named;
    const key = pid === '' ? named.key : undefined;
    items.push({ kind, index, queue, pid, key, reason: from.utf8() as Reason, message: from.utf8() });
  }
  const [first, ...more] = items;
  if (first !== undefined) return new UpdateRefusal([first, ...more]);
  const { reason, message, ...options } = JSON.parse(from.utf8());
  return new Refusal(reason, message, options);
}

function itemAt(
  { enqueue, dequeue, renew, release }: BatchCommand,
  start: UpdateEnd,
  kind: ItemKind,
  index: number,
): { readonly queue: QueueName; readonly pid: Pid | undefined; readonly key?: string | undefined } | undefined {
  if (kind === ItemKind.ITEM_KIND_ENQUEUE) return enqueue[start.enqueue + index];
  if (kind === ItemKind.ITEM_KIND_DEQUEUE) return dequeue[start.dequeue + index];
  return kind === ItemKind.ITEM_KIND_RENEW ? renew[start.renew + index] : release[start.release + index];
}
