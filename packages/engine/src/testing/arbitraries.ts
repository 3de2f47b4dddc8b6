import fc from 'fast-check';
import type { Instant, LeaseToken, Pid } from '../domain/ids.ts';
import {
  AVAILABLE,
  type Failure,
  givenIn,
  type Lease,
  NO_LINKS,
  NO_PARENTS,
  type RetryPolicy,
  type TaskHistory,
  type TaskLinks,
  type TaskParent,
  type TaskState,
  type TaskWaits,
  type Visibility,
} from '../domain/task.ts';

/** Bytes. Those at the ends of the range come more often, because orders and escapes fail there. */
const bytes = fc.oneof(fc.constantFrom(0x00, 0x01, 0x61, 0xfe, 0xff), fc.nat(0xff));

/** Bytes as a latin1 string. */
export const latin1 = (bounds: { readonly minLength?: number; readonly maxLength: number }): fc.Arbitrary<string> =>
  fc.array(bytes, bounds).map((codes) => String.fromCharCode(...codes));

/** Short PIDs of any bytes. */
export const pids: fc.Arbitrary<Pid> = latin1({ minLength: 1, maxLength: 12 }).map((text) => text as Pid);

/** A character that UTF-8 can encode. `unit: "binary"` would make a table of a million characters first. */
const characters = fc
  .oneof(fc.nat(0x7f), fc.nat(0xd7ff), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code));

/** Any text that UTF-8 can encode. */
export const texts: fc.Arbitrary<string> = fc.string({ unit: characters, maxLength: 20 });

export const instants: fc.Arbitrary<Instant> = fc.maxSafeNat().map((ms) => ms as Instant);

const leases: fc.Arbitrary<Lease> = fc.record({
  workerAddress: texts,
  worker: texts,
  since: instants,
  suspects: fc.nat(10_000),
});

const visibilities: fc.Arbitrary<Visibility> = fc.oneof(
  fc.constant(AVAILABLE),
  fc.record({
    kind: fc.constant('hidden' as const),
    until: instants,
    lease: fc.option(leases, { nil: undefined }),
  }),
);

const retryPolicies: fc.Arbitrary<RetryPolicy> = fc.record({
  maxAttempts: fc.nat(),
  backoffInitialMs: fc.maxSafeNat(),
  backoffMaxMs: fc.maxSafeNat(),
  deadLetterQueue: texts,
});

const failures: fc.Arbitrary<Failure> = fc.record({
  at: instants,
  attempt: fc.nat(),
  worker: texts,
  error: fc.option(fc.record({ message: texts, details: texts }), { nil: undefined }),
});

const waits: fc.Arbitrary<TaskWaits> = fc.record({
  signals: fc.nat(),
  order: fc.boolean(),
  timeout: fc.option(
    fc.record({
      at: instants,
      action: fc.constantFrom('run' as const, 'dead-letter' as const, 'cancel' as const),
      reason: fc.option(texts, { nil: undefined }),
    }),
    { nil: undefined },
  ),
  collect: fc.boolean(),
  box: fc.boolean(),
});

const parents: fc.Arbitrary<TaskParent> = fc
  .record({
    queue: texts,
    pid: pids,
    key: fc.option(texts, { nil: undefined }),
    onFailure: fc.constantFrom('fail' as const, 'continue' as const, 'retry' as const),
  })
  .map((parent) => (parent.key === undefined ? parent : { ...parent, pid: '' as Pid }));

/** With parents or an order key, or both. The neighbours in an order go with its key. */
const links: fc.Arbitrary<TaskLinks> = fc
  .record({
    parents: fc.array(parents, { maxLength: 2 }).map((some) => (some.length === 0 ? NO_PARENTS : some)),
    order: fc.option(
      fc.record({
        orderKey: texts,
        before: fc.option(pids, { nil: undefined }),
        after: fc.option(pids, { nil: undefined }),
      }),
      { nil: undefined },
    ),
  })
  .filter(({ parents, order }) => parents.length > 0 || order !== undefined)
  .map(({ parents, order }) => ({ ...NO_LINKS, ...order, parents }));

const histories: fc.Arbitrary<TaskHistory> = fc.record({
  key: fc.option(texts, { nil: undefined }),
  given: fc.option(
    fc
      .record({
        timeLimitMs: fc.maxSafeNat(),
        limitKey: fc.constantFrom('', 'acme', 'é'),
        kind: fc.constantFrom(undefined, 'resize@2', 'é'),
      })
      .map(givenIn),
    { nil: undefined },
  ),
  startBy: fc.option(instants, { nil: undefined }),
  waits: fc.option(waits, { nil: undefined }),
  links: fc.option(links, { nil: undefined }),
  failures: fc.array(failures, { maxLength: 5 }),
  origin: fc.option(
    fc.record({
      queue: texts,
      retry: fc.option(retryPolicies, { nil: undefined }),
      died: fc.option(fc.record({ pid: pids, at: instants }), { nil: undefined }),
    }),
    { nil: undefined },
  ),
  rerun: fc.boolean(),
  progress: fc.option(fc.record({ at: instants, text: texts }), { nil: undefined }),
  checkpoint: fc.option(fc.uint8Array({ minLength: 1, maxLength: 12 }), { nil: undefined }),
  interruptions: fc.nat(200),
  suspicion: fc.nat(10_000),
  cancelled: fc.option(fc.record({ at: instants, reason: texts }), { nil: undefined }),
});

export const taskStates: fc.Arbitrary<TaskState> = fc.record({
  enqueuedAt: instants,
  dueAt: instants,
  dataBytes: fc.nat(),
  headerBytes: fc.oneof(fc.constant(0), fc.nat()),
  attempts: fc.nat(),
  token: fc.maxSafeNat().map((token) => token as LeaseToken),
  retry: fc.option(retryPolicies, { nil: undefined }),
  visibility: visibilities,
  history: fc.option(histories, { nil: undefined }),
});
