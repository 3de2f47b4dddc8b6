import { limits, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import { type EngineHarness, engineHarness, type LeaseSpec } from '../testing/engine-harness.ts';

const PIDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const;
const FOR_MS = 1_000;

interface Seen {
  readonly attempts: number;
  readonly interruptions: number;
  readonly failures: number;
  readonly suspicion: number;
}

/** What became of the tasks, by PID. A task that is not in the queue is left out. */
async function seen(h: EngineHarness, queue = 'g#q'): Promise<Record<string, Seen>> {
  const pids = PIDS as readonly string[] as readonly Pid[];
  const found = await h.engine.getTasks({ queue: parseQueueName(queue), pids, includeData: false });
  return Object.fromEntries(
    found.flatMap(({ pid, state }) => {
      if (state === undefined) return [];
      const { interruptions = 0, failures = [], suspicion = 0 } = state.history ?? {};
      return [[pid, { attempts: state.attempts, interruptions, failures: failures.length, suspicion }]];
    }),
  );
}

const CLEAN: Seen = { attempts: 0, interruptions: 0, failures: 0, suspicion: 0 };
const CHARGED: Seen = { attempts: 1, interruptions: 0, failures: 1, suspicion: 1 };
const spared = (suspicion: number): Seen => ({ attempts: 0, interruptions: 1, failures: 0, suspicion });

const tasks = (h: EngineHarness, retry = {}) =>
  h.update({ enqueue: PIDS.map((pid) => ({ queue: 'g#q', pid, retry })) });

const begin = (h: EngineHarness, { pid, token }: LeasedTask, begun = 1) =>
  h.update({ renew: [{ queue: 'g#q', pid, token, for: FOR_MS, begun }] });

const lease = (h: EngineHarness, starts: LeaseSpec['starts'], max: number = PIDS.length) =>
  h.lease('g#q', { max, for: FOR_MS, starts });

/** The worker dies: all its leases expire. */
const die = (h: EngineHarness) => h.clock.advance(FOR_MS + 100);

describe('the leases of a worker that dies', () => {
  test('have all failed if it does not tell what it begins', async () => {
    await using h = await engineHarness();
    await tasks(h);
    await lease(h, undefined);
    await die(h);
    expect(Object.values(await seen(h))).toEqual(PIDS.map(() => CHARGED));
  });

  test('cost an attempt only what began at once', async () => {
    await using h = await engineHarness();
    await tasks(h);
    const leased = await lease(h, { now: 2, together: 1 });
    expect(leased.map(({ unbegun }) => unbegun)).toEqual([undefined, undefined, 0, 0, 0, 0, 0, 0]);
    await die(h);
    const { a, b, ...others } = await seen(h);
    expect([a, b]).toEqual([CHARGED, CHARGED]);
    expect(Object.values(others)).toEqual(Object.keys(others).map(() => spared(1)));
    expect(h.engine.figures()).toMatchObject({ leasesExpired: 8, attemptsFailed: 2, attemptsInterrupted: 6 });
  });

  test('cost an attempt only the task of which it has told, also after a crash of the node', async () => {
    await using h = await engineHarness();
    await tasks(h);
    const [, second] = await lease(h, { now: 0, together: 1 });
    if (second) await begin(h, second);
    await h.crash();
    await die(h);
    const { b, ...others } = await seen(h);
    expect(b).toEqual(CHARGED);
    expect(new Set(Object.values(others).map((one) => JSON.stringify(one)))).toEqual(
      new Set([JSON.stringify(spared(1))]),
    );
  });

  test('are available again at once, whatever the backoff', async () => {
    await using h = await engineHarness({ jitter: 1 });
    await tasks(h, { maxAttempts: 1, backoffInitialMs: 60_000, backoffMaxMs: 60_000 });
    await lease(h, { now: 0, together: 1 });
    await die(h);
    expect(await h.lease('g#q', { max: 10 })).toHaveLength(PIDS.length);
  });

  test('do not end a task in its last attempt, unless it has begun', async () => {
    await using h = await engineHarness();
    await tasks(h, { maxAttempts: 1 });
    await lease(h, { now: 1, together: 1 });
    await die(h);
    expect(Object.keys(await seen(h, 'g#q.dead'))).toEqual(['a']);
    expect(Object.keys(await seen(h))).toEqual(PIDS.slice(1));
  });
});

describe('a suspected task', () => {
  test('says so with its next lease, unless it begins at once', async () => {
    await using h = await engineHarness();
    await tasks(h);
    await lease(h, { now: 0, together: 1 });
    await die(h);
    const leased = await lease(h, { now: 1, together: 1 });
    expect(leased.map(({ unbegun }) => unbegun)).toEqual([undefined, 1, 1, 1, 1, 1, 1, 1]);
    await die(h);
    expect((await seen(h)).a).toEqual({ attempts: 1, interruptions: 1, failures: 1, suspicion: 1 });
  });

  test('is found by halves among those that begin together', async () => {
    await using h = await engineHarness();
    await tasks(h, { maxAttempts: 2 });
    const killer = 'f';
    let deaths = 0;
    const calls: string[] = [];
    // As a worker with batches of eight does. It completes nothing before it dies.
    for (;;) {
      const leased = await lease(h, { now: 0, together: PIDS.length });
      if (leased.length === 0) break;
      let hasDied = false;
      for (let at = 0; at < leased.length && !hasDied; ) {
        const most = Math.min(...leased.slice(at).map(({ unbegun }) => unbegun || PIDS.length));
        const call = leased.slice(at, at + most);
        at += most;
        calls.push(call.map(({ pid }) => pid).join(''));
        await Promise.all(call.map((task) => begin(h, task, call.length)));
        hasDied = call.some(({ pid }) => pid === killer);
        if (hasDied) continue;
        await h.update({ dequeue: call.map(({ pid, token }) => ({ queue: 'g#q', pid, token })) });
      }
      if (!hasDied) break;
      deaths++;
      await die(h);
    }
    expect(calls).toEqual(['abcdefgh', 'abcd', 'efgh', 'ef', 'e', 'f', 'f', 'gh']);
    expect(await seen(h)).toEqual({});
    expect(await seen(h, 'g#q.dead')).toMatchObject({ f: { attempts: 2, failures: 2 } });
    expect(deaths).toBe(5);
  });

  test.each([
    ['a failure', { error: 'no' }, 0],
    ['a release', {}, 0],
    ['a lease that is given back', { refund: true }, 1],
    ['an interruption', { interrupted: true }, 1],
  ])('after %s has suspicion as it should', async (_what, end, suspicion) => {
    await using h = await engineHarness();
    await tasks(h);
    await lease(h, { now: 0, together: 1 });
    await die(h);
    const [task] = await lease(h, { now: 0, together: 1 });
    await h.update({ release: [{ queue: 'g#q', pid: 'a', token: task?.token, ...end }] });
    expect((await seen(h)).a?.suspicion).toBe(suspicion);
  });

  test('keeps that on its way through its dead-letter queue', async () => {
    await using h = await engineHarness();
    await tasks(h, { maxAttempts: 1 });
    await lease(h, { now: 1, together: 1 }, 1);
    await die(h);
    expect((await seen(h, 'g#q.dead')).a).toEqual(CHARGED);
    await h.update({ dequeue: [{ queue: 'g#q.dead', pid: 'a', requeue: true }] });
    expect((await seen(h)).a).toEqual({ ...CHARGED, attempts: 0 });
  });
});

describe('a lease whose start was not told', () => {
  test.each([
    ['that is given back', { refund: true }, CLEAN],
    ['that is released', {}, { ...CLEAN, attempts: 1 }],
    ['that fails', { error: 'no' }, { ...CLEAN, attempts: 1, failures: 1 }],
  ])('and %s is like any other', async (_what, end, expected) => {
    await using h = await engineHarness();
    await tasks(h);
    const [task] = await lease(h, { now: 0, together: 1 });
    await h.update({ release: [{ queue: 'g#q', pid: 'a', token: task?.token, ...end }] });
    expect((await seen(h)).a).toEqual(expected);
  });

  test('has failed at its time limit', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'a', timeLimit: FOR_MS / 2 }] });
    await lease(h, { now: 0, together: 1 });
    await die(h);
    expect((await seen(h)).a).toEqual(CHARGED);
  });

  test('ends a task that was cancelled', async () => {
    await using h = await engineHarness();
    await tasks(h);
    await lease(h, { now: 0, together: 1 }, 1);
    await h.update({ dequeue: [{ queue: 'g#q', pid: 'a', cancel: 'no' }] });
    await die(h);
    expect((await seen(h)).a).toBeUndefined();
  });

  test('counts as failed after too many of them', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'a' }] });
    for (let death = 0; death < limits.interruptions; death++) {
      await lease(h, { now: 0, together: 1 });
      await die(h);
    }
    expect((await seen(h)).a).toEqual({ ...CLEAN, interruptions: limits.interruptions, suspicion: 1 });
    await lease(h, { now: 0, together: 1 });
    await die(h);
    expect((await seen(h)).a).toMatchObject({ attempts: 1, interruptions: limits.interruptions, failures: 1 });
  });
});
