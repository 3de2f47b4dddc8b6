import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { HolderTable, readDenial } from './holder-table.ts';

const PARTITIONS = 8;
/** The partition of the queue's group. */
const of = (queue: string): number => partitionOf(queue.slice(0, queue.indexOf('#')), PARTITIONS);
const queue = 'shop#mail';
const p = of(queue);

function tableOf(...holders: readonly [partition: number, address: string, epoch: number][]): HolderTable {
  const table = new HolderTable();
  table.begin('c-1', PARTITIONS);
  for (const [partition, address, epoch] of holders) table.learn(partition, { address, epoch });
  return table;
}

describe('a group', () => {
  test('has the address of the holder of its partition', () => {
    const table = tableOf([p, 'a:1', 1]);
    expect(table.addressOf(queue, 0)).toBe('a:1');
    expect(table.addressOf('shop#other', 0)).toBe('a:1');
  });

  test('is unknown before a node has reported it, and while the number of partitions is unknown', () => {
    expect(tableOf([(p + 1) % PARTITIONS, 'a:1', 1]).addressOf(queue, 0)).toBeUndefined();
    const table = new HolderTable();
    expect(table.isEmpty).toBe(true);
    table.learn(p, { address: 'a:1', epoch: 1 });
    expect(table.addressOf(queue, 0)).toBeUndefined();
    table.begin('c-1', PARTITIONS);
    expect(table.addressOf(queue, 0)).toBe('a:1');
  });

  test('belongs to another partition if the number of partitions is larger', () => {
    const table = tableOf([p, 'a:1', 1]);
    expect(table.addressOf(queue, 0)).toBe('a:1');
    table.begin('c-1', 1_000);
    table.learn(partitionOf('shop', 1_000), { address: 'b:1', epoch: 1 });
    expect(table.addressOf(queue, 0)).toBe('b:1');
  });
});

test('a partition has the address of its holder even if the number of partitions is unknown', () => {
  const table = new HolderTable();
  expect(table.addressOf(3, 0)).toBeUndefined();
  table.learn(3, { address: 'a:1', epoch: 1 });
  expect(table.addressOf(3, 0)).toBe('a:1');
});

test('several queues have an address only if one node holds all of them', () => {
  const other = ['a#q', 'b#q', 'c#q', 'd#q'].find((name) => of(name) !== p) ?? '';
  const table = tableOf([p, 'a:1', 1], [of(other), 'a:1', 1]);
  expect(table.addressOf([queue, other], 0)).toBe('a:1');
  table.learn(of(other), { address: 'b:1', epoch: 2 });
  expect(table.addressOf([queue, other], 0)).toBeUndefined();
  expect(table.addressOf([], 0)).toBeUndefined();
});

describe('of two reports', () => {
  test('the one with the newer epoch counts', () => {
    const table = tableOf([p, 'b:1', 5], [p, 'a:1', 4]);
    expect(table.addressOf(queue, 0)).toBe('b:1');
    table.denied('b:1', p, { address: 'c:1', epoch: 6 }, 0);
    expect(table.addressOf(queue, 0)).toBe('c:1');
  });

  test('of one epoch the later one counts: the holder has another address now', () => {
    expect(tableOf([p, 'a:1', 1], [p, 'a:2', 1]).addressOf(queue, 0)).toBe('a:2');
  });

  test('of two clusters the later one counts', () => {
    const table = tableOf([p, 'a:1', 9]);
    table.begin('c-2', PARTITIONS);
    expect(table.isEmpty).toBe(true);
  });
});

describe('a holder that denies the partition', () => {
  test('is asked once more, then not for a while', () => {
    const table = tableOf([p, 'a:1', 3]);
    table.denied('a:1', p, { address: 'b:1', epoch: 2 }, 1_000);
    expect(table.addressOf(queue, 1_000)).toBe('a:1');
    table.denied('a:1', p, undefined, 1_000);
    expect(table.addressOf(queue, 1_000)).toBeUndefined();
    expect(table.addressOf(queue, 3_000)).toBe('a:1');
    table.denied('a:1', p, undefined, 3_000);
    expect(table.addressOf(queue, 3_001)).toBeUndefined();
    table.learn(p, { address: 'a:1', epoch: 4 });
    expect(table.addressOf(queue, 3_001)).toBe('a:1');
  });

  test('stays if another node, which the table does not name, denies the partition', () => {
    const table = tableOf([p, 'a:1', 3]);
    for (let i = 0; i < 5; i++) table.denied('b:1', p, { address: 'c:1', epoch: 2 }, 0);
    expect(table.addressOf(queue, 0)).toBe('a:1');
  });
});

test.each([
  [
    { partition: '7', holder: 'a:1', node_id: 'x', epoch: '3' },
    { partition: 7, holder: { address: 'a:1', epoch: 3 } },
  ],
  [{ partition: '7' }, { partition: 7, holder: undefined }],
  [
    { partition: '7', holder: 'a:1' },
    { partition: 7, holder: undefined },
  ],
  [{ holder: 'a:1', epoch: '3' }, undefined],
  [{ partition: '-1' }, undefined],
])('a refusal with %j tells %j', (metadata, told) => expect(readDenial(metadata)).toEqual(told));
