import { InvalidRequestError, LeaseLostError, type LeaseRef, TaskNotFoundError } from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

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
    expect(await engine.pids('g#a')).toEqual(['2', '3']);
    await expect(client.update().enqueue(b, 'y').dequeue(a, 'none').commit()).rejects.toBeInstanceOf(TaskNotFoundError);
    expect(await engine.pids('g#b')).toEqual(['x']);
  });

  test('names tasks by queue, PID and lease token, for work that ends in another process', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('g#a');
    await queue.enqueueMany([1, 2, 3, 4].map((n) => ({ data: n, pid: `${n}` })));
    const leased = await queue.lease({ max: 4, leaseDuration: '30s' });
    const [first, second, third, fourth] = JSON.parse(
      JSON.stringify(leased.map(({ queue, pid, leaseToken }) => ({ queue, pid: pid.toString(), leaseToken }))),
    ) as LeaseRef[];
    if (!first || !second || !third || !fourth) throw new Error('four were enqueued');
    const { renewed, released } = await client
      .update()
      .complete(first)
      .renew(second, '2m')
      .release(third, { delay: '5s' })
      .complete({ queue, pid: fourth.pid })
      .commit();
    expect([renewed.length, released.length]).toEqual([1, 1]);
    expect(await engine.pids('g#a')).toEqual(['2', '3']);
    await expect(
      client
        .update()
        .renew({ ...second, leaseToken: 999 }, '1m')
        .commit(),
    ).rejects.toBeInstanceOf(LeaseLostError);
  });

  test('over two groups is refused before it is sent', async () => {
    const { client, engine } = clientSetUp();
    const update = client.update().enqueue('g#a', 1).enqueue('h#a', 1);
    await expect(update.commit()).rejects.toMatchObject({ name: 'InvalidRequestError', reason: 'MIXED_GROUPS' });
    expect(engine.updates).toEqual([]);
  });

  test('without items is refused, and one is committed once', async () => {
    const { client } = clientSetUp();
    const update = client.update();
    await expect(update.commit()).rejects.toBeInstanceOf(InvalidRequestError);
    await expect(update.commit()).rejects.toBeInstanceOf(TypeError);
  });

  test('that is refused leaves its other tasks leased', async () => {
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
    await expect(second.complete()).rejects.toBeInstanceOf(TaskNotFoundError);
    await first.complete();
  });

  test('that completes one task twice changes nothing, and the task stays as it was', async () => {
    const { client } = clientSetUp();
    const queue = client.queue('q');
    await queue.enqueue(1);
    const task = only(await queue.lease());
    await expect(client.update().complete(task).release(task).commit()).rejects.toBeInstanceOf(TypeError);
    await task.complete();
  });
});
