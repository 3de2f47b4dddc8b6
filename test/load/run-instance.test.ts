import { CALL_KINDS, type RunOutcome, smallWorkload } from '@taskmaster/cli/testing';
import { connectionLost } from '@taskmaster/client/testing';
import { EnqueueMode } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { loadSetUp, type SlowTransport, toEnd } from './load-set-up.ts';

const countsOf = ({ meter }: RunOutcome): Record<string, number> =>
  Object.fromEntries([...meter.timeline.total().calls].map(([kind, { latencies }]) => [kind, latencies.count]));

/** The first violation, without its history. */
function violationOf({ verification }: RunOutcome): string {
  if (verification?.kind !== 'broken') return `${verification?.kind}`;
  return verification.shown[0]?.message ?? '';
}

describe('a load', () => {
  test('makes all kinds of calls, keeps its backlog, and is found correct', async () => {
    const { run, totals } = loadSetUp();
    const outcome = await run();
    expect(Object.keys(countsOf(outcome)).toSorted()).toEqual([...CALL_KINDS].toSorted());
    expect(outcome).toMatchObject({ isComplete: true, notStarted: 0, notCleaned: [] });
    expect(outcome.verification).toMatchObject({ kind: 'kept', violations: 0, calls: { unknown: 0 } });
    const { timeline } = outcome.meter;
    expect(timeline.intervals.length).toBeGreaterThanOrEqual(2);
    for (const { openTasks } of timeline.intervals) {
      expect(openTasks).toBeGreaterThan(0);
      expect(openTasks).toBeLessThanOrEqual(2 * smallWorkload.backlog + 4);
    }
    expect(await totals()).toMatchObject({ available: 0, leased: 0 });
  });

  test('of an open loop counts latencies from when operations were due', async () => {
    const { start, timing, transport } = loadSetUp();
    const none = { delay: 0, work: 0, renew: 0, pipeline: 0, release: 0, abandon: 0, peek: 0, stats: 0 };
    const pace = { kind: 'rate', perSecond: 100, maxInFlight: 1 } as const;
    const workload = { ...smallWorkload, mix: { ...none, enqueue: 1 }, backlog: 1_000, pace };
    const running = start({ workload, verify: undefined });
    await timing.advance(500);
    transport.latencyMs = 505;
    await timing.advance(10);
    transport.latencyMs = 5;
    const { meter, notStarted } = await toEnd(timing, running);
    const { latencies } = meter.timeline.total().callsOf('enqueue');
    // One call was slow, and the fifty that were due meanwhile began late.
    expect(latencies.at(50)).toBeLessThan(300);
    expect(latencies.at(80)).toBeGreaterThan(100);
    expect(latencies.count + notStarted).toBe(200);
    expect(meter.longestPause?.ms).toBeGreaterThanOrEqual(500);
  });

  test('repeats itself with its seed', async () => {
    const [first, second] = [await loadSetUp().run(), await loadSetUp().run()];
    expect(countsOf(first)).toEqual(countsOf(second));
  });

  test('is refused if its queues hold tasks, unless it may delete them', async () => {
    const { run, start, pids, change } = loadSetUp();
    const [pid, data] = [Buffer.from('a'), Buffer.from('x')];
    await change({ enqueue: [{ ...newTask, queue: 'load-1#q0', pid, data }] });
    await expect(start()).rejects.toThrow('load-1#q0 has tasks');
    expect(await pids('load-1#q0')).toEqual(['a']);
    expect((await run({ force: true })).verification?.kind).toBe('kept');
  });

  test('ends early when it is interrupted, checks and cleans up', async () => {
    const { start, timing, interrupt, totals } = loadSetUp();
    const running = start();
    await timing.advance(500);
    interrupt.abort();
    const outcome = await toEnd(timing, running);
    expect(outcome).toMatchObject({ isComplete: false, verification: { kind: 'kept' } });
    expect(outcome.elapsedMs).toBeLessThan(1_000);
    expect(await totals()).toMatchObject({ available: 0, leased: 0 });
  });

  test('leaves its tasks if it is asked to', async () => {
    const { run, pids } = loadSetUp();
    await run({ keep: true, verify: undefined });
    expect((await pids('load-0#q0')).length).toBeGreaterThan(0);
  });

  test('starts when all instances have come, each with groups of its own', async () => {
    const { start, timing, transport, pids } = loadSetUp();
    const started: number[] = [];
    const instance = (index: number) => start({ instance: { index, count: 2 } }, () => void started.push(timing.now()));
    const first = instance(0);
    await timing.advance(400);
    expect(started).toEqual([]);
    const [one, other] = await toEnd(timing, Promise.all([first, instance(1)]));
    expect(Math.abs((started[0] ?? 0) - (started[1] ?? 0))).toBeLessThanOrEqual(100);
    expect(one.verification?.kind).toBe('kept');
    expect(other.verification?.kind).toBe('kept');
    const groups = new Set(
      transport.arrived.updateTasks.flatMap(({ enqueue }) => enqueue.map(({ queue }) => queue.split('#')[0])),
    );
    expect([...groups].toSorted()).toEqual(['load', 'load-0', 'load-1', 'load-2', 'load-3']);
    expect(await pids('load#start')).toEqual([]);
  });

  test('fails if the other instances do not come', async () => {
    const { start, timing, pids } = loadSetUp();
    const alone = start({ instance: { index: 0, count: 3 } });
    await expect(toEnd(timing, alone)).rejects.toThrow('2 of 3 instances did not come');
    expect(await pids('load#start')).toEqual([]);
  });
});

describe('the check of a load', () => {
  test('allows lost answers', async () => {
    const { start, timing, transport } = loadSetUp();
    const running = start();
    await timing.advance(500);
    // All attempts of the updates in progress fail, after some of them were applied.
    const error = connectionLost();
    for (let at = 0; at < 40; at++) {
      transport.faults.updateTasks.push({ when: at % 3 === 0 ? 'after' : 'before', error });
    }
    const outcome = await toEnd(timing, running);
    expect(violationOf(outcome)).toBe('kept');
    const { verification, meter } = outcome;
    expect(verification?.kind === 'kept' && verification.calls.unknown).toBeGreaterThan(1);
    expect(meter.timeline.total().retries.get('UNAVAILABLE')).toBeGreaterThan(10);
  });

  test('keeps its history within its bound', async () => {
    const { run } = loadSetUp();
    const workload = { ...smallWorkload, backlog: 10_000 };
    const { verification } = await run({ workload, verify: { clockSlackMs: 0, mostTasksHeld: 50, withinMs: 10_000 } });
    if (verification?.kind !== 'kept') throw new Error(`the check is ${verification?.kind}`);
    // Operations that have begun before may still add tasks.
    expect(verification.mostTasksHeld).toBeLessThanOrEqual(50 + 4);
    expect(verification.tasks).toBeGreaterThan(49);
  });

  test('finds an acknowledged enqueue that was lost', async () => {
    const { run, transport, change } = loadSetUp();
    transport.updated.push(
      once(async (_request, { enqueued: [first] }, queue) => {
        if (first === undefined) return false;
        await change({ dequeue: [{ queue, pid: first.pid, leaseToken: 0, requeue: false }] });
        return true;
      }),
    );
    expect(violationOf(await run())).toMatch(/^\(a\) lost: \d+, acknowledged by #\d+/);
  });

  test('finds a lease of a task that another worker has', async () => {
    const { run, transport, resetLeases } = loadSetUp();
    let leases = 0;
    transport.leased.push(({ tasks: [task] }) => {
      if (task !== undefined && ++leases === 20) return resetLeases(task.queue).then(() => {});
      return undefined;
    });
    expect(violationOf(await run())).toMatch(/^\(c\) leased while it was leased, \d+ ms too early: \d+, token \d+/);
  });

  test('finds a task that comes back after it was completed', async () => {
    const { run, transport, change } = loadSetUp();
    const payloads = new Map<string, Uint8Array>();
    transport.leased.push(({ tasks }) => {
      for (const { pid, data } of tasks) payloads.set(keyOf(pid), data);
    });
    transport.updated.push(
      once(async ({ dequeue: [first] }, _reply, queue) => {
        const data = first && payloads.get(keyOf(first.pid));
        if (data === undefined) return false;
        await change({ enqueue: [{ ...newTask, queue, pid: first?.pid ?? data, data }] });
        return true;
      }),
    );
    expect(violationOf(await run())).toMatch(CAME_BACK);
  });

  test('finds an update that was applied in part', async () => {
    const { run, transport } = loadSetUp();
    let isBroken = false;
    transport.changing.push((request) => {
      if (isBroken || request.enqueue.length === 0 || request.dequeue.length === 0) return request;
      isBroken = true;
      return { ...request, dequeue: [] };
    });
    expect(violationOf(await run())).toMatch(CAME_BACK);
  });

  test('finds a payload that was changed', async () => {
    const { run, transport } = loadSetUp();
    let leases = 0;
    transport.leased.push(({ tasks: [task] }) => {
      if (task !== undefined && ++leases === 20) task.data[60] = (task.data[60] ?? 0) ^ 1;
    });
    expect(violationOf(await run())).toMatch(
      /^a task of load-\d#q\d was leased whose payload no call of this run has written/,
    );
  });

  test('finds a wrong count', async () => {
    const { run, transport } = loadSetUp();
    transport.answers.getQueueStats = async (_request, send) => {
      const reply = await send();
      // Counts of queues with tasks only, so that the load ends.
      const queues = reply.queues.map((one) => (one.available > 0 ? { ...one, available: one.available + 1 } : one));
      return { ...reply, queues };
    };
    expect(violationOf(await run())).toMatch(/^\(e\) wrong count: the statistics of load-\d#q\d said \d+ tasks/);
  });

  test('is not made if the queues cannot be read at the end', async () => {
    const { start, timing, transport } = loadSetUp();
    const running = start({ keep: true });
    await timing.advance(2_005);
    transport.silent = true;
    const { verification } = await toEnd(timing, running);
    expect(verification).toMatchObject({ kind: 'failed' });
  });
});

const newTask = {
  mode: EnqueueMode.ENQUEUE_MODE_COLLAPSE,
  delayMs: 0,
  runAtUnixMs: 0,
  headers: {},
  key: '',
  timeLimitMs: 0,
  limitKey: '',
  topic: '',
  retry: undefined,
};
/** A task that was completed is in its queue, is leased again, or is completed again. */
const CAME_BACK = /^\(b\) (dequeued by #\d+, but|dequeued twice|completed or refused before, but)/;

const keyOf = (pid: Uint8Array): string => Buffer.from(pid).toString('latin1');

/** Calls the hook for each update, after the first hundred, until it returns true. */
function once(
  hook: (...args: [...Parameters<SlowTransport['updated'][number]>, queue: string]) => Promise<boolean>,
): SlowTransport['updated'][number] {
  let calls = 0;
  let isDone = false;
  return async (request, reply) => {
    const queue = [...request.enqueue, ...request.dequeue][0]?.queue;
    if (isDone || queue === undefined || ++calls < 100) return;
    isDone = await hook(request, reply, queue);
  };
}
