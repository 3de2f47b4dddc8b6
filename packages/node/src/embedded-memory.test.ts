import { MIB } from '@taskmaster/server/memory';
import { InvalidConfigError } from '@taskmaster/server/program';
import { expect, test } from 'vitest';
import { divideEmbeddedMemory } from './embedded-memory.ts';

const laptop = { bytes: 64 * 1024 * MIB, source: 'machine' } as const;
const container = { bytes: 512 * MIB, source: 'cgroup' } as const;

const sum = (parts: Readonly<Record<string, number>>): number =>
  Object.values(parts).reduce((total, bytes) => total + bytes, 0);

test('an embedded queue takes little of a large machine', () => {
  expect(sum(divideEmbeddedMemory(undefined, {}, laptop))).toBe(256 * MIB);
});

test('an embedded queue takes a quarter of what the cgroup allows', () => {
  expect(sum(divideEmbeddedMemory(undefined, {}, container))).toBe(128 * MIB);
});

test('the memory is divided among the parts without sizes', () => {
  const parts = divideEmbeddedMemory(200 * MIB, { cacheBytes: 100 * MIB, maxInFlightBytes: undefined }, laptop);
  expect(parts).toMatchObject({ cacheBytes: 100 * MIB });
  expect(parts.maxInFlightBytes).toBeGreaterThanOrEqual(8 * MIB);
  expect(sum(parts)).toBe(200 * MIB);
});

test('too little memory is refused with the least', () => {
  expect(() => divideEmbeddedMemory(16 * MIB, {}, laptop)).toThrow(InvalidConfigError);
  expect(() => divideEmbeddedMemory(16 * MIB, {}, laptop)).toThrow(
    'invalid configuration: memoryBytes: 16MiB is too little: an embedded queue needs at least 32MiB',
  );
});
