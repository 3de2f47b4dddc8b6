import { limits } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Instant, LeaseToken } from '../domain/ids.ts';
import { DEFAULT_SETTINGS } from '../domain/queue-settings.ts';
import { AVAILABLE, DEFAULT_RETRY, NO_HISTORY, type RetryPolicy, type TaskState } from '../domain/task.ts';
import { SeededRandom } from '../testing/seeded-random.ts';
import { afterFailedAttempt, backoffMs, deadLetterQueueOf, endsWithLease, type FailedAttempt } from './attempts.ts';

const retry: RetryPolicy = { maxAttempts: 3, backoffInitialMs: 100, backoffMaxMs: 1000, deadLetterQueue: '' };
const random = (value: number) => ({ next: () => value });
/** The largest number that `Random` returns. */
const MOST = 1 - 2 ** -53;

const task = (attempts: number): TaskState => ({
  enqueuedAt: 0 as Instant,
  dueAt: 0 as Instant,
  dataBytes: 0,
  headerBytes: 0,
  attempts,
  token: 0 as LeaseToken,
  retry,
  visibility: AVAILABLE,
  history: undefined,
});

describe('the backoff', () => {
  test.each([
    [1, 100],
    [2, 200],
    [3, 400],
    [4, 800],
    [5, 1000],
    [6, 1000],
    [1_000_000, 1000],
  ])('after attempt %i is at most %i ms: it doubles up to a bound', (attempts, bound) => {
    expect(backoffMs(retry, attempts, random(MOST))).toBe(bound);
    expect(backoffMs(retry, attempts, random(0.5))).toBe(bound / 2);
    expect(backoffMs(retry, attempts, random(0))).toBe(0);
  });

  test('spreads tasks that failed together between zero and the bound', () => {
    const seeded = new SeededRandom(1);
    const waits = Array.from({ length: 200 }, () => backoffMs(retry, 4, seeded));
    expect(Math.min(...waits)).toBeLessThan(40);
    expect(Math.max(...waits)).toBeGreaterThan(760);
    expect(new Set(waits).size).toBeGreaterThan(100);
  });

  test('is zero without an initial backoff', () => {
    expect(backoffMs({ ...retry, backoffInitialMs: 0 }, 5, random(MOST))).toBe(0);
  });
});

const attempt = (how: Partial<Omit<FailedAttempt, 'endedAt'>> & { readonly endedAt?: number } = {}): FailedAttempt => ({
  delayMs: undefined,
  error: undefined,
  isExpired: false,
  deadLetter: false,
  ...how,
  endedAt: (how.endedAt ?? 10_000) as Instant,
});

describe('a failed attempt', () => {
  const now = 10_000 as Instant;
  const visibilityAfter = (state: TaskState, endedAt: number, delayMs?: number) => {
    const after = afterFailedAttempt(state, DEFAULT_SETTINGS, attempt({ endedAt, delayMs }), now, random(MOST));
    return after.kind === 'retry' ? after.state.visibility : after.kind;
  };

  test('hides the task, without a lease, until its backoff is over', () => {
    expect(visibilityAfter(task(1), now)).toEqual({ kind: 'hidden', until: 10_100, lease: undefined });
  });

  test('counts the backoff from the end of the attempt, not from the search that found it', () => {
    expect(visibilityAfter(task(1), now - 60)).toMatchObject({ until: 10_040 });
    expect(visibilityAfter(task(1), now - 100)).toEqual(AVAILABLE);
  });

  test('waits for the delay that the worker gave instead of the backoff, even if the delay is zero', () => {
    expect(visibilityAfter(task(2), now, 5000)).toMatchObject({ until: 15_000 });
    expect(visibilityAfter(task(2), now, 0)).toEqual(AVAILABLE);
  });

  test('is the last one when the policy allows no more, even with a delay from the worker', () => {
    expect([2, 3, 4].map((attempts) => endsWithLease(task(attempts), DEFAULT_SETTINGS))).toEqual([false, true, true]);
    expect(visibilityAfter(task(3), now, 5000)).toBe('dead');
  });

  test('is never the last one without a limit', () => {
    expect(endsWithLease({ ...task(1_000_000), retry: { ...retry, maxAttempts: 0 } }, DEFAULT_SETTINGS)).toBe(false);
  });

  test('of a task without a policy follows the settings of its queue, by default 20 attempts', () => {
    const without = (attempts: number): TaskState => ({ ...task(attempts), retry: undefined });
    expect([19, 20].map((attempts) => endsWithLease(without(attempts), DEFAULT_SETTINGS))).toEqual([false, true]);
    expect(endsWithLease(without(2), { ...DEFAULT_SETTINGS, retry: { ...DEFAULT_RETRY, maxAttempts: 2 } })).toBe(true);
    const after = afterFailedAttempt(without(1), DEFAULT_SETTINGS, attempt({ endedAt: now }), now, random(MOST));
    expect(after).toMatchObject({ kind: 'retry', state: { visibility: { until: now + 1000 } } });
  });

  test('of a dead letter without a policy is never the last one, but has the backoff of its queue', () => {
    const origin = { queue: 'mail', retry: undefined, died: undefined };
    const letter: TaskState = { ...task(100), retry: undefined, history: { ...NO_HISTORY, origin } };
    const after = afterFailedAttempt(letter, DEFAULT_SETTINGS, attempt({ endedAt: now }), now, random(MOST));
    expect(after).toMatchObject({ kind: 'retry', state: { visibility: { until: now + 3_600_000 } } });
  });
});

describe('the dead-letter queue of a task', () => {
  const settings = { ...DEFAULT_SETTINGS, retry: { ...DEFAULT_RETRY, deadLetterQueue: 'failed' } };
  const queue = (name: string) => ({ group: 'shop', name });
  const own = { ...task(1), retry: { ...retry, deadLetterQueue: 'own' } };

  test.each([
    ['mail', DEFAULT_SETTINGS, undefined, 'mail.dead'],
    ['mail', settings, undefined, 'failed'],
    ['mail', settings, task(1), 'failed'],
    ['mail', settings, own, 'own'],
    ['failed', settings, undefined, 'failed.dead'],
    ['x'.repeat(507), DEFAULT_SETTINGS, undefined, `${'x'.repeat(507)}.dead`],
  ])('of the queue %s', (name, of, state, expected) => {
    expect(deadLetterQueueOf(queue(name), of, state)).toEqual(queue(expected));
  });

  test('of a queue with a long name has the beginning of the name, and belongs to this queue alone', () => {
    const long = 'x'.repeat(506);
    const names = [`${long}ab`, `${long}ac`, `${long}abcdef`, `${long}\u00e9`, `${long}\u00ea`];
    const found = names.map((name) => deadLetterQueueOf(queue(name), DEFAULT_SETTINGS, undefined).name);
    expect(new Set(found).size).toBe(names.length);
    for (const name of found) {
      expect(name).toMatch(/^x{495}~[\w-]{11}\.dead$/);
      expect(Buffer.byteLength(name)).toBe(limits.nameBytes);
    }
  });
});

describe('the history of a task', () => {
  const now = 10_000 as Instant;
  const lease = { worker: 'w', workerAddress: '127.0.0.1:1', since: 0 as Instant, suspects: 0 };
  const leased = (state: TaskState): TaskState => ({ ...state, visibility: { kind: 'hidden', until: now, lease } });
  const fail = (state: TaskState, how: Parameters<typeof attempt>[0]): TaskState =>
    afterFailedAttempt(leased(state), DEFAULT_SETTINGS, attempt(how), now, random(0)).state;

  test('has the error of a failed attempt, with its worker', () => {
    const error = { message: 'no route', details: 'at line 1' };
    const { history } = fail(task(2), { endedAt: 9_000, error });
    expect(history?.failures).toEqual([{ at: 9_000, attempt: 2, worker: 'w', error }]);
  });

  test('has expired leases, and not releases without an error', () => {
    expect(fail(task(1), { isExpired: true }).history?.failures).toMatchObject([{ attempt: 1, error: undefined }]);
    expect(fail(task(1), {}).history).toBeUndefined();
  });

  test('has the error of the last attempt, too', () => {
    const error = { message: 'no route', details: '' };
    const after = afterFailedAttempt(
      leased(task(1)),
      DEFAULT_SETTINGS,
      attempt({ error, deadLetter: true }),
      now,
      random(0),
    );
    expect(after).toMatchObject({ kind: 'dead', state: { history: { failures: [{ error }] } } });
  });

  test('keeps the last five failures, and the details of the latest one only', () => {
    let state = task(0);
    for (let number = 1; number <= 7; number++) {
      const error = { message: `e${number}`, details: 'where' };
      state = fail({ ...state, attempts: number, retry: undefined }, { error });
    }
    expect(state.history?.failures.map(({ error }) => [error?.message, error?.details])).toEqual([
      ...[3, 4, 5, 6].map((number) => [`e${number}`, '']),
      ['e7', 'where'],
    ]);
  });
});
