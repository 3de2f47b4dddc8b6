import { once } from 'node:events';
import type { LeasedTask, TaskMasterClient, WorkerOptions } from '@taskmaster/client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

const MODULE = new URL('./support/thread-handler.ts', import.meta.url);

type Order = { readonly do: string; readonly value?: number };

function setUp(options: WorkerOptions<Order> = {}, module = MODULE) {
  const made = clientSetUp();
  const orders = made.client.queue<Order>('g#orders');
  const ended = new Map<string, PromiseWithResolvers<string>>();
  const endOf = (pid: string): PromiseWithResolvers<string> => {
    const end = ended.get(pid) ?? Promise.withResolvers<string>();
    ended.set(pid, end);
    return end;
  };
  const text = (task: LeasedTask<Order> | undefined): string => task?.id ?? '';
  const worker = made.client.worker(orders, module, {
    concurrency: 2,
    onTaskCompleted: (task) => endOf(text(task)).resolve('completed'),
    onAttemptFailed: (error, task) => endOf(text(task)).resolve(`failed: ${error}`),
    onTaskCancelled: (task) => endOf(text(task)).resolve('cancelled'),
    ...options,
  });
  onTestFinished(async () => {
    const stopping = worker.stop({ timeout: 0 });
    await made.timing.advance(2_000);
    await stopping;
    await made.client.close();
  });
  /** Enqueues a task. Resolves with how its attempt ends. */
  const run = async (what: string, value?: number, pid = what): Promise<string> => {
    await orders.enqueue({ do: what, ...(value === undefined ? {} : { value }) }, { pid, retry: { maxAttempts: 1 } });
    return endOf(pid).promise;
  };
  worker.start();
  return { ...made, orders, worker, run };
}

/** How a wait for a task ends, which its worker does not tell before. */
const endIn = (client: TaskMasterClient, pid: string) => client.queue('g#orders').waitForEnd(pid);

describe('a handler in a thread', () => {
  test('returns results and plain tasks to enqueue, reports, and throws errors', async () => {
    const { client, orders, run } = setUp();
    expect(await run('return', 21)).toBe('completed');
    expect(await orders.waitFor('return')).toEqual({ twice: 42, id: 'return', pid: 'return', attempt: 1 });
    expect(await run('log')).toBe('completed');
    const logged = expect.stringMatching(/^\{"queue":"g#orders","id":"log","attempt":1,"leaseToken":\d+\}$/);
    const shown = expect.stringMatching(/^ThreadTask \{(?!.*Uint8Array).*data: \{ do: 'log' \}/s);
    expect(await orders.waitFor('log')).toEqual([logged, shown]);
    expect(await run('enqueue', 7)).toBe('completed');
    expect(await client.queue('g#next').peek()).toMatchObject([
      { id: 'next', data: { value: 7 }, headers: { by: 'g#orders' } },
    ]);
    expect(await run('throw')).toBe('failed: ConnectionError: no answer');
    await orders.waitForEnd('throw');
    const [failure] = (await client.queue('g#orders.dead').get(['throw']))[0]?.failures ?? [];
    expect(failure?.error?.details).toContain('thread-handler.ts');
    expect(failure?.error?.details).toContain('caused by TypeError: the cause');
    expect(await run('misspell')).toContain('enqueue: there is no dealy, did you mean delay?');
    expect(await run('function')).toContain('could not be cloned');
    expect(await run('report')).toBe('failed: Error: later');
    await orders.waitForEnd('report');
    const [reported] = await client.queue('g#orders.dead').get(['report']);
    expect(reported?.progress?.text).toMatch(/Error$/);
    expect(reported?.checkpointBytes).toBe(4);
  });

  test('that gives up ends the attempts', async () => {
    const { client, orders } = setUp();
    await orders.enqueue({ do: 'give up' }, { pid: 'a' });
    expect(await endIn(client, 'a')).toMatchObject({ outcome: 'dead-lettered', attempts: 1 });
  });

  test('that dies fails alone, and the next task has a new thread', async () => {
    const { run } = setUp({ resourceLimits: { maxOldGenerationSizeMb: 16 } });
    const waiting = run('wait for the abort');
    expect(await run('exit')).toBe('failed: Error: the thread of the handler has ended: with code 3');
    expect(await run('crash')).toBe('failed: Error: the thread of the handler has ended: nobody catches this');
    expect(await run('exhaust memory')).toContain('the thread of the handler has ended: Worker terminated due to');
    expect(await run('return')).toBe('completed');
    expect(await Promise.race([waiting, 'waits'])).toBe('waits');
  });

  test('hears of the abort, and runs within the middleware', async () => {
    const seen: string[] = [];
    const { orders, worker, run, timing } = setUp();
    worker.use(async (task, next) => {
      // The handler of this task runs when this resolves.
      seen.push(task.data.do);
      const running = next();
      await orders.cancel(task.pid, { reason: 'too late' });
      await task.renew();
      await running.catch((error: Error) => {
        seen.push(`${error}`);
        throw error;
      });
    });
    const ended = run('wait for the abort');
    await timing.settled();
    expect(await ended).toBe('cancelled');
    expect(seen).toEqual(['wait for the abort', 'Stopped: TaskCancelledError too late']);
  });

  test('that goes on after an abort is ended with its thread', async () => {
    const { orders, worker, run, timing } = setUp();
    const aborted = Promise.withResolvers<void>();
    worker.use(async (task, next) => {
      if (task.data.do === 'block') void once(task.signal, 'abort').then(() => aborted.resolve());
      const running = next();
      if (task.data.do === 'block') {
        await orders.cancel(task.pid);
        await task.renew();
      }
      await running;
    });
    const ended = run('block');
    await aborted.promise;
    expect(await run('return')).toBe('completed');
    await timing.advance(5_000);
    expect(await ended).toBe('cancelled');
  });

  test('is ended by a stop, and runs again after the next start', async () => {
    const { orders, worker, run, timing } = setUp();
    void run('block');
    await timing.settled();
    expect(worker.active).toBe(1);
    const stopping = worker.stop({ timeout: 0 });
    await timing.advance(2_000);
    await stopping;
    expect((await orders.get(['block']))[0]).toMatchObject({ state: 'available', attempts: 0, interruptions: 1 });
    await orders.cancel('block');
    worker.start();
    expect(await run('return')).toBe('completed');
  });

  test('whose module cannot be loaded fails its tasks', async () => {
    const broken = setUp({}, new URL('data:text/javascript,throw new Error("broken")'));
    expect(await broken.run('return')).toBe('failed: Error: broken');
    const wrong = setUp({}, new URL('data:text/javascript,export default 1'));
    expect(await wrong.run('return')).toContain('has no function as its default export');
  });

  test.each([
    ['./handler.js', {}, 'the handler must be a function, or the URL'],
    [undefined, {}, 'the handler must be a function, or the URL'],
    [() => {}, { resourceLimits: {} }, 'resourceLimits: the handler runs in this thread'],
    [MODULE, { batch: { max: 2 } }, 'batch: a handler in a thread gets single tasks'],
  ])('is no %j with %j', (handler, options, problem) => {
    const { client } = clientSetUp();
    expect(() => client.worker('g#q', handler as never, options as never)).toThrow(problem);
  });
});
