import { limits } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { aFilter, aLease, aList, someStats } from '../grpc/testing/requests.ts';
import { pageTokenAfter, parsePageToken } from './page-token.ts';
import { parseLease } from './parse-lease.ts';
import { parseList, parseStats } from './parse-queues.ts';

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
