import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { clientOver } from './client.ts';
import { bytesCodec, textCodec } from './codec.ts';
import { InvalidData, InvalidRequest, LeaseLost, TaskExists, TaskNotFound } from './errors.ts';
import type { LeasedTask } from './leased-task.ts';
import { pidText } from './pid.ts';
import { clientSetUp } from './testing/client-set-up.ts';
import { connectionLost } from './testing/fake-transport.ts';
import { settled } from './testing/manual-timing.ts';

interface Mail {
  readonly to: string;
}

/** The first of what was leased, which the test knows to be there. */
function only<T>(tasks: readonly T[]): T {
  const [first] = tasks;
  if (first === undefined || tasks.length > 1) throw new Error(`expected one task, got ${tasks.length}`);
  return first;
}

describe('enqueue', () => {
  test('tells the PID, and whether the task is new', async () => {
    const { client } = clientSetUp();
    const mail = client.queue<Mail>('shop#mail');
    const first = await mail.enqueue({ to: 'ann' });
    expect(first.result).toBe('created');
    const again = await mail.enqueue({ to: 'bob' }, { pid: first.pid });
    expect(again).toEqual({ pid: first.pid, result: 'collapsed' });
    expect((await mail.enqueue({ to: 'bob' }, { pid: first.pid, mode: 'replace' })).result).toBe('replaced');
    await expect(mail.enqueue({ to: 'cid' }, { pid: first.pid, mode: 'fail' })).rejects.toBeInstanceOf(TaskExists);
    expect(only(await mail.lease()).data).toEqual({ to: 'bob' });
  });

  test('sends what its options say', async () => {
    const { client, engine } = clientSetUp();
    await client.queue('q').enqueue(1, {
      pid: 'a',
      delay: '1m',
      retry: { maxAttempts: 3, backoff: { initial: '1s', max: '1m' }, deadLetterQueue: '#dead' },
      requestId: 'mine',
    });
    expect(engine.updates[0]).toMatchObject({
      enqueue: [
        {
          queue: 'q',
          pid: Buffer.from('a'),
          delayMs: 60_000,
          retry: { maxAttempts: 3, backoffInitialMs: 1_000, backoffMaxMs: 60_000, deadLetterQueue: 'dead' },
        },
      ],
      requestId: Buffer.from('mine'),
    });
  });

  test('has a request id of its own, so that a lost reply does no harm', async () => {
    const { client, timing, transport, engine } = clientSetUp();
    transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    const enqueuing = client.queue('q').enqueue('x');
    await timing.advance(1_000);
    expect((await enqueuing).result).toBe('created');
    expect(engine.pids('q')).toHaveLength(1);
    expect(engine.updates.map(({ requestId }) => requestId.byteLength)).toEqual([16, 16]);
  });

  test('of many keeps their order and divides them into requests', async () => {
    const { client, engine } = clientSetUp();
    const items = Array.from({ length: 2_500 }, (_, i) => ({ data: i, pid: String(i).padStart(4, '0') }));
    const outcomes = await client.queue<number>('q').enqueueMany(items);
    expect(outcomes.map(({ pid }) => pidText(pid))).toEqual(items.map(({ pid }) => pid));
    expect(engine.updates.map(({ enqueue }) => enqueue.length)).toEqual([1_000, 1_000, 500]);
  });

  test('of many divides large payloads too', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue('q', { codec: bytesCodec });
    await queue.enqueueMany(Array.from({ length: 3 }, () => ({ data: new Uint8Array(700_000) })));
    expect(engine.updates.map(({ enqueue }) => enqueue.length)).toEqual([1, 1, 1]);
  });

  test.each<[string, () => Promise<unknown> | unknown]>([
    [
      'an unknown mode',
      () =>
        clientSetUp()
          .client.queue('q')
          .enqueue(1, { mode: 'overwrite' as 'replace' }),
    ],
    ['a wrong duration', () => clientSetUp().client.queue('q').enqueue(1, { delay: -1 })],
    ['an empty request id', () => clientSetUp().client.queue('q').enqueue(1, { requestId: '' })],
    ['an empty PID', () => clientSetUp().client.queue('q').enqueue(1, { pid: '' })],
    [
      'no attempts',
      () =>
        clientSetUp()
          .client.queue('q')
          .enqueue(1, { retry: { maxAttempts: 0 } }),
    ],
    ['a queue without a name', async () => clientSetUp().client.queue('')],
    ['no tasks to lease', () => clientSetUp().client.queue('q').lease({ max: 0 })],
  ])('%s is a TypeError', async (_what, act) => {
    await expect((async () => act())()).rejects.toBeInstanceOf(TypeError);
  });
});

describe('the data of a queue', () => {
  test('has the type of its codec or its schema', () => {
    const { client } = clientSetUp();
    const schema = z.object({ at: z.string().transform((text) => new Date(text)) });
    const typed = client.queue('q', { schema });
    expectTypeOf(typed.enqueue).parameter(0).toEqualTypeOf<{ at: string }>();
    expectTypeOf(typed.lease).returns.resolves.toEqualTypeOf<LeasedTask<{ at: Date }>[]>();
    expectTypeOf(client.queue('q', { codec: textCodec }).enqueue)
      .parameter(0)
      .toEqualTypeOf<string>();
    expectTypeOf(client.queue<Mail>('q').enqueue).parameter(0).toEqualTypeOf<Mail>();
  });

  test('that does not fit its schema is not sent', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue('q', { schema: z.object({ to: z.string() }) });
    await expect(queue.enqueue({ to: 1 } as unknown as Mail)).rejects.toBeInstanceOf(InvalidData);
    expect(engine.updates).toEqual([]);
  });

  test('that cannot be read comes as a task whose data throws, and which can be dealt with', async () => {
    const { client, engine } = clientSetUp();
    await client.queue('q', { codec: textCodec }).enqueue('{');
    const task = only(await client.queue<Mail>('q').lease());
    expect(() => task.data).toThrow(InvalidData);
    expect(String(task.bytes)).toBe('{');
    await task.complete();
    expect(engine.pids('q')).toEqual([]);
  });
});

describe('a leased task', () => {
  const leaseOne = async (options = {}) => {
    const made = clientSetUp();
    const mail = made.client.queue<Mail>('shop#mail');
    await mail.enqueue({ to: 'ann' }, { pid: 'a' });
    const task = only(await mail.lease({ for: '30s', ...options }));
    return { ...made, mail, task };
  };

  test('says what it is', async () => {
    const { task } = await leaseOne();
    expect(task).toMatchObject({ queue: 'shop#mail', attempt: 1, data: { to: 'ann' } });
    expect(pidText(task.pid)).toBe('a');
    expect(task.enqueuedAt).toBeInstanceOf(Date);
    expect(task.leaseToken).toBeGreaterThan(0);
  });

  test('is completed together with what comes next, or not at all', async () => {
    const { client, engine, mail, task } = await leaseOne();
    const sent = client.queue<string>('shop#sent');
    await task.complete({ enqueue: [sent.task('ann', { pid: 's1' }), mail.task({ to: 'bob' }, { pid: 'b' })] });
    expect(engine.pids('shop#mail')).toEqual(['b']);
    expect(engine.pids('shop#sent')).toEqual(['s1']);
  });

  test('that somebody else has cannot enqueue the next stage', async () => {
    const { engine, client, mail, task, timing } = await leaseOne();
    await timing.advance(31_000);
    await mail.lease();
    const next = client.queue<string>('shop#sent').task('ann');
    await expect(task.complete({ enqueue: [next] })).rejects.toBeInstanceOf(LeaseLost);
    expect(engine.pids('shop#sent')).toEqual([]);
    expect(task.signal.reason).toBeInstanceOf(LeaseLost);
    const sent = engine.updates.length;
    await expect(task.complete()).rejects.toBeInstanceOf(LeaseLost);
    expect(engine.updates).toHaveLength(sent);
  });

  test('that expired but that nobody has taken can still be completed', async () => {
    const { engine, task, timing } = await leaseOne();
    await timing.advance(31_000);
    expect(task.signal.aborted).toBe(false); // Asked for late: the timer has yet to go off.
    await timing.advance(0);
    expect(task.signal.aborted).toBe(true);
    await task.complete();
    expect(engine.pids('shop#mail')).toEqual([]);
  });

  test('is completed once', async () => {
    const { task } = await leaseOne();
    await task.complete();
    await expect(task.complete()).rejects.toThrow(new TypeError('task a was completed already'));
    await expect(task.release()).rejects.toBeInstanceOf(TypeError);
  });

  test('whose completion failed for now can be completed later', async () => {
    const { engine, transport, task } = await leaseOne();
    transport.faults.updateTasks.push({ when: 'before', error: connectionLost() });
    await expect(task.complete({ timeout: 1 })).rejects.toMatchObject({ retryable: true });
    await task.complete();
    expect(engine.pids('shop#mail')).toEqual([]);
  });

  test('lasts longer when it is renewed', async () => {
    const { task, timing } = await leaseOne();
    const { signal } = task;
    await timing.advance(20_000);
    await task.renew();
    await timing.advance(29_000);
    expect(signal.aborted).toBe(false);
    await timing.advance(1_000);
    expect(signal.aborted).toBe(true);
    await expect(task.renew()).rejects.toMatchObject({ name: 'LeaseExpired' });
  });

  test('is given back, at once or later, with or without counting the attempt', async () => {
    const { mail, task, timing } = await leaseOne();
    await task.release({ refundAttempt: true });
    const again = only(await mail.lease());
    expect(again.attempt).toBe(1);
    const { hiddenUntil } = await again.release({ delay: '10s' });
    expect(hiddenUntil?.getTime()).toBe(timing.now() + 10_000);
    expect(await mail.lease()).toEqual([]);
    await timing.advance(10_000);
    expect(only(await mail.lease()).attempt).toBe(2);
  });

  test('tells of the dead-letter queue when that was its last attempt', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue('q');
    await queue.enqueue(1, { pid: 'a', retry: { maxAttempts: 1 } });
    expect(await only(await queue.lease()).release()).toMatchObject({ deadLetterQueue: 'q.dead' });
    expect(engine.pids('q.dead')).toEqual(['a']);
  });
});

describe('a lease that waits', () => {
  test('counts from when the answer can have left the node, not from when the request was sent', async () => {
    const { client, timing } = clientSetUp();
    const queue = client.queue('q');
    const leasing = queue.lease({ wait: '1m', for: '10s' });
    await timing.advance(50_000);
    await queue.enqueue(1);
    const { signal } = only(await leasing);
    await timing.advance(9_800);
    expect(signal.aborted).toBe(false);
    await timing.advance(200);
    expect(signal.aborted).toBe(true);
  });

  test('is given up at once, and what was leased to it in the meantime is given back', async () => {
    const { client, engine, transport } = clientSetUp();
    const queue = client.queue('q');
    await queue.enqueue(1, { pid: 'a' });
    const giveUp = new AbortController();
    const lease = transport.leaseTasks.bind(transport);
    const answer = Promise.withResolvers<void>();
    transport.leaseTasks = async (request) => {
      const reply = await lease(request);
      await answer.promise;
      return reply;
    };
    const leasing = queue.lease({ signal: giveUp.signal });
    await settled();
    giveUp.abort();
    await expect(leasing).rejects.toMatchObject({ reason: 'CANCELLED' });
    answer.resolve();
    await client.close();
    expect(engine.updates.at(-1)).toMatchObject({ release: [{ queue: 'q', refundAttempt: true, delayMs: 0 }] });
  });
});

describe('several queues', () => {
  test('are leased from in order, each task read as its queue says', async () => {
    const { client } = clientSetUp();
    const urgent = client.queue('shop#urgent', { codec: textCodec });
    const mail = client.queue<Mail>('shop#mail');
    await mail.enqueue({ to: 'ann' });
    await urgent.enqueue('now');
    const tasks = await client.lease({ queues: [urgent, mail], max: 10 });
    expectTypeOf(tasks).toEqualTypeOf<LeasedTask<string | Mail>[]>();
    expect(tasks.map(({ queue, data }) => [queue, data])).toEqual([
      ['shop#urgent', 'now'],
      ['shop#mail', { to: 'ann' }],
    ]);
  });

  test('have one spelling each', async () => {
    const { client } = clientSetUp();
    await client.queue('#mail').enqueue(1);
    expect(await client.lease({ queues: ['mail', '#mail'], max: 5 })).toHaveLength(1);
  });
});

describe('an update', () => {
  test('does everything or nothing', async () => {
    const { client, engine } = clientSetUp();
    const a = client.queue<string>('g#a');
    const b = client.queue<string>('g#b');
    await a.enqueueMany([
      { data: '1', pid: '1' },
      { data: '2', pid: '2' },
      { data: '3', pid: '3' },
    ]);
    const [first, second, third] = await a.lease({ max: 3 });
    if (first === undefined || second === undefined || third === undefined) throw new Error('three were enqueued');
    const { enqueued, renewed, released } = await client
      .update()
      .complete(first)
      .renew(second, '2m')
      .release(third, { delay: '5s' })
      .enqueue(b, 'x', { pid: 'x' })
      .enqueue('g#json', { any: 'thing' })
      .commit();
    expect([enqueued.length, renewed.length, released.length]).toEqual([2, 1, 1]);
    expect(engine.pids('g#a')).toEqual(['2', '3']);
    await expect(client.update().enqueue(b, 'y').dequeue(a, 'none').commit()).rejects.toBeInstanceOf(TaskNotFound);
    expect(engine.pids('g#b')).toEqual(['x']);
  });

  test('over two groups is refused before it is sent', async () => {
    const { client, engine } = clientSetUp();
    const update = client.update().enqueue('g#a', 1).enqueue('h#a', 1);
    await expect(update.commit()).rejects.toMatchObject({ name: 'InvalidRequest', reason: 'MIXED_GROUPS' });
    expect(engine.updates).toEqual([]);
  });

  test('without items is refused, and one is committed once', async () => {
    const { client } = clientSetUp();
    const update = client.update();
    await expect(update.commit()).rejects.toBeInstanceOf(InvalidRequest);
    await expect(update.commit()).rejects.toBeInstanceOf(TypeError);
  });

  test('that is refused leaves the tasks that were not at fault in hand', async () => {
    const { client, mail } = await (async () => {
      const made = clientSetUp();
      const queue = made.client.queue<string>('mail');
      await queue.enqueueMany([
        { data: '1', pid: '1' },
        { data: '2', pid: '2' },
      ]);
      return { ...made, mail: queue };
    })();
    const [first, second] = await mail.lease({ max: 2 });
    if (first === undefined || second === undefined) throw new Error('two were enqueued');
    await client.update().dequeue(mail, '2').commit();
    await expect(client.update().complete(first).complete(second).commit()).rejects.toMatchObject({
      items: [{ kind: 'dequeue', index: 1, reason: 'TASK_NOT_FOUND' }],
    });
    await expect(second.complete()).rejects.toBeInstanceOf(TaskNotFound);
    await first.complete();
  });

  test('that completes one task twice changes nothing, not even what is known of the task', async () => {
    const { client } = clientSetUp();
    const queue = client.queue('q');
    await queue.enqueue(1);
    const task = only(await queue.lease());
    await expect(client.update().complete(task).release(task).commit()).rejects.toBeInstanceOf(TypeError);
    await task.complete();
  });
});

describe('looking at queues', () => {
  test('shows tasks without leasing them', async () => {
    const { client } = clientSetUp();
    const queue = client.queue<Mail>('q');
    await queue.enqueue({ to: 'ann' }, { pid: 'a' });
    await queue.lease({ worker: 'w1' });
    expect(only(await queue.peek({ kind: 'leased' }))).toMatchObject({
      state: 'leased',
      worker: 'w1',
      data: { to: 'ann' },
    });
    const [found, missing] = await queue.get(['a', 'b'], { data: false });
    expect(found).toMatchObject({ state: 'leased', attempts: 1, bytes: undefined });
    expect(() => found?.data).toThrow(InvalidData);
    expect(missing).toMatchObject({ state: 'not-found', hiddenUntil: undefined });
  });

  test('counts them', async () => {
    const { client } = clientSetUp();
    const queue = client.queue<number>('g#a');
    await queue.enqueueMany([{ data: 1 }, { data: 2 }, { data: 3, delay: '1h' }]);
    await queue.lease();
    expect(await queue.stats()).toMatchObject({ available: 1, leased: 1, delayed: 1 });
    expect((await client.stats({ queues: [queue, 'none'] })).totals).toMatchObject({ queues: 2, available: 1 });
    expect(await client.stats({ queues: [] })).toMatchObject({ queues: [] });
  });

  test('lists them page by page', async () => {
    const { client } = clientSetUp();
    for (const name of ['c', 'a', 'b']) await client.queue(name).enqueue(1);
    const names: string[] = [];
    for await (const { queue } of client.listQueues({ pageSize: 2 })) names.push(queue);
    expect(names).toEqual(['a', 'b', 'c']);
  });

  test('deletes them and takes their leases away', async () => {
    const { client } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueueMany([{ data: 1 }, { data: 2 }]);
    const task = only(await queue.lease());
    expect(await queue.resetLeases()).toBe(1);
    await expect(task.complete()).rejects.toBeInstanceOf(LeaseLost);
    expect(await queue.delete()).toBe(2);
  });
});

test('closing the client closes its transport', async () => {
  const { transport } = clientSetUp();
  {
    await using client = clientOver(transport);
    await client.close();
  }
  expect(transport.closed).toBe(true);
});
