import { describe, expect, test } from 'vitest';
import { MAX_SHARDS, numberOfShards, ShardNames, shardIn, shardOfPid } from './shard-names.ts';

describe('the name of a shard', () => {
  test.each([
    ['shop#mail', 'shop~3#mail'],
    ['mail', '~3#mail'],
    ['#mail', '~3#mail'],
    ['shop#a#b', 'shop~3#a#b'],
    ['shop~x#mail', 'shop~x~3#mail'],
    ['shop~03#mail', 'shop~03~3#mail'],
  ])('of %s is %s, and can be read', (whole, shard) => {
    const names = new ShardNames(whole);
    expect(names.of(3)).toBe(shard);
    expect(shardIn(shard)).toEqual({ name: names.name, shard: 3 });
  });

  test.each(['shop#mail', 'mail', 'a~3', 'shop~256#mail', 'shop~03#mail', 'shop~-1#mail', 'shop~#mail'])(
    'is not %s',
    (other) => expect(shardIn(other)).toBeUndefined(),
  );

  test.each([
    ['', /empty/],
    ['shop#', /empty/],
    ['shop~3#mail', /shard/],
    [7 as never, /text/],
    [`${'g'.repeat(509)}#mail`, /too long/],
    [`${'ü'.repeat(255)}#mail`, /too long/],
  ])('cannot be made of %s', (name, message) => {
    expect(() => new ShardNames(name)).toThrow(TypeError);
    expect(() => new ShardNames(name)).toThrow(message);
  });

  test('has room for the longest group', () => {
    expect(new ShardNames(`${'g'.repeat(508)}#mail`).of(255)).toHaveLength(512 + '#mail'.length);
  });
});

test.each([0, -1, 1.5, Number.NaN, MAX_SHARDS + 1, '8' as never, undefined as never])(
  'a queue cannot have %s shards',
  (shards) => expect(() => numberOfShards(shards)).toThrow(TypeError),
);

// Fixed for ever: all producers must agree, in every language.
test.each([
  ['order-17', 8, 2],
  ['order-18', 8, 3],
  ['order-17', 16, 11],
  ['', 8, 5],
  ['user-1', 256, 61],
])('the shard of the PID %s among %d is %d', (pid, shards, shard) => {
  expect(shardOfPid(Buffer.from(pid), shards)).toBe(shard);
});

test('PIDs are spread evenly, and one more shard moves only its share', () => {
  const pids = Array.from({ length: 8_000 }, (_, at) => Buffer.from(`pid-${at}`));
  const counts = new Map<number, number>();
  let moved = 0;
  for (const pid of pids) {
    const shard = shardOfPid(pid, 8);
    counts.set(shard, (counts.get(shard) ?? 0) + 1);
    if (shardOfPid(pid, 9) !== shard) moved++;
  }
  for (let shard = 0; shard < 8; shard++) expect(Math.abs((counts.get(shard) ?? 0) - 1_000)).toBeLessThan(150);
  expect(Math.abs(moved - 8_000 / 9)).toBeLessThan(150);
});
