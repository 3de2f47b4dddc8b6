import {
  AVAILABLE,
  type ByteReader,
  type ByteWriter,
  type Instant,
  type LeaseToken,
  type RetryPolicy,
  type TaskState,
  type Visibility,
} from '@taskmaster/server/domain';

const HIDDEN = 1;
const LEASED = 2;
const RETRY = 4;
/** Flag: the task became due later than it was enqueued. */
const DUE_LATER = 8;

/** Writes flags, then only the fields that they announce. */
export function writeTaskState(out: ByteWriter, state: TaskState): void {
  const { visibility, retry } = state;
  const lease = visibility.kind === 'hidden' ? visibility.lease : undefined;
  const isDueLater = state.dueAt !== state.enqueuedAt;
  out.byte(
    (visibility.kind === 'hidden' ? HIDDEN : 0) |
      (lease ? LEASED : 0) |
      (retry ? RETRY : 0) |
      (isDueLater ? DUE_LATER : 0),
  );
  out.number(state.enqueuedAt);
  if (isDueLater) out.number(state.dueAt);
  out.number(state.dataBytes);
  out.number(state.attempts);
  out.number(state.token);
  if (visibility.kind === 'hidden') out.number(visibility.until);
  if (lease) {
    out.number(lease.since);
    out.utf8(lease.workerAddress);
    out.utf8(lease.worker);
  }
  if (retry) writeRetry(out, retry);
}

export function readTaskState(from: ByteReader): TaskState {
  const flags = from.byte();
  const enqueuedAt = from.number() as Instant;
  const dueAt = flags & DUE_LATER ? (from.number() as Instant) : enqueuedAt;
  const dataBytes = from.number();
  const attempts = from.number();
  const token = from.number() as LeaseToken;
  const visibility = readVisibility(from, flags);
  const retry = flags & RETRY ? readRetry(from) : undefined;
  return { enqueuedAt, dueAt, dataBytes, attempts, token, retry, visibility };
}

function readVisibility(from: ByteReader, flags: number): Visibility {
  if (!(flags & HIDDEN)) return AVAILABLE;
  const until = from.number() as Instant;
  if (!(flags & LEASED)) return { kind: 'hidden', until, lease: undefined };
  const since = from.number() as Instant;
  return { kind: 'hidden', until, lease: { since, workerAddress: from.utf8(), worker: from.utf8() } };
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
