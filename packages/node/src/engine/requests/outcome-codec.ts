import type { EnqueueResult } from '@taskmaster/proto';
import {
  ByteReader,
  ByteWriter,
  type EnqueueOutcome,
  type Instant,
  latin1Of,
  type Pid,
  type UpdateOutcome,
} from '@taskmaster/server/domain';

const VERSION = 1;
const NONE = 0;
/** Flag in the byte of an enqueue's result: the task was leased. */
const LEASED = 0x80;
const writer = new ByteWriter();

/**
 * Encodes the fingerprint of a request and the outcome that a repetition of it gets, as a latin1 string of bytes. Instants are
 * never 0, so 0 means undefined.
 */
export function encodeOutcome(fingerprint: number, outcome: UpdateOutcome): string {
  writer.byte(VERSION);
  writer.number(fingerprint);
  writer.number(outcome.enqueued.length);
  for (const { pid, result, leased } of outcome.enqueued) {
    writer.latin1(pid);
    writer.byte(leased ? result | LEASED : result);
  }
  writer.number(outcome.renewed.length);
  for (const { until } of outcome.renewed) writer.number(until);
  writer.number(outcome.released.length);
  for (const { until, deadLetterQueue } of outcome.released) {
    writer.number(until ?? NONE);
    writer.utf8(deadLetterQueue ?? '');
  }
  return latin1Of(writer.view());
}

export function decodeOutcome(latin1: string): { fingerprint: number; outcome: UpdateOutcome } {
  const from = new ByteReader(Buffer.from(latin1, 'latin1'));
  from.version(VERSION, 'recorded outcome');
  const fingerprint = from.number();
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
  return { fingerprint, outcome: { enqueued, renewed, released } };
}
