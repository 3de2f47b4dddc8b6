import { EnqueueMode, EnqueueResult } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { engineHarness, pidsOf } from './testing/engine-harness.ts';

const { ENQUEUE_RESULT_COLLAPSED, ENQUEUE_RESULT_CREATED, ENQUEUE_RESULT_REPLACED } = EnqueueResult;

describe('enqueue', () => {
  test('tasks are leased with their data, in order of their PIDs', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['b', 'a', 'c']);
    expect(pidsOf(await h.lease('mail', { max: 2 }))).toEqual(['a', 'b']);
    expect(pidsOf(await h.lease('mail', { max: 2 }))).toEqual(['c']);
    expect(await h.lease('mail')).toEqual([]);
  });

  test('without PIDs tasks are first in, first out', async () => {
    await using h = await engineHarness();
    for (const text of ['one', 'two', 'three']) await h.update({ enqueue: [{ queue: 'mail', data: text }] });
    const leased = await h.lease('mail', { max: 10 });
    expect(leased.map(({ data }) => Buffer.from(data).toString())).toEqual(['one', 'two', 'three']);
  });

  test('an existing PID collapses, fails or is replaced', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    const collapse = await h.update({ enqueue: [{ queue: 'mail', pid: 'a', data: 'new' }] });
    expect(collapse.enqueued[0]?.result).toBe(ENQUEUE_RESULT_COLLAPSED);
    const replace = { queue: 'mail', pid: 'a', data: 'new', mode: EnqueueMode.ENQUEUE_MODE_REPLACE };
    expect((await h.update({ enqueue: [replace] })).enqueued[0]?.result).toBe(ENQUEUE_RESULT_REPLACED);
    const fail = { queue: 'mail', pid: 'a', mode: EnqueueMode.ENQUEUE_MODE_FAIL };
    await expect(h.update({ enqueue: [fail, { queue: 'mail', pid: 'b' }] })).rejects.toMatchObject({
      reason: 'TASK_EXISTS',
    });
    const leased = await h.lease('mail', { max: 10 });
    expect(leased.map(({ data }) => Buffer.from(data).toString())).toEqual(['new']);
  });
});

describe('leases', () => {
  test('a lease is exclusive until it ends', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    const [first] = await h.lease('mail', { for: 1000 });
    expect(first?.attempt).toBe(1);
    await h.clock.advance(999);
    expect(await h.lease('mail')).toEqual([]);
    await h.clock.advance(1);
    const [second] = await h.lease('mail');
    expect(second).toMatchObject({ pid: 'a', attempt: 2 });
    expect(second?.token).toBeGreaterThan(first?.token ?? 0);
  });

  test('a worker that lost its lease can neither complete the task nor enqueue the next step', async () => {
    await using h = await engineHarness();
    await h.enqueue('crawl#fetch', ['a']);
    const [lost] = await h.lease('crawl#fetch', { for: 1000 });
    await h.clock.advance(1000);
    const [current] = await h.lease('crawl#fetch');
    const late = {
      dequeue: [{ queue: 'crawl#fetch', pid: 'a', token: lost?.token }],
      enqueue: [{ queue: 'crawl#index' }],
    };
    await expect(h.update(late)).rejects.toMatchObject({ reason: 'LEASE_LOST' });
    const move = { ...late, dequeue: [{ queue: 'crawl#fetch', pid: 'a', token: current?.token }] };
    expect((await h.update(move)).enqueued[0]?.result).toBe(ENQUEUE_RESULT_CREATED);
    expect(await h.counts('crawl#fetch')).toEqual({ available: 0, leased: 0, delayed: 0 });
    expect(await h.counts('crawl#index')).toEqual({ available: 1, leased: 0, delayed: 0 });
  });

  test('a worker may complete slightly after the end of its lease, but not renew', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a', 'b']);
    const [a, b] = await h.lease('mail', { max: 2, for: 1000 });
    await h.clock.advance(1500);
    await expect(h.update({ renew: [{ queue: 'mail', pid: 'a', token: a?.token, for: 1000 }] })).rejects.toMatchObject({
      reason: 'LEASE_EXPIRED',
    });
    await h.update({ dequeue: [{ queue: 'mail', pid: 'b', token: b?.token }] });
    expect(await h.counts('mail')).toEqual({ available: 1, leased: 0, delayed: 0 });
  });

  test('an enqueue, a release, an expiry and the end of a delay wake a waiting request', async () => {
    await using h = await engineHarness();
    const byEnqueue = h.lease('mail', { wait: 60_000, for: 1000 });
    await h.enqueue('mail', ['a']);
    const [a] = await byEnqueue;
    const byRelease = h.lease('mail', { wait: 60_000, for: 2000 });
    await h.update({ release: [{ queue: 'mail', pid: 'a', token: a?.token }] });
    expect(pidsOf(await byRelease)).toEqual(['a']);
    const byExpiry = h.lease('mail', { wait: 60_000, for: 100_000 });
    await h.clock.advance(2000);
    expect(pidsOf(await byExpiry)).toEqual(['a']);
    const byDelay = h.lease('mail', { wait: 60_000 });
    await h.update({ enqueue: [{ queue: 'mail', pid: 'b', delay: 500 }] });
    await h.clock.advance(500);
    expect(pidsOf(await byDelay)).toEqual(['b']);
  });

  test('waiting requests are first come, first served, and get an empty answer after their wait', async () => {
    await using h = await engineHarness();
    const first = h.lease('mail', { wait: 1000 });
    const second = h.lease('mail', { wait: 1000 });
    await h.enqueue('mail', ['a']);
    expect(pidsOf(await first)).toEqual(['a']);
    await h.clock.advance(1000);
    expect(await second).toEqual([]);
  });
});

describe('restart', () => {
  test('everything acknowledged is there after a crash', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a', 'b', 'c']);
    const [a] = await h.lease('mail', { for: 5000 });
    await h.update({ enqueue: [{ queue: 'mail', pid: 'd', delay: 5000 }] });
    await h.crash();
    expect(await h.counts('mail')).toEqual({ available: 2, leased: 1, delayed: 1 });
    await h.update({ dequeue: [{ queue: 'mail', pid: 'a', token: a?.token }] });
    await h.clock.advance(5000);
    expect(pidsOf(await h.lease('mail', { max: 10 }))).toEqual(['b', 'c', 'd']);
  });

  test('a deleted queue stays deleted, its rows are removed, and its name starts a new queue', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a', 'b']);
    expect(await h.engine.deleteQueue({ group: '', name: 'mail' })).toBe(2);
    await h.enqueue('mail', ['c']);
    await h.crash();
    expect(pidsOf(await h.lease('mail', { max: 10 }))).toEqual(['c']);
    expect(h.taskRows()).toBe(1);
  });
});
