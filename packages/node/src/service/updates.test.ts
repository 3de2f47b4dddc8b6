import { keptLog } from '@taskmaster/engine/testing';
import { EnqueueMode, hashOfToken, limits } from '@taskmaster/proto';
import { Access, AccessTable } from '@taskmaster/server/access';
import { aDequeue, anEnqueue, anUpdate, aRelease, aRenew, aRetry, bytes } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { openWatchedEngine } from '../testing/watched-engine.ts';
import { parseUpdate, updateHandlers } from './updates.ts';

test('an update with parts needs the rights for all of them', async () => {
  const rights = [{ groups: ['shop'], allow: ['enqueue'] as const }];
  const table = new AccessTable({ principals: [{ name: 'shop', tokens: [hashOfToken('tm_shop')], rights }] });
  const access = await new Access({ table }).identify({ kind: 'bearer', token: 'tm_shop' });
  const engine = await openWatchedEngine();
  const { updateTasks } = updateHandlers(engine, keptLog());
  const caller = { address: '10.0.0.1:5', access, gone: false, signal: undefined };
  const both = anUpdate({
    enqueue: [anEnqueue()],
    dequeue: [aDequeue()],
    parts: [
      { enqueues: 1, dequeues: 0, renewals: 0, releases: 0 },
      { enqueues: 0, dequeues: 1, renewals: 0, releases: 0 },
    ],
  });
  await expect(updateTasks(both, caller)).rejects.toMatchObject({
    reason: 'PERMISSION_DENIED',
  });
  expect(engine.asked).toEqual([]);
});

describe('an update', () => {
  test('belongs to the one group that all its queues share', () => {
    const update = anUpdate({ enqueue: [anEnqueue({ queue: 'shop#a' })], dequeue: [aDequeue({ queue: 'shop#b' })] });
    expect(parseUpdate(update).group).toBe('shop');
    expect(parseUpdate(anUpdate({ dequeue: [aDequeue({ queue: 'mail' })] })).group).toBe('');
  });

  test('without a PID gets an assigned one; a PID of any bytes is kept', () => {
    const update = anUpdate({
      enqueue: [anEnqueue({ pid: bytes('') }), anEnqueue({ pid: Buffer.from([0, 0x80, 0xff]) })],
    });
    expect(parseUpdate(update).enqueue.map(({ pid }) => pid)).toEqual([undefined, '\0\x80\xff']);
  });

  test('leaves the mode to the settings of the queue by default', () => {
    const [item] = parseUpdate(anUpdate({ enqueue: [anEnqueue()] })).enqueue;
    expect(item?.mode).toBe(EnqueueMode.ENQUEUE_MODE_UNSPECIFIED);
  });

  test('treats a lease token of 0 as none', () => {
    const update = anUpdate({ dequeue: [aDequeue({ leaseToken: 0 }), aDequeue({ pid: bytes('b'), leaseToken: 9 })] });
    expect(parseUpdate(update).dequeue.map(({ token }) => token)).toEqual([undefined, 9]);
  });

  test('may replace a task by a new one of the same PID', () => {
    const update = anUpdate({ dequeue: [aDequeue()], enqueue: [anEnqueue()] });
    expect(parseUpdate(update)).toMatchObject({ dequeue: [{ pid: 'a' }], enqueue: [{ pid: 'a' }] });
  });

  test('may name one PID in two queues', () => {
    const update = anUpdate({ dequeue: [aDequeue({ queue: 'shop#a' })], renew: [aRenew({ queue: 'shop#b' })] });
    expect(() => parseUpdate(update)).not.toThrow();
  });

  test('distinguishes a release without a delay from one with a delay of zero', () => {
    const update = anUpdate({ release: [aRelease(), aRelease({ pid: bytes('b'), delayMs: 0 })] });
    expect(parseUpdate(update).release.map(({ delayMs }) => delayMs)).toEqual([undefined, 0]);
  });

  test('leaves the time of a renewal to the settings of the queue by default', () => {
    const renew = [aRenew({ leaseDurationMs: 0 }), aRenew({ pid: Buffer.from('b'), leaseDurationMs: 1 })];
    expect(parseUpdate(anUpdate({ renew })).renew.map(({ leaseDurationMs }) => leaseDurationMs)).toEqual([0, 1]);
  });

  test('has a longest backoff of one hour by default', () => {
    const retry = aRetry({ backoffMaxMs: 0, deadLetterQueue: 'shop#graveyard' });
    const [item] = parseUpdate(anUpdate({ enqueue: [anEnqueue({ retry })] })).enqueue;
    expect(item?.retry).toEqual({
      maxAttempts: 3,
      backoffInitialMs: 1_000,
      backoffMaxMs: 3_600_000,
      deadLetterQueue: 'graveyard',
    });
  });

  test.each([
    ['the longest names', { queue: `${'g'.repeat(512)}#${'n'.repeat(512)}` }],
    ['the longest PID', { pid: Buffer.alloc(limits.pidBytes) }],
    ['the most data', { data: Buffer.alloc(limits.dataBytes) }],
    ['the longest delay', { delayMs: limits.delayMs }],
  ])('may have %s', (_what, change) => {
    expect(() => parseUpdate(anUpdate({ enqueue: [anEnqueue(change)] }))).not.toThrow();
  });
});
