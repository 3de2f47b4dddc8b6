import { crc32 } from 'node:zlib';
import { ByteWriter } from '../domain/bytes.ts';
import type { BatchCommand, EnqueueItem, TaskItem, UpdateEnd } from '../domain/commands.ts';
import type { RetryPolicy, TaskGiven } from '../domain/task.ts';

/** Payloads up to this size are copied and summed with the rest, which is cheaper than a call for each. */
const SMALL_BYTES = 4096;
const writer = new ByteWriter();

/**
 * A 32-bit checksum over a whole request, of one update or several. It tells a repeated request from a different one with the
 * same id. It finds mistakes and does not stop attacks: a client that knows the id may send the request anyway.
 */
export function fingerprintOf({ group, enqueue, dequeue, renew, release, updates }: BatchCommand): number {
  let sum = 0;
  writer.utf8(group);
  for (const list of [enqueue, dequeue, renew, release]) writer.number(list.length);
  for (const item of enqueue) {
    writeEnqueue(item);
    if (item.data.byteLength <= SMALL_BYTES) writer.blob(item.data);
    else sum = crc32(item.data, crc32(writer.view(), sum));
  }
  for (const item of dequeue) {
    writeItem(item);
    if (item.requeue) writer.byte(1);
    if (item.cancelReason !== undefined) writer.utf8(item.cancelReason);
    if (item.result === undefined) continue;
    writer.number(item.result.keepMs ?? 0);
    writer.number(item.result.data.byteLength);
    sum = crc32(item.result.data, crc32(writer.view(), sum));
  }
  for (const item of renew) {
    writeItem(item);
    writer.number(item.leaseDurationMs);
    if (item.progress !== undefined) writer.utf8(item.progress);
    if (item.checkpoint !== undefined) writer.blob(item.checkpoint);
    if (item.begun !== undefined) writer.number(item.begun);
  }
  for (const item of release) {
    writeItem(item);
    writeOptional(item.delayMs);
    const { refundAttempt, interrupted, deadLetter, error, waiting, runAt } = item;
    writer.byte(
      (refundAttempt ? 1 : 0) |
        (deadLetter ? 2 : 0) |
        (error ? 4 : 0) |
        (waiting ? 8 : 0) |
        (runAt === undefined ? 0 : 16) |
        (interrupted ? 32 : 0),
    );
    if (runAt !== undefined) writer.number(runAt);
    if (item.error) {
      writer.utf8(item.error.message);
      writer.utf8(item.error.details);
    }
  }
  if (updates.length > 1) writer.number(divisionOf(updates));
  return crc32(writer.view(), sum);
}

/** A 32-bit hash of where the updates of a batch end. */
function divisionOf(updates: readonly UpdateEnd[]): number {
  let hash = updates.length;
  for (const { enqueue, dequeue, renew, release } of updates) {
    hash = Math.imul(hash ^ enqueue, 0x01000193);
    hash = Math.imul(hash ^ dequeue, 0x01000193);
    hash = Math.imul(hash ^ renew, 0x01000193);
    hash = Math.imul(hash ^ release, 0x01000193);
  }
  return hash >>> 0;
}

function writeEnqueue({
  queue,
  isPublished,
  pid,
  key,
  data,
  headerBytes,
  mode,
  delayMs,
  runAt,
  retry,
  given,
  start,
  waitFor,
  links,
  signalId,
}: EnqueueItem): void {
  writer.utf8(queue.name);
  if (isPublished) writer.utf8('published');
  writer.latin1(pid ?? '');
  writer.byte(mode);
  writer.number(delayMs);
  if (runAt !== undefined) writer.number(runAt);
  writer.number(data.byteLength);
  if (headerBytes > 0) writer.number(headerBytes);
  if (key !== undefined) writer.utf8(key);
  writeRetry(retry);
  if (given !== undefined) writeGiven(given);
  if (waitFor !== undefined) writer.utf8(`waits ${JSON.stringify(waitFor)}`);
  if (links !== undefined) writer.utf8(`links ${JSON.stringify(links)}`);
  if (signalId !== undefined) writer.utf8(`signal ${signalId}`);
  if (start === undefined) return;
  writer.utf8('by' in start ? 'start by' : 'start within');
  writer.number('by' in start ? start.by : start.withinMs);
}

/** Writes only what is given, so that a request has the same checksum in builds that know more fields. */
function writeGiven(given: TaskGiven): void {
  for (const [name, value] of Object.entries<string | number | undefined>({ ...given })) {
    if (value === 0 || value === '' || value === undefined) continue;
    writer.utf8(name === 'timeLimitMs' ? 'time limit' : name);
    if (typeof value === 'number') writer.number(value);
    else writer.utf8(value);
  }
}

function writeItem({ queue, pid, key, token }: TaskItem): void {
  writer.utf8(queue.name);
  writer.latin1(pid);
  if (key !== undefined) writer.utf8(key);
  writeOptional(token);
}

function writeRetry(retry: RetryPolicy | undefined): void {
  writer.byte(retry ? 1 : 0);
  if (!retry) return;
  writer.number(retry.maxAttempts);
  writer.number(retry.backoffInitialMs);
  writer.number(retry.backoffMaxMs);
  writer.utf8(retry.deadLetterQueue);
}

function writeOptional(value: number | undefined): void {
  writer.byte(value === undefined ? 0 : 1);
  if (value !== undefined) writer.number(value);
}
