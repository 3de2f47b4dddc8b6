import {
  bytesCodec,
  InvalidDataError,
  InvalidRequestError,
  pidText,
  type Queue,
  type TaskMasterClient,
} from '@taskmaster/client';
import { connectionLost } from '@taskmaster/client/testing';
import { Completions, outboxQueue, type Query, Relay, type RelayOptions, StaleLeaseError } from '@taskmaster/outbox';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { type ClientSetUp, clientSetUp } from '../client/support/client-set-up.ts';
import type { TestDatabase } from './databases.ts';

interface World extends ClientSetUp, AsyncDisposable {
  readonly db: TestDatabase;
  readonly errors: unknown[];
  relay(options?: Partial<RelayOptions>): Relay;
  /** What is in a queue, in order; the tasks are completed. */
  take(queue: string): Promise<unknown[]>;
}

/** What an outbox promises, on one kind of database. */
export function outboxContract(open: () => Promise<TestDatabase>): void {
  const setUp = async (): Promise<World> => {
    const db = await open();
    const made = clientSetUp({ retry: { maxAttempts: 1 } });
    const errors: unknown[] = [];
    return {
      ...made,
      db,
      errors,
      relay: (options) =>
        new Relay({
          client: made.client,
          outbox: db.outbox,
          query: db.query,
          timing: made.timing,
          onError: ({ error }) => errors.push(error),
          ...options,
        }),
      take: (queue) => taken(made.client.queue(queue)),
      [Symbol.asyncDispose]: async () => {
        await made.client.close();
        await db[Symbol.asyncDispose]();
      },
    };
  };

  test('a task exists exactly if its transaction is committed', async () => {
    await using world = await setUp();
    const { db } = world;
    await db.transaction((tx) => db.outbox.enqueue(tx, 'shop#mail', { order: 1 }));
    const failed = db.transaction(async (tx) => {
      await db.outbox.enqueue(tx, 'shop#mail', { order: 2 });
      throw new Error('no stock');
    });
    await expect(failed).rejects.toThrow('no stock');
    expect(await db.outbox.stats(db.query)).toMatchObject({ pending: 1, refused: 0 });

    const relay = world.relay();
    await relay.drain();
    expect(await world.take('shop#mail')).toEqual([{ order: 1 }]);
    expect(await db.outbox.stats(db.query)).toEqual({ pending: 0, oldestMs: 0, refused: 0 });
    expect(relay.stats).toMatchObject({ sent: 1, batches: 1, refused: 0, failures: 0 });
  });

  test('a task has the options of its enqueue, and times count from there', async () => {
    await using world = await setUp();
    const { db, client } = world;
    const before = Date.now();
    const orders = outboxQueue<{ id: number }>('shop#orders', { schema: z.object({ id: z.number() }) });
    const options = {
      pid: 'p',
      key: 'order-1',
      headers: { tenant: 'a' },
      delay: '1h',
      timeLimit: '5s',
      kind: 'k',
    } as const;
    await db.outbox.enqueue(db.query, orders, { id: 1 }, { ...options, retry: { maxAttempts: 3 } });
    await db.outbox.enqueue(
      db.query,
      client.queue<Uint8Array>('shop#raw', { codec: bytesCodec }).task(Buffer.from([1, 0, 255])),
    );
    await world.relay().drain();

    const [task] = await client.queue<{ id: number }>('shop#orders').get(['p']);
    expect(task).toMatchObject({
      key: 'order-1',
      headers: { tenant: 'a' },
      kind: 'k',
      timeLimitMs: 5_000,
      data: { id: 1 },
    });
    expect(task?.retry?.maxAttempts).toBe(3);
    const due = task?.hiddenUntil?.getTime() ?? 0;
    expect(due).toBeGreaterThanOrEqual(before + 3_600_000);
    expect(due).toBeLessThanOrEqual(Date.now() + 3_600_000);
    const [raw] = await client.queue<Uint8Array>('shop#raw', { codec: bytesCodec }).lease();
    expect([...(raw?.data ?? [])]).toEqual([1, 0, 255]);
  });

  test('what the client refuses is refused in the transaction', async () => {
    await using world = await setUp();
    const { outbox, query } = world.db;
    const orders = outboxQueue('shop#orders', { schema: z.object({ id: z.number() }) });
    await expect(outbox.enqueue(query, orders, { id: 'x' } as never)).rejects.toThrow(InvalidDataError);
    await expect(outbox.enqueue(query, 'q', 1, { dely: 5 } as never)).rejects.toThrow('did you mean delay?');
    await expect(outbox.enqueue(query, 'q', 1, { delay: 5, runAt: new Date() })).rejects.toThrow(TypeError);
    await expect(outbox.enqueue(query, 'a#b#c', 1)).rejects.toThrow('more than one #');
    await expect(outbox.enqueue(query, 'q', 'x'.repeat(2 ** 22))).rejects.toThrow(InvalidRequestError);
    await expect(outbox.enqueue(query, 'q', 1, { pid: 'x'.repeat(5000) })).rejects.toThrow('a PID has at most');
    await expect(outbox.enqueue(query, '$taskmaster/schedules', 1)).rejects.toThrow(InvalidRequestError);
    expect(await outbox.stats(query)).toMatchObject({ pending: 0 });
  });

  test('the tasks of a queue come in their order, over batches, beside other queues and groups', async () => {
    await using world = await setUp();
    const { db, client } = world;
    const queues = ['a#x', 'a#y', 'b#x', 'plain', 'ü#ß'].map((name) => client.queue<number>(name));
    const numbers = Array.from({ length: 25 }, (_, at) => at);
    await db.transaction((tx) =>
      db.outbox.enqueueMany(
        tx,
        numbers.flatMap((n) => queues.map((queue) => queue.task(n))),
      ),
    );
    const batches: number[] = [];
    await world.relay({ batchTasks: 10, concurrency: 2, onBatch: ({ tasks }) => batches.push(tasks) }).drain();
    for (const { name } of queues) expect(await world.take(name), name).toEqual(numbers);
    expect(batches.toSorted()).toEqual(queues.flatMap(() => [10, 10, 5]).toSorted());
  });

  test('a transaction that commits later with a lower id is not passed over', async () => {
    await using world = await setUp();
    const { db } = world;
    if (db.dialect === 'sqlite') return; // It has one writer at a time.
    const [commit, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow = db.transaction(async (tx) => {
      await db.outbox.enqueue(tx, 'q', 'first id');
      written.resolve();
      await commit.promise;
    });
    await written.promise;
    await db.outbox.enqueue(db.query, 'q', 'second id');
    const relay = world.relay();
    await relay.drain();
    commit.resolve();
    await slow;
    await relay.drain();
    expect(await world.take('q')).toEqual(['second id', 'first id']);
  });

  test('a batch whose reply was lost is not doubled, however late the relay comes back', async () => {
    await using world = await setUp();
    const { db, transport, timing } = world;
    await db.outbox.enqueueMany(db.query, tasks(world.client, 'q', ['a', 'b']));
    await world.relay({ takeOverAfter: 0 }).drain();
    expect(await world.take('q')).toEqual(['a', 'b']);
    await pass();

    await db.outbox.enqueueMany(db.query, tasks(world.client, 'q', ['c', 'd']));
    transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    await world.relay({ takeOverAfter: 0 }).drain();
    expect(world.errors).toHaveLength(1);
    // The node has it, and a worker has done it. Request ids are forgotten after two minutes.
    expect(await world.take('q')).toEqual(['c', 'd']);
    await timing.advance(600_000);

    await pass();
    const relay = world.relay();
    await db.outbox.enqueue(db.query, 'q', 'e');
    await relay.drain();
    expect(await world.take('q')).toEqual(['e']);
    expect(await db.outbox.stats(db.query)).toMatchObject({ pending: 0 });
  });

  test('a request that arrives when the next batches are done changes nothing', async () => {
    await using world = await setUp();
    const { db, transport, timing } = world;
    await db.outbox.enqueue(db.query, 'q', 'a');
    const first = world.relay({ takeOverAfter: 0 });
    await first.drain();
    await db.outbox.enqueue(db.query, 'q', 'b');
    transport.faults.updateTasks.push({ when: 'late', error: connectionLost() });
    await first.drain();
    await pass();
    const second = world.relay();
    await second.drain();
    await db.outbox.enqueue(db.query, 'q', 'c');
    await second.drain();
    expect(await world.take('q')).toEqual(['a', 'b', 'c']);
    await timing.advance(600_000);
    expect(transport.stragglers).toHaveLength(1);
    await expect(transport.stragglers[0]?.()).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND' });
    expect(await world.take('q')).toEqual([]);
  });

  test('a crash between any two statements loses nothing and doubles nothing', async () => {
    // On servers fewer of them: their statements are the same.
    const step = (await open().then(disposed)).dialect === 'sqlite' ? 2 : 7;
    for (let crashAt = 0; crashAt < 24; crashAt += step) {
      await using world = await setUp();
      const { db, client } = world;
      const data = ['a', 'b', 'c', 'd', 'e'];
      // One that is refused for good is moved, over crashes.
      await client.queue<string>('q').enqueue('there', { pid: 'p' });
      await db.outbox.enqueueMany(db.query, [
        ...tasks(client, 'q', data.slice(0, 3)),
        client.queue<string>('q').task('twice', { pid: 'p', mode: 'fail' }),
        ...tasks(client, 'q', data.slice(3)),
      ]);
      for (const applied of [true, false]) {
        let left = crashAt;
        const query: Query = async (sql, params) => {
          if (left < 0) throw new Error('crashed');
          if (left-- > 0) return db.query(sql, params);
          if (applied) await db.query(sql, params);
          throw new Error('crashed');
        };
        await world.relay({ query, batchTasks: 3, takeOverAfter: 0 }).drain();
        await pass();
      }
      await world.timing.advance(300_000);
      await world.relay({ batchTasks: 3 }).drain();
      const found = await world.take('q');
      expect({ crashAt, found }).toEqual({ crashAt, found: ['there', ...data] });
      expect(await db.outbox.refused(db.query)).toMatchObject([{ queue: 'q', reason: 'TASK_EXISTS' }]);
      expect(await db.outbox.stats(db.query)).toMatchObject({ pending: 0, refused: 1 });
    }
  });

  test('tasks that the node refuses for good are set aside, and can be sent again', async () => {
    await using world = await setUp();
    const { db, client } = world;
    const wrong = { headers: { 'not a key': 'x' } };
    await db.outbox.enqueueMany(db.query, [
      client.queue<number>('q').task(0, wrong),
      ...tasks(client, 'q', [1, 2, 3]),
      client.queue<number>('q').task(4, { ...wrong, pid: 'p' }),
      ...tasks(client, 'q', [5, 6]),
    ]);
    await db.outbox.enqueue(db.query, 'other', 'fine');
    const told: string[] = [];
    const relay = world.relay({ onRefused: ({ queue, error }) => told.push(`${queue} ${error.reason}`) });
    await relay.drain();
    expect(await world.take('q')).toEqual([1, 2, 3, 5, 6]);
    expect(await world.take('other')).toEqual(['fine']);
    expect(told).toEqual(['q INVALID_ARGUMENT', 'q INVALID_ARGUMENT']);
    const refused = await db.outbox.refused(db.query);
    expect(refused.map(({ queue, reason }) => [queue, reason])).toEqual([
      ['q', 'INVALID_ARGUMENT'],
      ['q', 'INVALID_ARGUMENT'],
    ]);
    expect(refused[0]?.message).toContain('not a key');

    const [first, second] = refused.map(({ id }) => id);
    await db.transaction((tx) => db.outbox.retryRefused(tx, [first ?? '']));
    expect(await db.outbox.stats(db.query)).toMatchObject({ pending: 1, refused: 1 });
    await relay.drain();
    await db.outbox.dropRefused(db.query, [second ?? '']);
    expect(await db.outbox.refused(db.query)).toHaveLength(1);
  });

  test('a full queue gets what fits, and does not hold up others', async () => {
    await using world = await setUp();
    const { db, client, timing } = world;
    await client.queueSettings.put('a#full', { maxBacklog: 5 });
    await db.outbox.enqueueMany(db.query, tasks(client, 'a#full', [1, 2, 3, 4, 5, 6, 7]));
    await db.outbox.enqueueMany(db.query, tasks(client, 'a#other', [1, 2]));
    const relay = world.relay();
    await relay.drain();
    expect(await world.take('a#other')).toEqual([1, 2]);
    expect(await world.take('a#full')).toEqual([1, 2, 3, 4, 5]);
    expect(world.errors).toMatchObject([{ reason: 'BACKLOG_FULL' }]);
    await timing.advance(60_000);
    await relay.drain();
    expect(await world.take('a#full')).toEqual([6, 7]);
    expect(await db.outbox.stats(db.query)).toMatchObject({ pending: 0, refused: 0 });
  });

  test('several relays share the queues, and each task comes once and in order', async () => {
    await using world = await setUp();
    const { db, client } = world;
    const names = ['a#1', 'a#2', 'b#1'];
    const numbers = Array.from({ length: 30 }, (_, at) => at);
    await db.outbox.enqueueMany(
      db.query,
      numbers.flatMap((n) => names.flatMap((name) => tasks(client, name, [n]))),
    );
    const relays = [1, 2, 3].map(() => world.relay({ batchTasks: 4, takeOverAfter: 0 }));
    for (let round = 0; round < 50 && (await db.outbox.stats(db.query)).pending > 0; round++)
      await Promise.all(relays.map((relay) => relay.drain()));
    for (const name of names) expect(await world.take(name)).toEqual(numbers);
  });

  test('a node that has lost its markers gets the tasks all the same, and the relay says so', async () => {
    await using world = await setUp();
    const { db } = world;
    const lost: string[] = [];
    const relay = world.relay({ onLostMarker: (queue) => lost.push(queue) });
    await db.outbox.enqueue(db.query, 'a#q', 1);
    await relay.drain();
    await world.client.queue('a#taskmaster-outbox').delete();
    await db.outbox.enqueue(db.query, 'a#q', 2);
    await relay.drain();
    await db.outbox.enqueue(db.query, 'a#q', 3);
    await relay.drain();
    expect(await world.take('a#q')).toEqual([1, 2, 3]);
    expect(lost).toEqual(['a#q']);
  });

  test('a queue leaves one marker, which goes when the queue gets no tasks any more', async () => {
    await using world = await setUp();
    const { db, client } = world;
    for (const n of [1, 2, 3]) {
      await db.outbox.enqueue(db.query, 'a#q', n);
      await world.relay({ takeOverAfter: 0 }).drain();
      await pass();
    }
    const markers = client.queue('a#taskmaster-outbox');
    expect(await markers.peek({ kind: 'waiting' })).toHaveLength(1);
    await world.relay({ forgetAfter: 0 }).drain();
    expect(await markers.peek({ kind: 'waiting' })).toEqual([]);
    await db.outbox.enqueue(db.query, 'a#q', 4);
    await world.relay().drain();
    expect(await world.take('a#q')).toEqual([1, 2, 3, 4]);
  });

  test('topics and signals go the same way', async () => {
    await using world = await setUp();
    const { db, client } = world;
    const topic = client.topic<string>('a#news');
    await topic.subscribe('a#reader');
    await client.queue<string>('a#wait').enqueue('go', { pid: 'w', waitsFor: 1 });
    await db.outbox.enqueue(db.query, topic.task('hello'));
    await db.outbox.enqueue(db.query, client.queue('a#wait').signalFor('w'));
    await world.relay().drain();
    expect(await world.take('a#reader')).toEqual(['hello']);
    expect(await world.take('a#wait')).toEqual(['go']);
  });

  test('a running relay sends when it polls and when it is woken, and stops', async () => {
    await using world = await setUp();
    const { db, timing } = world;
    const sent: number[] = [];
    await using relay = world.relay({ onBatch: ({ tasks }) => sent.push(tasks), pollInterval: '1s' });
    relay.start();
    await db.outbox.enqueue(db.query, 'q', 1);
    await expect
      .poll(async () => {
        await timing.advance(1_000);
        return sent;
      })
      .toEqual([1]);
    await db.outbox.enqueue(db.query, 'q', 2);
    relay.wake();
    await expect.poll(() => sent).toEqual([1, 1]);
    await relay.stop();
    await db.outbox.enqueue(db.query, 'q', 3);
    // Its queues are free at once, also those of a relay that was not started.
    for (const task of [4, 5]) {
      await using next = world.relay();
      await next.drain();
      expect(next.stats.sent).toBe(1);
      await db.outbox.enqueue(db.query, 'q', task);
    }
  });

  test('a relay that is told of commits subscribes again and repeats what fails, whenever it polls', async () => {
    await using world = await setUp();
    const { db, timing, transport, errors } = world;
    const subscriptions: { readonly wake: () => void; readonly lost: () => void }[] = [];
    const sent: number[] = [];
    await using relay = world.relay({
      onBatch: ({ tasks }) => sent.push(tasks),
      pollInterval: '1d',
      listen: async (wake, lost) => {
        subscriptions.push({ wake, lost });
        if (subscriptions.length === 2) throw new Error('no connection yet');
        return { [Symbol.asyncDispose]: async () => undefined };
      },
    });
    const passing = async <T>(look: () => T): Promise<T> => {
      await timing.advance(50);
      return look();
    };
    relay.start();
    await expect.poll(() => subscriptions.length).toBe(1);
    await db.outbox.enqueue(db.query, 'q', 1);
    subscriptions[0]?.lost();
    await expect.poll(() => passing(() => [sent, subscriptions.length])).toEqual([[1], 3]);
    transport.faults.updateTasks.push({ when: 'before', error: connectionLost() });
    await db.outbox.enqueue(db.query, 'q', 2);
    subscriptions[2]?.wake();
    await expect.poll(() => passing(() => sent)).toEqual([1, 1]);
    expect(errors).toHaveLength(2);
  });

  test('a completion is recorded once, also by the next attempt', async () => {
    await using world = await setUp();
    const { db, client, timing } = world;
    const completions = new Completions({ dialect: db.dialect, prefix: db.prefix });
    const queue = client.queue<string>('q');
    await queue.enqueue('work', { pid: 'p', mode: 'rerun' });
    const [first] = await queue.lease({ leaseDuration: '10s' });
    if (first === undefined) throw new Error('no task');
    const rolledBack = db.transaction(async (tx) => {
      expect(await completions.record(tx, first)).toBe(true);
      throw new Error('no');
    });
    await expect(rolledBack).rejects.toThrow('no');
    expect(await db.transaction((tx) => completions.record(tx, first))).toBe(true);
    expect(await db.transaction((tx) => completions.record(tx, first))).toBe(false);

    // The worker dies before it completes the task. The next one finds the work done.
    await timing.advance(11_000);
    const [second] = await queue.lease({ leaseDuration: '10s' });
    if (second === undefined) throw new Error('no task');
    expect(second.leaseToken).toBeGreaterThan(first.leaseToken);
    expect(await db.transaction((tx) => completions.record(tx, second))).toBe(false);
    await expect(db.transaction((tx) => completions.record(tx, first))).rejects.toThrow(StaleLeaseError);
    // A rerun is new work.
    await queue.enqueue('more', { pid: 'p', mode: 'rerun' });
    await timing.advance(1);
    await second.complete();
    const [third] = await queue.lease();
    if (third === undefined) throw new Error('no rerun');
    expect(await db.transaction((tx) => completions.record(tx, third))).toBe(true);
    expect(await db.transaction((tx) => completions.record(tx, third, { id: 'charge-17' }))).toBe(true);
    expect(
      await db.transaction((tx) =>
        completions.record(tx, { ...plain(third), pid: Buffer.from('x') }, { id: 'charge-17' }),
      ),
    ).toBe(false);
    await completions.prune(db.query, -1_000);
    expect(await db.transaction((tx) => completions.record(tx, third))).toBe(true);
  });

  test('a worker that has lost its lease cannot write after the next one', async () => {
    await using world = await setUp();
    const { db } = world;
    const completions = new Completions({ dialect: db.dialect, prefix: db.prefix });
    const task = { queue: 'q', pid: Buffer.from('p'), enqueuedAt: new Date(1_000) };
    const [old, current] = [
      { ...task, leaseToken: 7 },
      { ...task, leaseToken: 9 },
    ];
    expect(await db.transaction((tx) => completions.fence(tx, old))).toBe(true);
    expect(await db.transaction((tx) => completions.fence(tx, current))).toBe(true);
    await expect(db.transaction((tx) => completions.fence(tx, old))).rejects.toThrow('token 9 has written already');
    expect(await db.transaction((tx) => completions.record(tx, current))).toBe(true);
    expect(await db.transaction((tx) => completions.fence(tx, current))).toBe(false);
    await expect(db.transaction((tx) => completions.record(tx, old))).rejects.toThrow(StaleLeaseError);
  });

  test('of two workers that record at once one waits for the other', async () => {
    await using world = await setUp();
    const { db } = world;
    if (db.dialect === 'sqlite') return; // It has one writer at a time.
    const completions = new Completions({ dialect: db.dialect, prefix: db.prefix });
    const task = { queue: 'q', pid: Buffer.from('p'), enqueuedAt: new Date(1_000) };
    const [commit, recorded] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const order: string[] = [];
    const first = db.transaction(async (tx) => {
      expect(await completions.record(tx, { ...task, leaseToken: 7 })).toBe(true);
      recorded.resolve();
      await commit.promise;
      order.push('first');
    });
    await recorded.promise;
    const second = db.transaction(async (tx) => {
      // A snapshot from before the commit of the first.
      await tx('SELECT 1 AS one', []);
      const isNew = await completions.record(tx, { ...task, leaseToken: 9 });
      order.push('second');
      return isNew;
    });
    await db.query('SELECT 1 AS one', []);
    commit.resolve();
    await first;
    expect(await second).toBe(false);
    expect(order).toEqual(['first', 'second']);
  });
}

const plain = ({ queue, leaseToken, enqueuedAt }: { queue: string; leaseToken: number; enqueuedAt: Date }) => ({
  queue,
  leaseToken,
  enqueuedAt,
});

const tasks = (client: TaskMasterClient, queue: string, data: readonly unknown[]) =>
  data.map((one) => client.queue<unknown>(queue).task(one));

async function disposed(db: TestDatabase): Promise<TestDatabase> {
  await db[Symbol.asyncDispose]();
  return db;
}

/** Time of the database passes, so that the hold of a relay that has it for 0 ms ends. */
const pass = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2));

async function taken(queue: Queue<unknown>): Promise<unknown[]> {
  const all: unknown[] = [];
  for (;;) {
    const leased = await queue.lease({ max: 1_000 });
    if (leased.length === 0) return all;
    all.push(...leased.map(({ data, pid }) => (data === undefined ? pidText(pid) : data)));
    for (const task of leased) await task.complete();
  }
}
