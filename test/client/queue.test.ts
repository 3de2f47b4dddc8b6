import { bytesCodec, pidText, TaskExistsError } from '@taskmaster/client';
import { connectionLost, only } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

interface Mail {
  readonly to: string;
}

describe('enqueue', () => {
  test('returns the PID, and whether the task is new', async () => {
    const { client } = clientSetUp();
    const mail = client.queue<Mail>('shop#mail');
    const first = await mail.enqueue({ to: 'ann' });
    expect(first.result).toBe('created');
    const again = await mail.enqueue({ to: 'bob' }, { pid: first.pid });
    expect(again).toEqual({ pid: first.pid, result: 'collapsed', leased: false });
    expect((await mail.enqueue({ to: 'bob' }, { pid: first.pid, mode: 'replace' })).result).toBe('replaced');
    await expect(mail.enqueue({ to: 'cid' }, { pid: first.pid, mode: 'fail' })).rejects.toBeInstanceOf(TaskExistsError);
    expect(only(await mail.lease()).data).toEqual({ to: 'bob' });
  });

  test.each(['collapse', 'replace'] as const)('tells whether the task is leased, which it meets: %s', async (mode) => {
    const { client } = clientSetUp();
    const mail = client.queue<Mail>('shop#mail');
    const { pid } = await mail.enqueue({ to: 'ann' });
    expect(await mail.enqueue({ to: 'bob' }, { pid, mode })).toMatchObject({ leased: false });
    const task = only(await mail.lease());
    expect(await mail.enqueue({ to: 'cid' }, { pid, mode })).toMatchObject({ leased: true });
    await task.complete();
    expect(await mail.enqueue({ to: 'dan' }, { pid, mode })).toMatchObject({ result: 'created', leased: false });
  });

  test('refuses headers that a receiver would get as another text', async () => {
    const { client, engine } = clientSetUp();
    const enqueue = (value: string) => client.queue('q').enqueue(1, { pid: 'a', headers: { tenant: value } });
    await expect(enqueue('acme\ud800')).rejects.toThrow('the value of tenant has a lone surrogate');
    expect(await engine.pids('q')).toEqual([]);
    await enqueue('acme\ud83d\ude00');
  });

  test('sends its options', async () => {
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

  test('has its own request id, so that a lost reply does no harm', async () => {
    const { client, timing, transport, engine } = clientSetUp();
    transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    const enqueuing = client.queue('q').enqueue('x');
    await timing.advance(1_000);
    expect((await enqueuing).result).toBe('created');
    expect(await engine.pids('q')).toHaveLength(1);
    expect(engine.updates.map(({ requestId }) => requestId.byteLength)).toEqual([16, 16]);
  });

  test('of many keeps their order and divides them into requests', async () => {
    const { client, engine } = clientSetUp();
    const items = Array.from({ length: 2_500 }, (_, i) => ({ data: i, pid: String(i).padStart(4, '0') }));
    const outcomes = await client.queue<number>('q').enqueueMany(items);
    expect(outcomes.map(({ pid }) => pidText(pid))).toEqual(items.map(({ pid }) => pid));
    expect(engine.updates.map(({ enqueue }) => enqueue.length)).toEqual([1_000, 1_000, 500]);
  });

  test('of many under one request id can be repeated as a whole after any interruption', async () => {
    const { client, transport, engine } = clientSetUp({ retry: { maxAttempts: 1 } });
    const queue = client.queue<number>('q');
    const items = Array.from({ length: 2_500 }, (_, data) => ({ data }));
    const once = () => queue.enqueueMany(items, { requestId: 'import-17' });
    transport.faults.updateTasks.push(undefined, { when: 'after', error: connectionLost() });
    await expect(once()).rejects.toMatchObject({ maybeApplied: true });
    transport.faults.updateTasks.push(undefined, undefined, { when: 'before', error: connectionLost() });
    await expect(once()).rejects.toMatchObject({ reason: 'UNAVAILABLE' });
    const outcomes = await once();
    expect(outcomes.map(({ result }) => result)).toEqual(items.map(() => 'created'));
    expect(await once()).toEqual(outcomes);
    expect(await engine.pids('q')).toEqual(outcomes.map(({ pid }) => pidText(pid)));
  });

  test('of many under the request id of other tasks is refused', async () => {
    const { client } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueueMany([{ data: 1 }], { requestId: 'import-17' });
    const other = queue.enqueueMany([{ data: 2 }], { requestId: 'import-17' });
    await expect(other).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
    await queue.enqueueMany([{ data: 2 }], { requestId: 'import-18' });
    await expect(queue.enqueueMany([{ data: 3 }], { requestId: '' })).rejects.toBeInstanceOf(TypeError);
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
    ...['key', 'orderKey', 'limitKey', 'kind'].map((name): [string, () => Promise<unknown>] => [
      `an empty ${name}`,
      () =>
        clientSetUp()
          .client.queue('q')
          .enqueue(1, { [name]: '' }),
    ]),
    ['a signal with an empty id', () => clientSetUp().client.queue('q').signal('a', { id: '' })],
    [
      'no attempts',
      () =>
        clientSetUp()
          .client.queue('q')
          .enqueue(1, { retry: { maxAttempts: 0 } }),
    ],
    ['a queue without a name', async () => clientSetUp().client.queue('')],
    ...[[], '', 'resize@2'].flatMap((kinds): [string, () => Promise<unknown> | unknown][] => [
      [
        `${JSON.stringify(kinds)} as the kinds of a lease`,
        () =>
          clientSetUp()
            .client.queue('q')
            .lease({ kinds: kinds as never }),
      ],
      [
        `${JSON.stringify(kinds)} as the kinds of a look`,
        () =>
          clientSetUp()
            .client.queue('q')
            .peek({ kinds: kinds as never }),
      ],
      [
        `${JSON.stringify(kinds)} as the kinds of a worker`,
        async () => clientSetUp().client.worker('q', () => {}, { kinds: kinds as never }),
      ],
    ]),
    ['no tasks to lease', () => clientSetUp().client.queue('q').lease({ max: 0 })],
  ])('%s is a TypeError', async (_what, act) => {
    await expect((async () => act())()).rejects.toBeInstanceOf(TypeError);
  });
});

describe('a task with a key', () => {
  test('is found wherever it is, in the order of the names', async () => {
    const { client } = clientSetUp();
    const orders = client.queue<number>('shop#orders');
    await orders.enqueue(17, { pid: '5', key: 'order-17' });
    await orders.enqueue(17, { pid: '1', key: 'order-17', mode: 'replace' });
    await orders.enqueue(18, { pid: '2' });
    const seen = await orders.get([{ key: 'order-17' }, '2', { key: 'order-18' }, '5', '1']);
    expect(seen.map(({ pid, key, state }) => [pidText(pid), key, state])).toEqual([
      ['1', 'order-17', 'available'],
      ['2', undefined, 'available'],
      ['', 'order-18', 'not-found'],
      ['5', undefined, 'not-found'],
      ['1', 'order-17', 'available'],
    ]);
    expect(seen[0]?.data).toBe(17);
  });

  test('is rescheduled, removed and cancelled by its key', async () => {
    const { client } = clientSetUp();
    const orders = client.queue<number>('shop#orders');
    const name = { key: 'order-17' };
    const stateOf = async () => (await orders.get([name], { data: false }))[0]?.state;
    for (const remove of [() => orders.cancel(name), () => client.update().dequeue(orders, name).commit()]) {
      await orders.enqueue(17, { pid: '5', ...name });
      expect(await orders.reschedule(name, '1h')).toBeInstanceOf(Date);
      expect(await stateOf()).toBe('delayed');
      await remove();
      expect(await stateOf()).toBe('not-found');
      await expect(remove()).rejects.toMatchObject({ name: 'TaskNotFoundError', items: [{ key: 'order-17' }] });
    }
    for (const wrong of [{ key: '' }, { key: 17 }, {}, null]) {
      await expect(orders.cancel(wrong as never), JSON.stringify(wrong)).rejects.toBeInstanceOf(TypeError);
    }
  });
});

describe('a delayed task', () => {
  test('is hidden until a date, which can be changed', async () => {
    const { client, engine, timing } = clientSetUp();
    const mail = client.queue<string>('shop#mail');
    const runAt = new Date('2100-01-01T09:00:00Z');
    await mail.enqueue('a', { pid: 'a', runAt });
    expect(only(await mail.get(['a'])).hiddenUntil).toEqual(runAt);
    const later = new Date('2100-01-02T09:00:00Z');
    expect(await mail.reschedule('a', later)).toEqual(later);
    expect(await mail.reschedule('a', '5m')).toEqual(new Date(timing.now() + 300_000));
    expect(await mail.reschedule('a', 0)).toBeUndefined();
    expect(engine.updates.at(-1)?.release).toMatchObject([{ waiting: true, leaseToken: 0, delayMs: 0 }]);
    expect(await mail.lease()).toHaveLength(1);
    await expect(mail.reschedule('a', '5m')).rejects.toMatchObject({ reason: 'TASK_LEASED' });
  });

  test.each([
    ['a delay and a date', { delay: 1, runAt: new Date() }],
    ['an invalid date', { runAt: new Date('never') }],
    ['text for a date', { runAt: '2030-01-01' as never }],
  ])('is not enqueued with %s', async (_what, options) => {
    const { client } = clientSetUp();
    await expect(client.queue('q').enqueue('a', options)).rejects.toBeInstanceOf(TypeError);
  });
});

describe('a task with a time limit', () => {
  test('shows it to its worker and to everyone', async () => {
    const { client } = clientSetUp();
    const mail = client.queue<string>('shop#mail');
    await mail.enqueueMany([
      { data: 'a', pid: 'a', timeLimit: '5m' },
      { data: 'b', pid: 'b' },
    ]);
    expect((await mail.get(['a', 'b'])).map(({ timeLimitMs }) => timeLimitMs)).toEqual([300_000, undefined]);
    const leased = await mail.lease({ max: 2, leaseDuration: '1h' });
    expect(leased.map(({ timeLimitMs }) => timeLimitMs)).toEqual([300_000, undefined]);
    const lasts = leased.map(({ leaseUntil }) => Math.round((leaseUntil.getTime() - Date.now()) / 60_000));
    expect(lasts).toEqual([5, 60]);
  });

  test.each([0, -1, Number.NaN, '1 day'])('is not enqueued with %s', async (timeLimit) => {
    const { client } = clientSetUp();
    const enqueueing = client.queue('q').enqueue('a', { timeLimit: timeLimit as never });
    await expect(enqueueing).rejects.toThrow('timeLimit: ');
  });
});

describe('a name with more than one #', () => {
  test('is refused wherever a queue would be filled', async () => {
    const { client } = clientSetUp();
    const name = 'shop#eu#mail';
    const refused = /'shop#eu#mail' has more than one #/;
    await expect(client.queue(name).enqueue(1)).rejects.toThrow(refused);
    await expect(client.queue(name).enqueueMany([{ data: 1 }])).rejects.toThrow(refused);
    await expect(client.update().enqueue(name, 1).commit()).rejects.toThrow(refused);
    await expect(client.topic(name).publish(1)).rejects.toThrow(refused);
    await expect(client.topic('shop#news').subscribe(name)).rejects.toThrow(refused);
    await expect(client.schedules.put('shop#daily', { queue: name, data: 1, every: '1h' })).rejects.toThrow(refused);
    await expect(client.queue('shop#a').enqueue(1, { retry: { deadLetterQueue: name } })).rejects.toThrow(refused);
    await expect(client.queueSettings.put('shop#a', { deadLetterQueue: name })).rejects.toThrow(refused);
  });

  test('can be read and emptied', async () => {
    const { client } = clientSetUp();
    const queue = client.queue('shop#eu#mail');
    expect([await queue.peek(), await queue.lease(), await queue.delete()]).toEqual([[], [], 0]);
  });
});
