import { ChildFailure, EnqueueMode, limits, UpdateTasksRequest, WaitTimeout } from '@taskmaster/proto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { updateSizeBound } from './request-size.ts';

const texts = fc.string({ unit: 'grapheme', maxLength: 200, size: 'max' });
const bytes = fc.uint8Array({ maxLength: 200, size: 'max' });
const times = fc.constantFrom(0, limits.timeLimitMs, Date.UTC(9999, 0));
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const list = <T>(items: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(items, { maxLength: 3 });
const named = { queue: texts, pid: bytes };
const tokens = { leaseToken: fc.maxSafeNat() };

const retry = fc.record({
  maxAttempts: fc.nat(1_000_000),
  backoffInitialMs: times,
  backoffMaxMs: times,
  deadLetterQueue: texts,
});
const links = fc.record({
  waitFor: optional(
    fc.record({
      signals: fc.nat(10_000),
      timeoutMs: times,
      onTimeout: fc.constantFrom(WaitTimeout.WAIT_TIMEOUT_CANCEL),
      collect: fc.boolean(),
    }),
  ),
  parents: list(fc.record({ ...named, key: texts, onFailure: fc.constantFrom(ChildFailure.CHILD_FAILURE_RETRY) })),
  orderKey: texts,
});
const enqueue = fc.record({
  ...named,
  topic: texts,
  key: texts,
  data: bytes,
  mode: fc.constantFrom(EnqueueMode.ENQUEUE_MODE_RERUN_FIRST),
  headers: fc.dictionary(texts, texts, { maxKeys: 3 }),
  retry: optional(retry),
  delayMs: times,
  runAtUnixMs: times,
  timeLimitMs: times,
  limitKey: texts,
  kind: optional(texts),
  startWithinMs: optional(times),
  startByUnixMs: optional(times),
  links: optional(links),
  signalId: optional(texts),
});
const dequeue = fc.record({
  ...named,
  ...tokens,
  key: texts,
  requeue: fc.boolean(),
  result: optional(bytes),
  resultRetentionMs: optional(times),
  cancelReason: optional(texts),
});
const renew = fc.record({
  ...named,
  ...tokens,
  leaseDurationMs: times,
  progress: optional(texts),
  checkpoint: optional(bytes),
  begun: optional(fc.nat(10_000)),
});
const release = fc.record({
  ...named,
  ...tokens,
  key: texts,
  delayMs: optional(times),
  runAtUnixMs: times,
  refundAttempt: fc.boolean(),
  deadLetter: fc.boolean(),
  waiting: fc.boolean(),
  interrupted: fc.boolean(),
  error: optional(fc.record({ message: texts, details: texts })),
});
const parts = fc.record({
  enqueues: fc.nat(10_000),
  dequeues: fc.nat(10_000),
  renewals: fc.nat(10_000),
  releases: fc.nat(10_000),
});
const lists = {
  enqueue: list(enqueue),
  dequeue: list(dequeue),
  renew: list(renew),
  release: list(release),
};

// A request above the limit breaks the stream for all calls, and only those whose bound is above it are measured.
test('the size of an update is never above its bound, whatever its items have', () => {
  fc.assert(
    fc.property(fc.record({ ...lists, parts: list(parts), requestId: bytes }), (update) => {
      expect(UpdateTasksRequest.encode(update).finish().byteLength).toBeLessThanOrEqual(updateSizeBound(update));
    }),
    { seed: 1 },
  );
});
