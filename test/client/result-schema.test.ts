import { InvalidDataError } from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { workerSetUp } from './support/worker-set-up.ts';

const total = z.object({ cents: z.int(), at: z.string().transform((text) => new Date(text)) });
const asynchronous = total.refine(async ({ cents }) => cents >= 0, 'is negative');
const good = { cents: 170, at: '2030-01-01T00:00:00.000Z' };

describe('a schema of results', () => {
  test('checks what handlers return, and transforms what a wait gets', async () => {
    const { client, heard, hooks, timing } = workerSetUp();
    const orders = client.queue<string, { cents: number; at: Date }, { cents: number; at: string }>('g#orders', {
      resultSchema: total,
    });
    await orders.enqueueMany(['a', 'b'].map((data) => ({ data, pid: data, retry: { maxAttempts: 1 } })));
    await using worker = client.worker(
      orders,
      async ({ data }) => ({ result: data === 'a' ? good : { ...good, cents: 1.5 } }),
      hooks,
    );
    worker.start();
    await timing.settled();
    const result = await orders.waitFor('a');
    expectTypeOf(result).toEqualTypeOf<{ cents: number; at: Date } | undefined>();
    expect(result).toEqual({ cents: 170, at: new Date('2030-01-01') });
    expect(heard).toContain('complete a');
    const { outcome, error } = await orders.waitForEnd('b');
    expect(outcome).toBe('dead-lettered');
    expect(error).toContain("the result does not fit the queue's schema of results: cents: ");
    // @ts-expect-error The results of handlers have the type that the schema takes.
    void (() => client.worker(orders, async () => ({ result: { cents: '170' } })));
  });

  test.each([
    ['at once', total],
    ['later', asynchronous],
  ])('that validates %s refuses a result of task.complete, and the task is still held', async (_when, resultSchema) => {
    const { client } = workerSetUp();
    const orders = client.queue('g#orders', { schema: z.string(), resultSchema });
    await orders.enqueue('a', { pid: 'a' });
    const task = only(await orders.lease());
    const refused = task.complete({ result: { cents: -1 } });
    await expect(refused).rejects.toThrow(InvalidDataError);
    await expect(refused).rejects.toMatchObject({ issues: [{ path: 'at' }] });
    await task.complete({ result: good });
    expect(await orders.waitFor('a')).toMatchObject({ cents: 170 });
  });

  test('is asked for tasks that are named by a queue, and by updates', async () => {
    const { client } = workerSetUp();
    const orders = client.queue<string, unknown>('g#orders', { resultSchema: asynchronous });
    await orders.enqueue('a', { pid: 'a' });
    const { pid, leaseToken } = only(await orders.lease());
    const named = { queue: orders, pid, leaseToken };
    await expect(
      client
        .update()
        .complete(named, { result: { ...good, cents: -1 } })
        .commit(),
    ).rejects.toThrow(InvalidDataError);
    await client.update().complete(named, { result: good }).commit();
    expect(await orders.waitFor('a')).toMatchObject({ cents: 170 });
  });

  test('does not ask for a result, and refuses one of an older release', async () => {
    const { client } = workerSetUp();
    const orders = client.queue<string, unknown>('g#orders', { resultSchema: total });
    await orders.enqueueMany([
      { data: 'a', pid: 'a' },
      { data: 'b', pid: 'b' },
    ]);
    await only(await orders.lease()).complete();
    expect(await orders.waitForEnd('a')).toMatchObject({ result: undefined });
    await only(await client.queue('g#orders').lease()).complete({ result: 'text' });
    await expect(orders.waitFor('b')).rejects.toThrow(InvalidDataError);
    expect(await client.queue('g#orders').waitFor('b')).toBe('text');
  });
});
