import { type LeasedTask, UnrecoverableError, type WorkerOptions } from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { workerSetUp } from './support/worker-set-up.ts';

const failing = (error: unknown) => (): never => {
  throw error;
};

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const withThrowing = (name: string): unknown =>
  Object.defineProperty(new Error('kept'), name, {
    get() {
      throw new Error('no');
    },
  });

/** A worker whose handler has this task once. */
async function once(handler: (task: LeasedTask<string>) => void | Promise<void>, options: WorkerOptions<string> = {}) {
  const made = workerSetUp();
  const retry = { maxAttempts: 5, backoff: { initial: '1m' } } as const;
  await made.queue.enqueue('a', { pid: 'a', retry });
  const worker = made.client.worker(made.queue, handler, {
    ...made.hooks,
    workerLabel: 'w',
    backoff: () => '1m' as const,
    ...options,
  });
  worker.start();
  await made.timing.settled();
  await worker.stop();
  return { ...made, get: async (queue = made.queue) => only(await queue.get(['a'], { data: false })) };
}

test.each([
  ['is said', {}, 1],
  ['is told to its hook', { onAttemptFailed: () => {} }, 0],
])('the end of a worker whose requests are refused %s', async (_how, hooks, count) => {
  const heard: string[] = [];
  const onWarning = ({ code, message }: Error & { code?: string }): unknown => heard.push(`${code} ${message}`);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  const { client, timing } = workerSetUp();
  const worker = client.worker(`${'a'.repeat(600)}#q`, () => {}, hooks);
  worker.start();
  await timing.settled();
  expect(worker.isRunning).toBe(false);
  expect(heard).toHaveLength(count);
  for (const warning of heard) expect(warning).toMatch(/^TASKMASTER_WORKER_ENDED .* fail: InvalidRequestError: queues/);
});

describe('a task whose handler throws', () => {
  test('keeps the error with its stack, and the worker', async () => {
    const { get } = await once(failing(new TypeError('no such address')));
    const { failures } = await get();
    expect(failures).toMatchObject([
      { attempt: 1, workerLabel: 'w', error: { message: 'TypeError: no such address' } },
    ]);
    expect(only(failures).error?.details).toContain('worker-failures.test');
  });

  test.each([
    ['text', 'just so', 'just so'],
    ['an object', { code: 7 }, '{ code: 7 }'],
    ['nothing', undefined, 'undefined'],
    ['a long message in any language', new Error('€'.repeat(1_000)), /^Error: €{167}…$/],
  ])('keeps what was thrown: %s', async (_what, thrown, message) => {
    const { get } = await once(failing(thrown));
    const { failures } = await get();
    const expected = typeof message === 'string' ? message : expect.stringMatching(message);
    expect(only(failures).error?.message).toEqual(expected);
  });

  test('keeps no properties of the error, which may be secrets, and ends at causes in a circle', async () => {
    const error = Object.assign(new Error('refused'), { headers: { authorization: 'Bearer secret' } });
    error.cause = new Error('below', { cause: error });
    const { get } = await once(failing(error));
    const { details = '' } = only((await get()).failures).error ?? {};
    expect(details).toContain('below');
    expect(details).not.toContain('secret');
  });

  test.each([
    ['a revoked proxy', revoked],
    ['an error whose message throws', () => withThrowing('message')],
    ['an error whose name is a symbol', () => Object.assign(new Error('x'), { name: Symbol('odd') })],
    ['an error whose stack throws', () => withThrowing('stack')],
  ])('is released with some text whatever was thrown: %s', async (_what, make) => {
    const { get } = await once(failing(make()), { onAttemptFailed: () => {} });
    const { state, failures } = await get();
    expect(state).toBe('delayed');
    expect(only(failures).error?.message).not.toBe('');
  });

  test('goes to its dead-letter queue at once if no retry can help', async () => {
    const { client, engine, get } = await once(failing(new UnrecoverableError('gone', { cause: new Error('why') })));
    expect(await engine.pids('g#q')).toEqual([]);
    const { failures, deadLetterFrom } = await get(client.queue('g#q.dead'));
    expect(deadLetterFrom).toBe('g#q');
    expect(only(failures).error?.message).toBe('UnrecoverableError: gone');
    expect(only(failures).error?.details).toContain('Error: why');
  });
});

describe('a function for the backoff', () => {
  test('decides by error and task, also for tasks with a retry policy', async () => {
    const asked: unknown[] = [];
    const { get, timing } = await once(failing(new Error('busy')), {
      backoff: (error, task) => {
        asked.push((error as Error).message, task.attempt);
        return '5s';
      },
    });
    expect(asked).toEqual(['busy', 1]);
    const { state, hiddenUntil } = await get();
    expect([state, hiddenUntil?.getTime()]).toEqual(['delayed', timing.now() + 5_000]);
  });

  test('may leave the decision to the policy', async () => {
    const { engine } = await once(failing(new Error('busy')), { backoff: () => undefined });
    expect(engine.updates.find(({ release }) => release.length > 0)?.release).toMatchObject([
      { delayMs: undefined, error: { message: 'Error: busy' } },
    ]);
  });

  test('that fails is reported, and the policy decides', async () => {
    const { engine, heard } = await once(failing(new Error('busy')), {
      backoff: () => {
        throw new Error('bug');
      },
    });
    expect(heard.slice(0, 2)).toEqual(['error busy in a task', 'error bug in a task']);
    expect(engine.updates.find(({ release }) => release.length > 0)?.release).toMatchObject([{ delayMs: undefined }]);
  });
});

describe('a handler may', () => {
  test.each([
    ['for a time', '10m', 600_000],
    ['until a date', new Date('2100-01-01T09:00:00Z'), undefined],
  ] as const)('snooze its task %s, without counting the attempt', async (_how, until, afterMs) => {
    const { get, timing } = await once(async (task) => void (await task.snooze(until)));
    const { state, attempts, hiddenUntil, failures } = await get();
    expect([state, attempts, failures]).toEqual(['delayed', 0, []]);
    expect(hiddenUntil).toEqual(afterMs === undefined ? until : new Date(timing.now() + afterMs));
  });

  test('discard its task', async () => {
    const { engine } = await once((task) => task.discard());
    expect([await engine.pids('g#q'), await engine.pids('g#q.dead')]).toEqual([[], []]);
  });

  test('dead-letter its task with an error', async () => {
    const { client, get } = await once(async (task) => void (await task.deadLetter('no such address')));
    const { failures } = await get(client.queue('g#q.dead'));
    expect(only(failures).error).toEqual({ message: 'no such address', details: '' });
  });
});

test('a handler reports progress, which the next attempt gets', async () => {
  const seen: (string | undefined)[] = [];
  const { get } = await once(
    async (task) => {
      seen.push(task.previousProgress);
      await task.reportProgress('page 3 of 7');
      throw new Error('crashed');
    },
    { backoff: (_error, { attempt }) => (attempt === 1 ? 0 : '1h') },
  );
  expect(seen).toEqual([undefined, 'page 3 of 7']);
  expect((await get()).progress).toMatchObject({ text: 'page 3 of 7', at: expect.any(Date) });
});

test('a task that is enqueued again while its handler runs is handled once more', async () => {
  const { client, queue, engine, heard, hooks, timing } = workerSetUp();
  await queue.enqueue('first', { pid: 'a' });
  const worker = client.worker(
    queue,
    async (task) => {
      if (task.data === 'first')
        expect(await queue.enqueue('second', { pid: 'a', mode: 'rerun' })).toMatchObject({ result: 'rerun' });
    },
    hooks,
  );
  worker.start();
  await timing.settled();
  await worker.stop();
  expect(heard).toEqual(['complete first', 'complete second']);
  expect(await engine.pids('g#q')).toEqual([]);
});
