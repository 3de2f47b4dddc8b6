import {
  clientOver,
  InvalidDataError,
  type LeasedTask,
  LeaseLostError,
  type TaskInfo,
  type TaskSummary,
  textCodec,
} from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { clientSetUp } from './support/client-set-up.ts';

interface Mail {
  readonly to: string;
}

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
    await expect(queue.enqueue({ to: 1 } as unknown as Mail)).rejects.toBeInstanceOf(InvalidDataError);
    expect(engine.updates).toEqual([]);
  });

  test('that cannot be read is in a task whose data throws, and the task can be settled', async () => {
    const { client, engine } = clientSetUp();
    await client.queue('q', { codec: textCodec }).enqueue('{');
    const task = only(await client.queue<Mail>('q').lease());
    expect(() => task.data).toThrow(InvalidDataError);
    expect(Buffer.from(task.bytes).toString()).toBe('{');
    await task.complete();
    expect(await engine.pids('q')).toEqual([]);
  });
});

describe('several queues', () => {
  test('are leased from in order, and each task is read with the codec of its queue', async () => {
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

  test('are named in one spelling', async () => {
    const { client } = clientSetUp();
    await client.queue('#mail').enqueue(1);
    expect(await client.lease({ queues: ['mail', '#mail'], max: 5 })).toHaveLength(1);
  });
});

describe('looking at queues', () => {
  test('shows tasks without leasing them', async () => {
    const { client } = clientSetUp();
    const queue = client.queue<Mail>('q');
    await queue.enqueue({ to: 'ann' }, { pid: 'a' });
    await queue.lease({ workerLabel: 'w1' });
    expect(only(await queue.peek({ kind: 'leased' }))).toMatchObject({
      state: 'leased',
      workerLabel: 'w1',
      data: { to: 'ann' },
    });
    const [found, missing] = await queue.get(['a', 'b']);
    expect(found).toMatchObject({ state: 'leased', attempts: 1, data: { to: 'ann' } });
    expect(missing).toMatchObject({ state: 'not-found', hiddenUntil: undefined, bytes: undefined });
    expect(() => missing?.data).toThrow(InvalidDataError);
  });

  test('has data only if it was requested, in the types too', async () => {
    const { client } = clientSetUp();
    const queue = client.queue<Mail>('q');
    await queue.enqueue({ to: 'ann' }, { pid: 'a' });
    const summaries = [...(await queue.peek({ data: false })), ...(await queue.get(['a', 'b'], { data: false }))];
    expectTypeOf(summaries).toEqualTypeOf<TaskSummary[]>();
    expectTypeOf<TaskSummary>().not.toHaveProperty('data');
    expect(JSON.parse(JSON.stringify(summaries))).toMatchObject([{ queue: 'q' }, { queue: 'q' }, { queue: 'q' }]);
    for (const summary of summaries) expect(summary).not.toHaveProperty('data');
    for (const summary of summaries) expect(summary).not.toHaveProperty('bytes');

    expectTypeOf(await queue.peek()).toEqualTypeOf<TaskInfo<Mail>[]>();
    expectTypeOf(await queue.get(['a'], { data: true })).toEqualTypeOf<TaskInfo<Mail>[]>();
    // Known only when it runs.
    const data: boolean = Boolean(summaries.length);
    const either = await queue.peek({ data });
    expectTypeOf(either).toEqualTypeOf<(TaskInfo<Mail> | TaskSummary)[]>();
    expect(either.map((task) => ('data' in task ? task.data : undefined))).toEqual([{ to: 'ann' }]);
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
    await expect(task.complete()).rejects.toBeInstanceOf(LeaseLostError);
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
