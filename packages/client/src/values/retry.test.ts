import { describe, expect, test } from 'vitest';
import { connectionLost, overloaded } from '../testing/faults.ts';
import { makeError, type TaskMasterError } from './errors.ts';
import { backoffBound, decideRetry, type FailedAttempt, type RetryDecision, retryPolicy } from './retry.ts';

const policy = retryPolicy({ maxAttempts: 3, backoff: { initial: 100, max: '1s' } });
const half = (): number => 0.5;

function decide(failed: Partial<FailedAttempt> & { error: TaskMasterError }): RetryDecision {
  const first = { attempt: 1, repetition: 'harmless' as const, elapsedMs: 0, remainingMs: 10_000, elsewhere: false };
  return decideRetry({ ...first, ...failed }, policy, half);
}

const refusal = (reason: string): TaskMasterError => makeError('no', { reason });

test.each<[string, Partial<FailedAttempt> & { error: TaskMasterError }, RetryDecision['kind']]>([
  ['a read whose connection was lost', { error: connectionLost() }, 'retry'],
  ['an update with a request id whose reply was lost', { error: connectionLost(), repetition: 'once' }, 'retry'],
  [
    'the same after the node may have forgotten the id',
    { error: connectionLost(), repetition: 'once', elapsedMs: 110_000 },
    'give-up',
  ],
  ['an update without one whose reply was lost', { error: connectionLost(), repetition: 'unsafe' }, 'give-up'],
  ['the same when the node has refused it', { error: overloaded(), repetition: 'unsafe' }, 'retry'],
  ['overload', { error: overloaded() }, 'retry'],
  ['a full disk', { error: refusal('DISK_FULL') }, 'retry'],
  ['a node that starts', { error: refusal('STARTING') }, 'retry'],
  ['the answer that a member is out of reach', { error: refusal('HOLDER_UNREACHABLE') }, 'retry'],
  [
    'the same to an operator, who must know',
    { error: refusal('HOLDER_UNREACHABLE'), repetition: 'operator' },
    'give-up',
  ],
  ["an operator's command while the node starts", { error: refusal('STARTING'), repetition: 'operator' }, 'retry'],
  ["an operator's command whose reply was lost", { error: connectionLost(), repetition: 'operator' }, 'give-up'],
  ['a lost lease', { error: refusal('LEASE_LOST') }, 'give-up'],
  ['a wrong request', { error: refusal('INVALID_QUEUE') }, 'give-up'],
  ['a fault of the node', { error: refusal('INTERNAL') }, 'give-up'],
  ['a deadline', { error: refusal('DEADLINE_EXCEEDED') }, 'give-up'],
  ['a call that was given up', { error: refusal('CANCELLED') }, 'give-up'],
  [
    'a message too large, which gRPC calls exhaustion too',
    { error: makeError('large', { reason: 'RESOURCE_EXHAUSTED', code: 8, retryable: false }) },
    'give-up',
  ],
  ['the last attempt', { error: overloaded(), attempt: 3 }, 'give-up'],
  ['a wait beyond the deadline', { error: overloaded(500), remainingMs: 500 }, 'give-up'],
])('%s', (_what, failed, kind) => expect(decide(failed).kind).toBe(kind));

describe('the wait before a repetition', () => {
  test('is uniform below a bound that doubles up to a limit', () => {
    expect([1, 2, 3, 4, 5, 60].map((failures) => backoffBound(failures, 100, 1_000))).toEqual([
      100, 200, 400, 800, 1_000, 1_000,
    ]);
    expect(decide({ error: overloaded(), attempt: 2 })).toEqual({ kind: 'retry', afterMs: 100 });
  });

  test('is at least the delay that the node asks for', () => {
    expect(decide({ error: overloaded(700) })).toEqual({ kind: 'retry', afterMs: 750 });
  });

  test('is not the delay of a stopping node if there is another node to ask', () => {
    const error = makeError('bye', { reason: 'SHUTTING_DOWN', retryDelayMs: 60_000 });
    expect(decide({ error, elsewhere: true })).toEqual({ kind: 'retry', afterMs: 50 });
    expect(decide({ error, elsewhere: false }).kind).toBe('give-up');
  });
});

test.each([
  [{ maxAttempts: 0 }, 'retry.maxAttempts: 0 is not a whole number from 1'],
  [{ maxAttempts: 1.5 }, 'retry.maxAttempts: 1.5 is not a whole number from 1'],
  [{ backoff: { initial: -1 } }, 'retry.backoff.initial: -1 is not a number of ms'],
  [{ backoff: { max: Number.NaN } }, 'retry.backoff.max: NaN is not a number of ms'],
])('the policy %j is refused', (options, message) => expect(() => retryPolicy(options)).toThrow(message));

test('by default a call outlasts the restart of a node', () => {
  const { maxAttempts, backoffInitialMs, backoffMaxMs } = retryPolicy();
  let meanMs = 0;
  for (let failures = 1; failures < maxAttempts; failures++) {
    meanMs += backoffBound(failures, backoffInitialMs, backoffMaxMs) / 2;
  }
  expect(meanMs).toBeGreaterThan(4_000);
  expect(meanMs).toBeLessThan(10_000);
});

test.each(['PARTITION_MOVING', 'HOLDER_UNREACHABLE', 'OUTCOME_UNKNOWN'])(
  'is the delay that the node asks for with %s: another node would refuse the group, too',
  (reason) => {
    const error = makeError('later', { reason, retryDelayMs: 700 });
    expect(decide({ error, elsewhere: true })).toEqual({ kind: 'retry', afterMs: 750 });
  },
);

describe('a node that does not hold the group', () => {
  const metadata = { partition: '1', holder: 'b:7400', epoch: '2' };
  const error = makeError('not here', { reason: 'NOT_HOLDER', metadata, retryable: true });

  test('is zero for the holder that the node names, whatever the policy', () => {
    const once = { ...policy, maxAttempts: 1 };
    const failed = { error, attempt: 1, repetition: 'unsafe' as const, elapsedMs: 0, remainingMs: 1, elsewhere: false };
    expect(decideRetry(failed, once, half)).toEqual({ kind: 'retry', afterMs: 0 });
    expect(decideRetry({ ...failed, attempt: 2 }, once, half)).toEqual({ kind: 'retry', afterMs: 0 });
    expect(decideRetry({ ...failed, attempt: 3 }, once, half)).toEqual({ kind: 'give-up' });
    expect(decideRetry({ ...failed, remainingMs: 0 }, once, half)).toEqual({ kind: 'give-up' });
  });

  test('is asked again after a wait if it names none, or if nodes name each other without end', () => {
    const unknown = makeError('not here', { reason: 'NOT_HOLDER', retryable: true });
    expect(decide({ error: unknown })).toEqual({ kind: 'retry', afterMs: 50 });
    expect(
      decideRetry(
        { error, attempt: 3, repetition: 'once', elapsedMs: 0, remainingMs: 10_000, elsewhere: true },
        { ...policy, maxAttempts: 9 },
        half,
      ),
    ).toEqual({ kind: 'retry', afterMs: 200 });
  });
});
