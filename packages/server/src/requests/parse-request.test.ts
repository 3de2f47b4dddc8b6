import { EnqueueMode, limits } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import {
  aDequeue,
  aFilter,
  aLease,
  aList,
  anEnqueue,
  anUpdate,
  aRelease,
  aRenew,
  aRetry,
  bytes,
  someStats,
} from '../grpc/testing/requests.ts';
import { pageTokenAfter, parsePageToken } from './page-token.ts';
import { parseLease } from './parse-lease.ts';
import { parseList, parseStats } from './parse-queues.ts';
import { parseUpdate } from './parse-update.ts';

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

describe('a lease', () => {
  test('without a limit is limited by the size of the reply', () => {
    expect(parseLease(aLease(), 'h:1')).toMatchObject({ maxBytes: limits.replyDataBytes, maxPid: undefined });
    expect(parseLease(aLease({ leaseDurationMs: 0 }), 'h:1').leaseDurationMs).toBe(0);
    expect(parseLease(aLease({ leaseDurationMs: 1 }), 'h:1').leaseDurationMs).toBe(1);
  });

  test('treats a queue that is named twice as one', () => {
    const { queues } = parseLease(aLease({ queues: ['b', 'a', '#b'] }), 'h:1');
    expect(queues.map(({ name }) => name)).toEqual(['b', 'a']);
  });
});

describe('a listing', () => {
  test('shows a thousand queues by default', () => {
    expect(parseList(aList())).toMatchObject({ limit: 1_000, after: undefined });
  });

  test('continues after the last queue of the previous page, whatever its name', () => {
    const last = { group: 'é#'.slice(0, 1), name: 'a#b/ü' };
    expect(parsePageToken(pageTokenAfter(last))).toEqual(last);
  });

  test('matches an expression anywhere in the full name, in linear time', () => {
    const { matches } = parseList(aList({ filter: aFilter({ nameRegex: '(a+)+#m' }) })).filter;
    expect(matches?.('shop-aaa#mail')).toBe(true);
    expect(matches?.(`${'a'.repeat(5_000)}!`)).toBe(false);
  });

  test('distinguishes the default group from all groups', () => {
    expect(parseList(aList({ filter: aFilter({ group: '' }) })).filter.group).toBe('');
    expect(parseList(aList({ filter: aFilter() })).filter.group).toBeUndefined();
  });
});

test('statistics keep the order of the named queues', () => {
  expect(parseStats(someStats({ queues: ['b', 'a#b'] }))).toEqual({
    kind: 'named',
    queues: [
      { group: '', name: 'b' },
      { group: 'a', name: 'b' },
    ],
  });
});
