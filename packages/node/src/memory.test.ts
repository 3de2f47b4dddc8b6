import { MIB } from '@taskmaster/server/memory';
import { expect, test } from 'vitest';
import { completeConfig, type NodeConfigInput } from './config.ts';
import { chosenOf, memorySettings, nodeBoundsOf } from './memory.ts';

const laptop = { bytes: 64 * 1024 * MIB, source: 'machine' } as const;
const memoryOf = (settings: NodeConfigInput) => completeConfig(settings, laptop);

test('a node takes little of a large machine', () => {
  const { config, memory } = memoryOf({});
  expect(memory.source).toBe('machine');
  expect(config.memory / MIB).toBeLessThan(1_500);
});

test('the settings have the sizes of the parts, and sizes that are set stay as they are', () => {
  const { config, memory } = memoryOf({ memory: 512 * MIB, engine: { cacheBytes: 20 * MIB } });
  expect(config.engine.cacheBytes).toBe(20 * MIB);
  expect(config.store.memtableBytes).toBe(memory.parts['store.memtableBytes']);
  expect(config.store.blockCacheBytes).toBeGreaterThan(memoryOf({ memory: 512 * MIB }).config.store.blockCacheBytes);
});

test('parts that exceed the memory are refused', () => {
  expect(() => memoryOf({ memory: 512 * MIB, engine: { cacheBytes: 400 * MIB } })).toThrow(
    /memory: 512MiB is too little: a node needs at least \d+MiB with engine\.cacheBytes 400MiB/,
  );
});

test('the program divides the raw settings as the node divides the checked ones', () => {
  const raw = new Map([
    ['memory', '512MiB'],
    ['engine.cacheBytes', '20 MiB'],
    ['store.memtableBytes', 'auto'],
  ]);
  expect(memorySettings).toEqual(expect.arrayContaining([...raw.keys()]));
  const { memory, parts } = chosenOf(raw);
  expect({ memory, parts }).toMatchObject({ memory: 512 * MIB, parts: { 'engine.cacheBytes': 20 * MIB } });
  expect(parts['store.memtableBytes']).toBeUndefined();
});

test.each([300, 512, 1024, 4096])('with %s MiB, the heap of V8 fits beside the memory of RocksDB', (mib) => {
  const { memory } = memoryOf({ memory: mib * MIB });
  const { youngMib, oldMostMib = 0, oldLeastMib = 0 } = nodeBoundsOf(memory);
  const native = memory.parts['store.blockCacheBytes'] + memory.parts['store.memtableBytes'];
  expect(3 * youngMib + oldMostMib).toBeLessThanOrEqual(mib - native / MIB);
  // The cache may consist of objects only.
  expect(oldMostMib).toBeGreaterThan(memory.parts['engine.cacheBytes'] / MIB + oldLeastMib);
});
