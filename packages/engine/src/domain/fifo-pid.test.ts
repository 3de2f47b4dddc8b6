import { limits } from '@taskmaster/proto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { pids } from '../testing/arbitraries.ts';
import { nextFifoPid } from './fifo-pid.ts';
import type { Instant, Pid } from './ids.ts';

const NOW = Date.UTC(2026, 0, 1) as Instant;
/** Up to the year 2255. After it, microseconds since 1970 are not exact numbers. */
const times = fc.nat(9e12).map((ms) => ms as Instant);
const counters = fc.constantFrom('0000000000000001', '00000000000000ff', 'fffffffffffffffe', 'f'.repeat(16));
/** PIDs whose next one is hard to find: near the longest, with bytes 0xff, ending in a counter. */
const hardPids = fc
  .tuple(fc.integer({ min: 0, max: limits.pidBytes }), fc.oneof(pids, counters, fc.constant('')))
  .map(([length, tail]) => ('\xff'.repeat(Math.max(1, length - tail.length)) + tail).slice(0, limits.pidBytes) as Pid);

describe('the next FIFO PID', () => {
  test('is behind the largest one and no longer than PIDs may be', () => {
    fc.assert(
      fc.property(fc.oneof(pids, hardPids), times, (largest, now) => {
        const next = nextFifoPid(largest, now);
        if (next === undefined) {
          expect(largest).toBe('\xff'.repeat(limits.pidBytes));
        } else {
          expect(next > largest).toBe(true);
          expect(next.length).toBeLessThanOrEqual(limits.pidBytes);
        }
      }),
    );
  });

  test('is found if there is one, even if no byte can be incremented', () => {
    for (let length = limits.pidBytes - 20; length < limits.pidBytes; length++) {
      const largest = '\xff'.repeat(length) as Pid;
      expect((nextFifoPid(largest, NOW) ?? '') > largest, `behind ${length} bytes 0xff`).toBe(true);
    }
    expect(nextFifoPid('\xff'.repeat(limits.pidBytes) as Pid, NOW)).toBeUndefined();
  });

  test('sorts by time, so that PIDs of a new queue are behind those of an earlier queue with its name', () => {
    fc.assert(
      fc.property(times, times, (one, other) => {
        const [first = '', second = ''] = [nextFifoPid(undefined, one), nextFifoPid(undefined, other)];
        expect(first < second).toBe(one < other);
      }),
    );
  });

  test('counts up within one instant', () => {
    let largest: Pid | undefined;
    const assigned: (string | undefined)[] = [];
    for (let i = 0; i < 3; i++) {
      largest = nextFifoPid(largest, NOW);
      assigned.push(largest);
    }
    expect(assigned).toEqual(['0006474846204000', '0006474846204001', '0006474846204002']);
  });

  test('counts up beyond the exact numbers', () => {
    let largest = '001ffffffffffff8' as Pid;
    for (let i = 0; i < 20; i++) {
      const next = nextFifoPid(largest, NOW) ?? ('' as Pid);
      expect(next > largest, `${next} behind ${largest}`).toBe(true);
      largest = next;
    }
    expect(largest).toBe('002000000000000c');
  });

  test.each([
    ['a word', 'zebra', 'zebra0000000000000001'],
    ['a counter behind a word', 'zebra0000000000000009', 'zebra000000000000000a'],
    ['digits beyond exact numbers', 'ffffffffffffff00', 'ffffffffffffff01'],
    ['the last counter', 'ffffffffffffffff', 'ffffffffffffffff0000000000000001'],
  ])('behind %s', (_what, largest, next) => {
    expect(nextFifoPid(largest as Pid, NOW)).toBe(next);
  });
});
