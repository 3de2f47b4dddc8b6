import { type ByteReader, type ByteWriter, UnreadableBytesError } from './bytes.ts';
import type { Instant, LeaseToken, Pid } from './ids.ts';
import {
  AVAILABLE,
  type Failure,
  type LaneName,
  NO_PARENTS,
  NOTHING_GIVEN,
  type RetryPolicy,
  type TaskHistory,
  type TaskLinks,
  type TaskParent,
  type TaskState,
  type TaskWaits,
  type Visibility,
} from './task.ts';

const HIDDEN = 1;
const LEASED = 2;
const RETRY = 4;
/** Flag: the task became due later than it was enqueued. */
const DUE_LATER = 8;
const HISTORY = 16;
const HEADERS = 32;
const START_BY = 64;
/** Flag: further flags follow at the end. */
const MORE = 128;
/** Among these: */
const WAITS = 1;
const PARENTS = 2;
const LIMIT_KEY = 4;
const CHECKPOINT = 32;
const INTERRUPTIONS = 64;
const SUSPICION = 128;
const ORDER_KEY = 256;
const KIND = 512;
/** Of a lease. */
const SUSPECTS = 16;
/** In a history. */
const ORIGIN = 1;
const ORIGIN_RETRY = 2;
const RERUN = 4;
const PROGRESS = 8;
const KEY = 16;
const CANCELLED = 32;
const TIME_LIMIT = 64;
const ORIGIN_DIED = 128;
/** In a wait. */
const ORDER = 1;
const COLLECT = 2;
const BOX = 4;
const TIMEOUT = 8;
const TIMEOUT_REASON = 16;
const TIMEOUTS = ['run', 'dead-letter', 'cancel'] as const;
const ON_FAILURE = ['fail', 'continue', 'retry'] as const;

/** Writes flags, then only the fields that they announce. */
export function writeTaskState(out: ByteWriter, state: TaskState, history: TaskHistory | undefined): void {
  const { visibility, retry } = state;
  const lease = visibility.kind === 'hidden' ? visibility.lease : undefined;
  const isDueLater = state.dueAt !== state.enqueuedAt;
  const suspects = lease?.suspects ?? 0;
  const more = (history === undefined ? 0 : moreOf(history)) | (suspects === 0 ? 0 : SUSPECTS);
  out.byte(
    (visibility.kind === 'hidden' ? HIDDEN : 0) |
      (lease ? LEASED : 0) |
      (retry ? RETRY : 0) |
      (isDueLater ? DUE_LATER : 0) |
      (history ? HISTORY : 0) |
      (state.headerBytes > 0 ? HEADERS : 0) |
      (history?.startBy === undefined ? 0 : START_BY) |
      (more === 0 ? 0 : MORE),
  );
  out.number(state.enqueuedAt);
  if (isDueLater) out.number(state.dueAt);
  out.number(state.dataBytes);
  if (state.headerBytes > 0) out.number(state.headerBytes);
  out.number(state.attempts);
  out.number(state.token);
  if (visibility.kind === 'hidden') out.number(visibility.until);
  if (lease) {
    out.number(lease.since);
    out.utf8(lease.workerAddress);
    out.utf8(lease.worker);
  }
  if (retry) writeRetry(out, retry);
  if (history) writeHistory(out, history);
  if (history?.startBy !== undefined) out.number(history.startBy);
  if (more > 0) out.number(more);
  if (history !== undefined && more > 0) writeMore(out, history);
  if (suspects > 0) out.number(suspects);
}

const moreOf = ({ given, waits, links, checkpoint, interruptions, suspicion }: TaskHistory): number =>
  (waits ? WAITS : 0) |
  (links === undefined || links.parents.length === 0 ? 0 : PARENTS) |
  (given?.limitKey ? LIMIT_KEY : 0) |
  (given?.kind ? KIND : 0) |
  (links?.orderKey === undefined ? 0 : ORDER_KEY) |
  (checkpoint === undefined ? 0 : CHECKPOINT) |
  (interruptions === 0 ? 0 : INTERRUPTIONS) |
  (suspicion === 0 ? 0 : SUSPICION);

function writeMore(out: ByteWriter, { given, waits, links, checkpoint, interruptions, suspicion }: TaskHistory): void {
  if (waits) writeWaits(out, waits);
  if (links) writeLinks(out, links);
  if (given?.limitKey) out.utf8(given.limitKey);
  if (given?.kind) out.utf8(given.kind);
  if (checkpoint !== undefined) out.blob(checkpoint);
  if (interruptions > 0) out.number(interruptions);
  if (suspicion > 0) out.number(suspicion);
}

/** Reads what follows the flags, of a history and of a lease. */
function readMore(from: ByteReader, flags: number) {
  const waits = flags & WAITS ? readWaits(from) : undefined;
  const links = readLinks(from, flags);
  const limitKey = flags & LIMIT_KEY ? from.utf8() : '';
  const kind = flags & KIND ? from.utf8() : undefined;
  // A copy, because a view would keep the whole row or log entry in memory.
  const checkpoint = flags & CHECKPOINT ? Uint8Array.from(from.blob()) : undefined;
  const interruptions = flags & INTERRUPTIONS ? from.number() : 0;
  const suspicion = flags & SUSPICION ? from.number() : 0;
  return {
    lane: { limitKey, kind },
    past: { waits, links, checkpoint, interruptions, suspicion },
    suspects: flags & SUSPECTS ? from.number() : 0,
  };
}

function suspected(visibility: Visibility, suspects: number): Visibility {
  if (suspects === 0 || visibility.kind === 'available' || visibility.lease === undefined) return visibility;
  return { ...visibility, lease: { ...visibility.lease, suspects } };
}

function writeLinks(out: ByteWriter, { parents, orderKey, before, after }: TaskLinks): void {
  if (parents.length > 0) writeParents(out, parents);
  if (orderKey === undefined) return;
  out.utf8(orderKey);
  out.latin1(before ?? '');
  out.latin1(after ?? '');
}

function writeWaits(out: ByteWriter, { signals, order, timeout, collect, box }: TaskWaits): void {
  const reason = timeout?.reason;
  const ends = (timeout ? TIMEOUT : 0) | (reason === undefined ? 0 : TIMEOUT_REASON);
  out.byte((order ? ORDER : 0) | (collect ? COLLECT : 0) | (box ? BOX : 0) | ends);
  out.number(signals);
  if (timeout) {
    out.number(timeout.at);
    out.byte(TIMEOUTS.indexOf(timeout.action));
  }
  if (reason !== undefined) out.utf8(reason);
}

/** The tasks that wait for another one, also in the record of that one. */
export function writeParents(out: ByteWriter, parents: readonly TaskParent[]): void {
  out.number(parents.length);
  for (const { queue, pid, key, onFailure } of parents) {
    out.byte(ON_FAILURE.indexOf(onFailure) * 2 + (key === undefined ? 0 : 1));
    out.utf8(queue);
    if (key === undefined) out.latin1(pid);
    else out.utf8(key);
  }
}

export function readTaskState(from: ByteReader): TaskState {
  const flags = from.byte();
  const enqueuedAt = from.number() as Instant;
  const dueAt = flags & DUE_LATER ? (from.number() as Instant) : enqueuedAt;
  const dataBytes = from.number();
  const headerBytes = flags & HEADERS ? from.number() : 0;
  const attempts = from.number();
  const token = from.number() as LeaseToken;
  const shown = readVisibility(from, flags);
  const retry = flags & RETRY ? readRetry(from) : undefined;
  const past = flags & HISTORY ? readHistory(from) : undefined;
  const started = past && flags & START_BY ? { ...past, startBy: from.number() as Instant } : past;
  const more = flags & MORE ? readMore(from, from.number()) : undefined;
  const history = started && more ? { ...started, ...more.past, given: givenWith(started, more.lane) } : started;
  const visibility = suspected(shown, more?.suspects ?? 0);
  return { enqueuedAt, dueAt, dataBytes, headerBytes, attempts, token, retry, visibility, history };
}

function readLinks(from: ByteReader, flags: number): TaskLinks | undefined {
  if ((flags & (PARENTS | ORDER_KEY)) === 0) return undefined;
  const parents = flags & PARENTS ? readParents(from) : NO_PARENTS;
  const isOrdered = (flags & ORDER_KEY) !== 0;
  const orderKey = isOrdered ? from.utf8() : undefined;
  const before = isOrdered ? (from.latin1() as Pid) || undefined : undefined;
  const after = isOrdered ? (from.latin1() as Pid) || undefined : undefined;
  return { parents, orderKey, before, after };
}

function readWaits(from: ByteReader): TaskWaits {
  const flags = from.byte();
  const signals = from.number();
  const end = flags & TIMEOUT ? { at: from.number() as Instant, action: named(TIMEOUTS, from.byte()) } : undefined;
  const reason = flags & TIMEOUT_REASON ? from.utf8() : undefined;
  return {
    signals,
    order: (flags & ORDER) !== 0,
    timeout: end && { ...end, reason },
    collect: (flags & COLLECT) !== 0,
    box: (flags & BOX) !== 0,
  };
}

export function readParents(from: ByteReader): readonly TaskParent[] {
  const parents: TaskParent[] = [];
  for (let left = from.number(); left > 0; left--) {
    const flags = from.byte();
    const queue = from.utf8();
    const isByKey = (flags & 1) !== 0;
    const pid = isByKey ? ('' as Pid) : (from.latin1() as Pid);
    const key = isByKey ? from.utf8() : undefined;
    parents.push({ queue, pid, key, onFailure: named(ON_FAILURE, flags >>> 1) });
  }
  return parents;
}

function named<T>(names: readonly T[], code: number): T {
  const name = names[code];
  if (name === undefined) throw new UnreadableBytesError(`no name has the number ${code}`);
  return name;
}

const givenWith = ({ given }: TaskHistory, { limitKey, kind }: LaneName): TaskHistory['given'] =>
  limitKey === '' && kind === undefined ? given : { ...(given ?? NOTHING_GIVEN), limitKey, kind };

function readVisibility(from: ByteReader, flags: number): Visibility {
  if (!(flags & HIDDEN)) return AVAILABLE;
  const until = from.number() as Instant;
  if (!(flags & LEASED)) return { kind: 'hidden', until, lease: undefined };
  const since = from.number() as Instant;
  return { kind: 'hidden', until, lease: { since, workerAddress: from.utf8(), worker: from.utf8(), suspects: 0 } };
}

function writeRetry(out: ByteWriter, retry: RetryPolicy): void {
  out.number(retry.maxAttempts);
  out.number(retry.backoffInitialMs);
  out.number(retry.backoffMaxMs);
  out.utf8(retry.deadLetterQueue);
}

function readRetry(from: ByteReader): RetryPolicy {
  return {
    maxAttempts: from.number(),
    backoffInitialMs: from.number(),
    backoffMaxMs: from.number(),
    deadLetterQueue: from.utf8(),
  };
}

function writeHistory(out: ByteWriter, history: TaskHistory): void {
  const { key, given, failures, origin, rerun, progress, cancelled } = history;
  out.byte(
    (origin ? ORIGIN : 0) |
      (origin?.retry ? ORIGIN_RETRY : 0) |
      (origin?.died ? ORIGIN_DIED : 0) |
      (rerun ? RERUN : 0) |
      (progress ? PROGRESS : 0) |
      (key === undefined ? 0 : KEY) |
      (cancelled ? CANCELLED : 0) |
      (given && given.timeLimitMs > 0 ? TIME_LIMIT : 0),
  );
  if (origin) out.utf8(origin.queue);
  if (origin?.retry) writeRetry(out, origin.retry);
  if (origin?.died) {
    out.latin1(origin.died.pid);
    out.number(origin.died.at);
  }
  if (progress) {
    out.number(progress.at);
    out.utf8(progress.text);
  }
  if (key !== undefined) out.utf8(key);
  if (cancelled) {
    out.number(cancelled.at);
    out.utf8(cancelled.reason);
  }
  if (given && given.timeLimitMs > 0) out.number(given.timeLimitMs);
  out.number(failures.length);
  for (const { at, attempt, worker, error } of failures) {
    out.number(at);
    out.number(attempt);
    out.utf8(worker);
    out.byte(error ? 1 : 0);
    if (!error) continue;
    out.utf8(error.message);
    out.utf8(error.details);
  }
}

function readHistory(from: ByteReader): TaskHistory {
  const flags = from.byte();
  const queue = flags & ORIGIN ? from.utf8() : undefined;
  const retry = flags & ORIGIN_RETRY ? readRetry(from) : undefined;
  const died = flags & ORIGIN_DIED ? { pid: from.latin1() as Pid, at: from.number() as Instant } : undefined;
  const progress = flags & PROGRESS ? { at: from.number() as Instant, text: from.utf8() } : undefined;
  const key = flags & KEY ? from.utf8() : undefined;
  const cancelled = flags & CANCELLED ? { at: from.number() as Instant, reason: from.utf8() } : undefined;
  const given = flags & TIME_LIMIT ? { ...NOTHING_GIVEN, timeLimitMs: from.number() } : undefined;
  const failures: Failure[] = [];
  for (let left = from.number(); left > 0; left--) {
    const at = from.number() as Instant;
    const attempt = from.number();
    const worker = from.utf8();
    const error = from.byte() === 1 ? { message: from.utf8(), details: from.utf8() } : undefined;
    failures.push({ at, attempt, worker, error });
  }
  const origin = queue === undefined ? undefined : { queue, retry, died };
  const rest = { startBy: undefined, waits: undefined, links: undefined };
  const past = { rerun: (flags & RERUN) !== 0, progress, checkpoint: undefined, interruptions: 0, suspicion: 0 };
  return { key, given, ...rest, failures, origin, ...past, cancelled };
}
