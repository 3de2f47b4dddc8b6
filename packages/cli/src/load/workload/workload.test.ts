import { describe, expect, test } from 'vitest';
import { smallWorkload } from '../../testing/small-load.ts';
import { MIN_PAYLOAD_BYTES, Payloads } from './payloads.ts';
import { Choice, LoadRandom, zipfWeights } from './random.ts';
import { queuesOf } from './settings.ts';

describe('payloads', () => {
  const payloads = new Payloads('run1', new LoadRandom(1));

  test.each([MIN_PAYLOAD_BYTES, 100, 70_000, 300_000])('of %i bytes tell which task they are of', (bytes) => {
    const payload = payloads.make(12_345, bytes);
    expect(payload.byteLength).toBe(bytes);
    expect(payloads.read(payload)).toBe(12_345);
  });

  test('are not read if a byte has changed, if they were cut, or if they are of another run', () => {
    const payload = payloads.make(7, 200);
    for (let at = 0; at < payload.byteLength; at++) {
      const changed = Buffer.from(payload);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(payloads.read(changed)).not.toBe(7);
    }
    expect(payloads.read(payload.subarray(0, 199))).toBeUndefined();
    expect(payloads.read(Buffer.from('{}'))).toBeUndefined();
    expect(new Payloads('run2', new LoadRandom(1)).read(payload)).toBeUndefined();
  });
});

test('a choice is made in proportion to the weights', () => {
  const random = new LoadRandom(5);
  const choice = new Choice([0, 3, 0, 1]);
  const picked = Array.from({ length: 10_000 }, () => choice.pick(random));
  expect(new Set(picked)).toEqual(new Set([1, 3]));
  expect(picked.filter((index) => index === 1).length / 10_000).toBeCloseTo(0.75, 1);
  expect(zipfWeights(3, 1)).toEqual([1, 1 / 2, 1 / 3]);
  expect(zipfWeights(3, 0)).toEqual([1, 1, 1]);
});

test('no two instances share a group', () => {
  const queues = [0, 1, 2].map((index) => queuesOf(smallWorkload, { index, count: 3 }));
  expect(queues[1]).toEqual(['load-2#q0', 'load-3#q0', 'load-2#q1', 'load-3#q1']);
  const groups = queues.map((names) => new Set(names.map((name) => name.split('#')[0])));
  expect(new Set(groups.flatMap((names) => [...names])).size).toBe(6);
});
