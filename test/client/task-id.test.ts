import { pidFromText } from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

test.each([
  ['text', 'order-17', 'order-17'],
  ['bytes', Uint8Array.of(0, 255), 'hex:00ff'],
  ['text that looks like bytes', 'hex:1', 'hex:6865783a31'],
])('the id of a task whose PID is %s names it in logs, and reads back', async (_what, pid, id) => {
  const { client } = clientSetUp();
  const queue = client.queue<string>('g#q');
  const enqueued = await queue.enqueue('secret', { pid, kind: 'letter', headers: { tenant: 'acme' } });
  expect(enqueued.id).toBe(id);
  expect(JSON.parse(JSON.stringify(enqueued))).toEqual({ id, result: 'created', leased: false });
  const [shown] = await queue.peek();
  expect(JSON.parse(JSON.stringify(shown))).toMatchObject({ queue: 'g#q', id, state: 'available', attempts: 0 });
  const task = only(await queue.lease());
  expect(task.id).toBe(id);
  expect(JSON.parse(JSON.stringify({ task }))).toEqual({
    task: { queue: 'g#q', id, kind: 'letter', attempt: 1, leaseToken: task.leaseToken },
  });
  expect(Buffer.from(pidFromText(task.id))).toEqual(Buffer.from(task.pid));
  const summary = only(await queue.get([pidFromText(id)], { data: false }));
  expect(summary.id).toBe(id);
  for (const text of [JSON.stringify(shown), JSON.stringify(summary), JSON.stringify(task)]) {
    expect(text).not.toContain('secret');
    expect(text).not.toContain('Buffer');
  }
  expect(only(await queue.get([{ key: 'none' }], { data: false })).id).toBe('');
});

test('an object that names no task is refused with what names one', async () => {
  const { client } = clientSetUp();
  await expect(client.findTasks('g', { kee: 'order-17' } as never)).rejects.toThrow('or as { key }');
});

test('what was published has an id for logs, too', async () => {
  const { client } = clientSetUp();
  const topic = client.topic<string>('g#news');
  await topic.subscribe('g#q');
  const [published] = await topic.publish('x', { pid: 'order-17' });
  expect(JSON.parse(JSON.stringify(published))).toEqual({
    queue: 'g#q',
    id: 'order-17',
    result: 'created',
    leased: false,
  });
});
