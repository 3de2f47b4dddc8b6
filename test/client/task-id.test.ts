import { inspect } from 'node:util';
import { isTaskMasterError, pidFromText } from '@taskmaster/client';
import type { StandardSchema } from '@taskmaster/client/internal';
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

test('console.log shows a task with its data, and nothing of the client', async () => {
  const { client } = clientSetUp();
  const queue = client.queue<{ to: string }>('g#q', { kind: 'letter' });
  const shown = (value: unknown): string => inspect(value, { breakLength: Number.POSITIVE_INFINITY, compact: 10 });
  const enqueued = await queue.enqueue({ to: 'ann' }, { pid: 'order-17', headers: { tenant: 'acme' } });
  expect(shown(enqueued)).toBe("EnqueueOutcome { result: 'created', leased: false, id: 'order-17' }");
  const [waiting] = await queue.peek();
  expect(shown(waiting)).toMatch(/^TaskInfo \{ queue: 'g#q', id: 'order-17', .*data: \{ to: 'ann' \}, headers: \{/);
  expect(shown(waiting)).not.toMatch(/undefined|Buffer|Symbol|Getter/);
  const [missing] = await queue.get(['none']);
  expect(shown(missing)).not.toMatch(/data:|Error/);
  const task = only(await queue.lease());
  expect(shown(task)).toMatch(
    /^LeasedTask \{ queue: 'g#q', id: 'order-17', data: \{ to: 'ann' \}, headers: \{ tenant: 'acme' \}, kind: 'letter', attempt: 1, /,
  );
  expect(shown(task)).not.toMatch(/undefined|Buffer|Symbol|bytes/);
  expect(shown(queue)).toBe("Queue { name: 'g#q' }");
  await client.queue('g#q').enqueue('again', { pid: 'order-18' });
  const [unreadable] = await client.queue('g#q', { schema: refusing }).lease();
  expect(shown(unreadable)).toContain('data: InvalidDataError');
  const refused = await queue
    .enqueue({ to: 'ann' }, { pid: 'order-17', mode: 'fail' })
    .catch((error: unknown) => error);
  expect(isTaskMasterError(refused)).toBe(true);
  expect(shown(refused)).not.toContain('Symbol');
  const others = [client.shardedQueue('s', { shards: 2 }), client.topic('t'), client.matchingQueues({ group: 'g' })];
  for (const one of [client.worker(queue, () => {}), ...others]) expect(shown(one)).not.toMatch(/Symbol|calls|token/);
});

const refusing: StandardSchema<unknown> = {
  '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
};
