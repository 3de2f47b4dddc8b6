import { TaskNotFoundError } from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

describe('a task is found in the queues of its group', () => {
  test('by its key, or by its PID also among dead letters', async () => {
    const { client } = clientSetUp();
    const [pay, pack, ship] = ['shop#pay', 'shop#pack', 'shop#ship'].map((name) => client.queue<string>(name));
    await pay?.enqueue('other', { key: 'order-1' });
    await pack?.enqueue('a', { key: 'order-17', delay: '1h' });
    await ship?.enqueue('b', { key: 'order-17', pid: 'b' });
    await client.queue('other#pay').enqueue('c', { key: 'order-17' });
    await only((await ship?.lease()) ?? []).deadLetter(new Error('no'));
    const found = await client.findTasks('shop', { key: 'order-17' });
    // A dead letter frees its key. It keeps its PID.
    expect(found.map(({ queue, state }) => [queue, state])).toEqual([['shop#pack', 'delayed']]);
    expect(await client.findTasks('shop', 'b')).toMatchObject([{ queue: 'shop#ship.dead' }]);
    expect(await client.findTasks('shop', { key: 'order-99' })).toEqual([]);
    expect(await client.findTasks('', 'b')).toEqual([]);
  });

  test('also if it moves while the queues are read', async () => {
    const { client, transport } = clientSetUp();
    const [a, b] = [client.queue<string>('shop#a'), client.queue<string>('shop#b')];
    await a.enqueue('keeps the queue', { pid: 'x' });
    await b.enqueue('1', { key: 'order-1', pid: '0' });
    let reads = 0;
    transport.answers.getTasks = async (request, send) => {
      // Queue a is read, the task moves there, and then queue b is read.
      if (request.queue === 'shop#b' && reads++ === 0) {
        const task = only(await b.lease());
        await task.complete({ enqueue: [a.task('1', { key: 'order-1' })] });
      }
      return send();
    };
    expect(await client.findTasks('shop', { key: 'order-1' })).toMatchObject([{ queue: 'shop#a' }]);
  });
});

describe('a task is cancelled wherever it is in its group', () => {
  test('in all queues that have it', async () => {
    const { client } = clientSetUp();
    const [a, b] = [client.queue<string>('shop#a'), client.queue<string>('shop#b')];
    await a.enqueue('1', { key: 'order-1' });
    await b.enqueue('1', { key: 'order-1' });
    const task = only(await b.lease());
    expect(await client.cancelTasks('shop', { key: 'order-1' }, { reason: 'the customer has left' })).toEqual([
      'shop#a',
      'shop#b',
    ]);
    expect(await client.findTasks('shop', { key: 'order-1' })).toMatchObject([
      { queue: 'shop#b', state: 'leased', cancelled: { reason: 'the customer has left' } },
    ]);
    await task.release();
    await expect(client.cancelTasks('shop', { key: 'order-1' })).rejects.toThrow(TaskNotFoundError);
    await expect(client.cancelTasks('shop', { key: 'order-1' })).rejects.toThrow("the key 'order-1'");
  });

  test('also if it moves to the next queue meanwhile', async () => {
    const { client, transport } = clientSetUp();
    const [a, b] = [client.queue<string>('shop#a'), client.queue<string>('shop#b')];
    await a.enqueue('1', { key: 'order-1' });
    let cancels = 0;
    transport.answers.updateTasks = async (request, send) => {
      const isCancel = request.dequeue.some(({ cancelReason }) => cancelReason !== undefined);
      if (isCancel && cancels++ === 0) {
        await only(await a.lease()).complete({ enqueue: [b.task('1', { key: 'order-1' })] });
      }
      return send();
    };
    expect(await client.cancelTasks('shop', { key: 'order-1' })).toEqual(['shop#b']);
    expect(cancels).toBe(2);
    expect(await client.findTasks('shop', { key: 'order-1' })).toEqual([]);
  });

  test.each([
    ['shop#pay', { key: 'a' }, 'give the name of a group'],
    [undefined, { key: 'a' }, 'the name of a group must be text'],
    ['shop', { key: '' }, 'at least one character'],
    ['shop', '', 'a PID has at least one byte'],
  ])('in the group %j, named %j: refused', async (group, name, problem) => {
    const { client } = clientSetUp();
    await expect(client.findTasks(group as string, name)).rejects.toThrow(problem);
    await expect(client.cancelTasks(group as string, name)).rejects.toThrow(problem);
  });
});
