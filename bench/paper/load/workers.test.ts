import { expect, test } from 'vitest';
import type { Caller } from './callers.ts';
import { runCallers } from './workers.ts';
import type { WorkersLoad } from './workers-load.ts';

const WORKERS = 2;
const THREADS = 4;
const MS = 100;

type Call = 'lease' | 'dequeue';

/** Workers whose calls are answered one after the other, in their order. */
function setUp() {
  const waiting: { readonly call: Call; readonly answer: () => void }[] = [];
  const send = (call: Call) => new Promise<void>((answer) => waiting.push({ call, answer }));
  const caller: Caller = {
    refused: 0,
    enqueue: () => Promise.reject(new Error('this load does not enqueue')),
    lease: async (_queues, max) => {
      await send('lease');
      return { tasks: max, dequeue: () => send('dequeue') };
    },
  };
  const load: WorkersLoad = {
    endpoint: '',
    via: 'unary',
    groups: Array.from({ length: WORKERS }, (_, worker) => `w${worker}`),
    threads: THREADS,
    queues: 1,
    taskBytes: 1,
    batch: 10,
    operation: { kind: 'lease-dequeue' },
    warmUpMs: 0,
    ms: MS,
  };
  let now = 0;
  const running = runCallers(
    load.groups.map(() => caller),
    load,
    () => now,
  );
  /** Answers calls, at most this number, until none waits. Resolves with the calls. */
  const answer = async (most = Number.POSITIVE_INFINITY): Promise<Call[]> => {
    const answered: Call[] = [];
    for (;;) {
      await new Promise(setImmediate);
      const next = answered.length < most ? waiting.shift() : undefined;
      if (next === undefined) return answered;
      answered.push(next.call);
      next.answer();
    }
  };
  return {
    answer,
    end: async () => {
      now = MS;
      await answer();
      return running;
    },
  };
}

test('leases and dequeues of threads that begin at one moment stay mixed', async () => {
  const { answer, end } = setUp();
  const inFlight = WORKERS * THREADS;
  const calls = (await answer(10 * inFlight)).slice(inFlight / 2);
  for (let at = 0; at + inFlight <= calls.length; at++) {
    const dequeues = calls.slice(at, at + inFlight).filter((call) => call === 'dequeue').length;
    expect(Math.abs(dequeues - inFlight / 2)).toBeLessThanOrEqual(1);
  }
  expect((await end()).tasks).toBeGreaterThan(0);
});
