import { type Handler, handle, type LeasedTask } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import {
  type AboutTask,
  assertEnqueued,
  cancelTask,
  enqueued,
  enqueuedMatchers,
  fakeTask,
  openMemory,
  runUntilEmpty,
  TestClock,
} from './in-memory.ts';

expect.extend(enqueuedMatchers);

declare module 'vitest' {
  interface Matchers<R extends void | Promise<void> = void | Promise<void>, T = unknown> {
    toHaveEnqueued(data?: unknown, about?: AboutTask): Promise<void>;
  }
}

interface Mail {
  readonly to: string;
}

describe('a fake task', () => {
  test('has the data as it is, and what the options say', async () => {
    const data = { at: new Date(0), count: 1n };
    const task = await fakeTask(data, {
      queue: 'shop#mail',
      pid: 'order-17',
      key: 'k',
      kind: 'letter@2',
      headers: { tenant: 'acme' },
      attempt: 3,
      progress: 'page 2',
      checkpoint: Buffer.from('2'),
      timeLimit: '5m',
    });
    expect(task.data).toBe(data);
    expect(task).toMatchObject({ queue: 'shop#mail', id: 'order-17', key: 'k', kind: 'letter@2', attempt: 3 });
    expect(task).toMatchObject({ headers: { tenant: 'acme' }, previousProgress: 'page 2', timeLimitMs: 300_000 });
    expect(Buffer.from(task.previousCheckpoint ?? []).toString()).toBe('2');
    expect(await fakeTask(undefined)).toMatchObject({ queue: 'test#tasks', attempt: 1, data: undefined });
  });

  test('is a real one: what a handler does with it can be seen', async () => {
    const task = await fakeTask<Mail>({ to: 'ann' });
    const { client } = task;
    await task.complete({ result: 1, enqueue: [client.queue<Mail>('test#sent').task({ to: 'ann' })] });
    expect(await client.queue(task.queue).waitFor(task.pid)).toBe(1);
    await expect(client.queue('test#sent')).toHaveEnqueued({ to: 'ann' });
    await expect(task.complete()).rejects.toThrow(TypeError);
    const other = await fakeTask('x');
    await other.snooze('1h');
    expect(await other.client.queue(other.queue).get([other.pid])).toMatchObject([{ state: 'delayed', attempts: 0 }]);
  });

  test('can be cancelled', async () => {
    const task = await fakeTask('x');
    const handler: Handler<string> = ({ signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    const running = Promise.resolve(handler(task as LeasedTask<string>));
    cancelTask(task, 'too late');
    await expect(running).rejects.toMatchObject({ name: 'TaskCancelledError', cancelReason: 'too late' });
  });

  test.each([
    [{ attempts: 2 }, 'did you mean attempt?'],
    [{ delay: '1h' }, 'there is no delay'],
    [{ attempt: 0 }, 'not a whole number from 1'],
    [{ attempt: 3, retry: { maxAttempts: 2 } }, 'more than the task has'],
    [{ kind: '' }, /kind/i],
  ])('is not made with %j', async (options, problem) => {
    await expect(fakeTask('x', options as never)).rejects.toThrow(problem);
  });
});

describe('runUntilEmpty', () => {
  const setUp = async () => {
    const clock = new TestClock();
    const client = await openMemory({ clock });
    return { clock, client, mail: client.queue<Mail>('test#mail'), sent: client.queue<string>('test#sent') };
  };

  test('runs all tasks, also those that their handlers enqueue, and stops the worker', async () => {
    const { client, mail, sent } = await setUp();
    await mail.enqueueMany(['ann', 'bob', 'eve'].map((to) => ({ data: { to } })));
    const worker = client.worker(mail, async ({ data }) => ({
      enqueue: data.to === 'eve' ? [mail.task({ to: 'zoe' })] : [sent.task(data.to)],
    }));
    expect(await runUntilEmpty(worker)).toEqual({ handled: 4, errors: [] });
    expect(worker.isRunning).toBe(false);
    expect((await enqueued(sent)).map(({ data }) => data)).toEqual(['ann', 'bob', 'zoe']);
    await mail.enqueue({ to: 'ann' });
    expect(await runUntilEmpty(worker)).toEqual({ handled: 1, errors: [] });
    await client.close();
  });

  test('travels through delays and backoffs with the clock of the queue', async () => {
    const { clock, client, mail } = await setUp();
    const at: string[] = [];
    await mail.enqueue(
      { to: 'ann' },
      { delay: '1h', retry: { maxAttempts: 3, backoff: { initial: '1d', max: '1d' } } },
    );
    const worker = client.worker(mail, ({ attempt }) => {
      at.push(clock.now().toISOString().slice(0, 10));
      throw new Error(`no. ${attempt}`);
    });
    const { handled, errors } = await runUntilEmpty(worker, { clock });
    expect(handled).toBe(0);
    expect(errors.map(String)).toEqual(['Error: no. 1', 'Error: no. 2', 'Error: no. 3']);
    expect(at).toHaveLength(3);
    expect(await client.queue('test#mail.dead').stats()).toMatchObject({ available: 1 });
    await client.close();
  });

  test('runs batches, all queues of client.workers, and a worker that runs already', async () => {
    const { clock, client, mail, sent } = await setUp();
    await mail.enqueueMany(['ann', 'bob'].map((to) => ({ data: { to } })));
    const workers = client.workers([
      handle(mail, (tasks) => tasks.map(({ data }) => ({ enqueue: [sent.task(data.to)] })), {
        batch: { max: 5, maxWait: '1m' },
      }),
      handle(sent, () => {}),
    ]);
    workers.start();
    expect(await runUntilEmpty(workers, { clock })).toEqual({ handled: 3, errors: [] });
    expect(workers.workers.every(({ isRunning }) => isRunning)).toBe(true);
    await clock.run(workers.stop());
    await client.close();
  });

  test('fails if tasks are left, with what the handler threw', async () => {
    const { clock, client, mail } = await setUp();
    await mail.enqueue({ to: 'ann' });
    const worker = client.worker(mail, () => {
      throw new Error('no mail server');
    });
    const left = runUntilEmpty(worker);
    await expect(left).rejects.toThrow('tasks are left: test#mail (1 delayed)');
    await expect(left).rejects.toMatchObject({ cause: { message: 'no mail server' } });
    expect(worker.isRunning).toBe(false);
    await expect(runUntilEmpty(worker, { clock, within: '1ms' })).rejects.toThrow('1 delayed');
    await mail.pause();
    await mail.enqueue({ to: 'bob' });
    await expect(runUntilEmpty(worker, { clock })).rejects.toThrow('2 available');
    await client.close();
  });

  test('refuses options that do not exist', async () => {
    const { client, mail } = await setUp();
    await expect(
      runUntilEmpty(
        client.worker(mail, () => {}),
        { clok: 1 } as never,
      ),
    ).rejects.toThrow('did you mean clock?');
  });
});

describe('what a queue has', () => {
  const setUp = async () => {
    const client = await openMemory({ clock: new TestClock() });
    const mail = client.queue<Mail>('test#mail');
    await mail.enqueue({ to: 'bob' }, { pid: 'b', delay: '1h', headers: { tenant: 'acme' } });
    await mail.enqueue({ to: 'ann' }, { pid: 'a', key: 'order-17' });
    await mail.enqueue({ to: 'leased' }, { pid: '0' });
    await mail.lease();
    return { client, mail };
  };

  test('is listed in the order of the PIDs, without what is leased', async () => {
    const { mail } = await setUp();
    expect((await enqueued(mail)).map(({ data, state }) => [data.to, state])).toEqual([
      ['ann', 'available'],
      ['bob', 'delayed'],
    ]);
  });

  test('is asserted by matchers, also with asymmetric ones', async () => {
    const { client, mail } = await setUp();
    await expect(mail).toHaveEnqueued();
    await expect(mail).toHaveEnqueued({ to: 'ann' });
    await expect(mail).toHaveEnqueued({ to: expect.stringMatching(/^b/) }, { state: 'delayed' });
    await expect(mail).toHaveEnqueued(expect.anything(), { headers: { tenant: 'acme' } });
    await expect(mail).not.toHaveEnqueued({ to: 'leased' });
    await expect(mail).not.toHaveEnqueued({ to: 'ann' }, { key: 'order-18' });
    await expect(client.queue('test#other')).not.toHaveEnqueued();
    await expect(expect(mail).toHaveEnqueued({ to: 'eve' }, { id: 'e' })).rejects.toThrow(
      "expected test#mail to have a task with { to: 'eve' } and { id: 'e' }; it has [ { to: 'ann' }, { to: 'bob' } ]",
    );
    await expect(expect(mail).not.toHaveEnqueued({ to: 'ann' })).rejects.toThrow('expected test#mail not to have');
  });

  test('is not asserted by mistake: a value or a field that does not exist matches nothing', async () => {
    const { mail } = await setUp();
    await expect(mail).not.toHaveEnqueued(undefined);
    await expect(mail).not.toHaveEnqueued(undefined, { key: 'order-18' });
    await expect(mail).toHaveEnqueued(undefined, { key: 'order-17' });
    const misspelt = { kye: 'order-17' } as never;
    await expect(expect(mail).not.toHaveEnqueued({ to: 'eve' }, misspelt)).rejects.toThrow('did you mean key?');
    await expect(assertEnqueued(mail, { to: 'ann' }, misspelt)).rejects.toThrow('did you mean key?');
    await expect(enqueued('test#mail' as never)).rejects.toThrow('must be a queue of a client');
  });

  test('is asserted without matchers', async () => {
    const { mail } = await setUp();
    await assertEnqueued(mail, { to: 'ann' });
    await assertEnqueued(mail, { to: 'ann' }, { key: 'order-17', state: 'available' });
    const missing = assertEnqueued(mail, { to: 'eve' }, { key: 'k' });
    await expect(missing).rejects.toMatchObject({
      code: 'ERR_ASSERTION',
      message: "test#mail has no such task and { key: 'k' }",
      actual: [{ to: 'ann' }, { to: 'bob' }],
      expected: [{ to: 'eve' }],
    });
  });
});

test('a clock is advanced to an instant, and not back', async () => {
  const clock = new TestClock(new Date('2030-01-01'));
  await using client = await openMemory({ clock });
  await client.queue('mail').enqueue('a', { runAt: new Date('2030-01-01T00:01:00Z') });
  await clock.advanceTo(new Date('2030-01-01T00:01:00Z'));
  expect(await client.queue('mail').lease()).toHaveLength(1);
  await expect(clock.advanceTo(new Date('2030-01-01'))).rejects.toThrow(TypeError);
  await expect(clock.advanceTo(new Date('never'))).rejects.toThrow(TypeError);
});

test('a clock that jumps is there at once, and what was due has happened', async () => {
  const clock = new TestClock(new Date('2030-01-01'));
  await using client = await openMemory({ clock });
  const mail = client.queue('mail');
  await mail.enqueue('a', { delay: '20d' });
  await mail.enqueue('b', { delay: '40d' });
  await client.schedules.put('daily', { queue: 'daily', data: 1, cron: '0 0 * * *' });
  await clock.jump('31d');
  expect(clock.now()).toEqual(new Date('2030-02-01'));
  expect((await mail.lease({ max: 9 })).map(({ data }) => data)).toEqual(['a']);
  // Of the runs that it has missed, the schedule enqueues the latest.
  expect(await client.queue('daily').stats()).toMatchObject({ available: 1 });
  expect(() => clock.jump(-1)).toThrow(TypeError);
});
