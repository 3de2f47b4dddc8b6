import { type EnqueueResult, ItemKind, type QueueName, type Reason } from '@taskmaster/proto';
import {
  ByteReader,
  ByteWriter,
  type EnqueueOutcome,
  type Instant,
  latin1Of,
  type Pid,
  Refusal,
  type RefusedItem,
  UnreadableBytesError,
  type UpdateCommand,
  type UpdateOutcome,
  UpdateRefusal,
  type UpdateResult,
} from '@taskmaster/server/domain';

/** One update that was applied. */
const ONE = 1;
/** Several updates, each applied or refused. */
const SEVERAL = 2;
const VERSIONS = [ONE, SEVERAL];
const APPLIED = 0;
const REFUSED = 1;
const NONE = 0;
/** Flag in the byte of an enqueue's result: the task was leased. */
const LEASED = 0x80;
const writer = new ByteWriter();

/**
 * Encodes the fingerprint of a request and the results that a repetition of it gets, as a latin1 string of bytes. A single result
 * is of an update that was applied. Instants are never 0, so 0 means undefined.
 */
export function encodeResults(fingerprint: number, results: readonly UpdateResult[]): string {
  const [first] = results;
  if (results.length === 1 && first?.kind === 'done') {
    writer.byte(ONE);
    writer.number(fingerprint);
    writeOutcome(first.outcome);
  } else {
    writer.byte(SEVERAL);
    writer.number(fingerprint);
    for (const result of results) {
      writer.byte(result.kind === 'done' ? APPLIED : REFUSED);
      if (result.kind === 'done') writeOutcome(result.outcome);
      else writeRefusal(result.refusal);
    }
  }
  return latin1Of(writer.view());
}

/** The results of these updates. Undefined: they were recorded for a request with another fingerprint. */
export function decodeResults(
  latin1: string,
  fingerprint: number,
  updates: readonly UpdateCommand[],
): readonly UpdateResult[] | undefined {
  const from = new ByteReader(Buffer.from(latin1, 'latin1'));
  const version = from.version(VERSIONS, 'recorded outcome');
  if (from.number() !== fingerprint) return undefined;
  return updates.map((command): UpdateResult => {
    if (version === ONE || from.byte() === APPLIED) return { kind: 'done', outcome: readOutcome(from) };
    return { kind: 'refused', refusal: readRefusal(from, command) };
  });
}

function writeOutcome({ enqueued, renewed, released }: UpdateOutcome): void {
  writer.number(enqueued.length);
  for (const { pid, result, leased } of enqueued) {
    writer.latin1(pid);
    writer.byte(leased ? result | LEASED : result);
  }
  writer.number(renewed.length);
  for (const { until } of renewed) writer.number(until);
  writer.number(released.length);
  for (const { until, deadLetterQueue } of released) {
    writer.number(until ?? NONE);
    writer.utf8(deadLetterQueue ?? '');
  }
}

function readOutcome(from: ByteReader): UpdateOutcome {
  const enqueued: EnqueueOutcome[] = [];
  for (let n = from.number(); n > 0; n--) {
    const pid = from.latin1() as Pid;
    const result = from.byte();
    enqueued.push({ pid, result: (result & ~LEASED) as EnqueueResult, leased: (result & LEASED) !== 0 });
  }
  const renewed: { until: Instant }[] = [];
  for (let n = from.number(); n > 0; n--) renewed.push({ until: from.number() as Instant });
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

function readRefusal(from: ByteReader, command: UpdateCommand): Refusal {
  const items: RefusedItem[] = [];
  for (let n = from.number(); n > 0; n--) {
    const kind = from.byte() as ItemKind;
    const index = from.number();
    const named = itemsOf(command, kind)[index];
    if (named === undefined)
      throw new UnreadableBytesError('a recorded refusal names an item that the request does not have');
    const { queue, pid = '' as Pid } = named;
    items.push({ kind, index, queue, pid, reason: from.utf8() as Reason, message: from.utf8() });
  }
  const [first, ...more] = items;
  if (first !== undefined) return new UpdateRefusal([first, ...more]);
  const { reason, message, ...options } = JSON.parse(from.utf8());
  return new Refusal(reason, message, options);
}

function itemsOf(
  { enqueue, dequeue, renew, release }: UpdateCommand,
  kind: ItemKind,
): readonly { readonly queue: QueueName; readonly pid: Pid | undefined }[] {
  if (kind === ItemKind.ITEM_KIND_ENQUEUE) return enqueue;
  if (kind === ItemKind.ITEM_KIND_DEQUEUE) return dequeue;
  return kind === ItemKind.ITEM_KIND_RENEW ? renew : release;
}
