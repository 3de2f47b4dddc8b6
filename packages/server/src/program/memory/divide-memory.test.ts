import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AvailableMemory } from './available-memory.ts';
import {
  type ChosenMemory,
  divideMemory,
  type MemoryDivision,
  type MemorySpec,
  PROGRAM_SHARES,
} from './divide-memory.ts';
import { GIB, MIB } from './sizes.ts';

type Part = 'cache' | 'tables' | 'ids';

/** The least memory is 100 + 20 + 10 × 2 + 30 + 10 = 180 MiB, the usual memory 100 + 100 + 200 × 2 + 100 + 20 = 720. */
const spec: MemorySpec<Part> = {
  whose: 'a program',
  shares: PROGRAM_SHARES,
  processBytes: 100 * MIB,
  garbage: { leastBytes: 20 * MIB, usualBytes: 100 * MIB },
  parts: {
    cache: { leastBytes: 10 * MIB, usualBytes: 200 * MIB, cost: 2 },
    tables: { leastBytes: 30 * MIB, usualBytes: 100 * MIB, mostBytes: 150 * MIB },
    ids: { leastBytes: 10 * MIB, usualBytes: 20 * MIB, mostBytes: 20 * MIB },
  },
};

const machine = (bytes: number): AvailableMemory => ({ bytes, source: 'machine' });
const cgroup = (bytes: number): AvailableMemory => ({ bytes, source: 'cgroup' });
const LARGE = machine(64 * GIB);
const set = (memory: number | undefined, parts: ChosenMemory<Part>['parts'] = {}): ChosenMemory<Part> => ({
  memory: memory === undefined ? undefined : memory * MIB,
  parts,
});

function divided(chosen: ChosenMemory<Part>, available = LARGE): MemoryDivision<Part> {
  const division = divideMemory(spec, chosen, available);
  if (division.kind === 'refused') throw new Error(division.problem);
  return division;
}

/** Sizes in MiB: cache, tables, ids, garbage. */
function sizesOf({ parts }: MemoryDivision<Part>): readonly number[] {
  return [parts.cache, parts.tables, parts.ids, parts.garbage].map((bytes) => bytes / MIB);
}

describe('memory as set', () => {
  test.each<[what: string, ChosenMemory<Part>, sizes: readonly number[]]>([
    ['is divided into least sizes if it is the least', set(180), [10, 30, 10, 30]],
    ['is divided into usual sizes if it is the usual one', set(720), [200, 100, 20, 300]],
    ['has every part on half of the way if it is in the middle', set(450), [105, 65, 15, 165]],
    ['beyond the usual sizes grows all parts but those with a largest size', set(1440), [476, 150, 20, 694]],
    ['leaves a part its own size and shares the rest', set(450, { cache: 20 * MIB }), [20, 142, 20, 168]],
    ['leaves a part its own size although it is below the least', set(175, { cache: 5 * MIB }), [5, 32, 10, 28]],
  ])('%s', (_what, chosen, sizes) => {
    expect(sizesOf(divided(chosen))).toEqual(sizes);
  });

  test.each<[what: string, ChosenMemory<Part>, problem: string]>([
    ['too little', set(179), '179MiB is too little: a program needs at least 180MiB'],
    [
      'too little for a part',
      set(450, { cache: 150 * MIB, ids: 10 * MIB }),
      '450MiB is too little: a program needs at least 460MiB with cache 150MiB',
    ],
    [
      'too little for several parts',
      set(300, { cache: 100 * MIB, tables: 100 * MIB }),
      '300MiB is too little: a program needs at least 430MiB with cache 100MiB, tables 100MiB',
    ],
  ])('is refused if it is %s', (_what, chosen, problem) => {
    expect(divideMemory(spec, chosen, LARGE)).toEqual({ kind: 'refused', problem });
  });
});

describe('memory that the program chooses', () => {
  test.each<[what: string, AvailableMemory, ChosenMemory<Part>, memory: number]>([
    ['is what its parts usually need on a large machine', LARGE, set(undefined), 720],
    ['is half of a small machine', machine(GIB), set(undefined), 512],
    ['is three quarters of what the cgroup allows', cgroup(512 * MIB), set(undefined), 384],
    ['is the least if there is hardly more', cgroup(200 * MIB), set(undefined), 180],
    ['grows with a large part', LARGE, set(undefined, { cache: 500 * MIB }), 1320],
    ['shrinks with a small part', LARGE, set(undefined, { cache: 10 * MIB }), 340],
  ])('%s', (_what, available, chosen, memory) => {
    const division = divided(chosen, available);
    expect(division).toMatchObject({ memory: memory * MIB, source: available.source, available });
  });

  test.each<[AvailableMemory, ChosenMemory<Part>, problem: string]>([
    [
      cgroup(150 * MIB),
      set(undefined),
      'the cgroup of this process allows 150MiB, which is too little: a program needs at least 180MiB',
    ],
    [
      machine(512 * MIB),
      set(undefined, { cache: 200 * MIB }),
      'this machine has 512MiB, which is too little: a program needs at least 560MiB with cache 200MiB',
    ],
  ])('is refused if there is too little', (available, chosen, problem) => {
    expect(divideMemory(spec, chosen, available)).toEqual({ kind: 'refused', problem });
  });
});

test('the parts are the memory, together', () => {
  const size = (most: number) => fc.option(fc.integer({ min: MIB, max: most * MIB }), { nil: undefined });
  const chosen = fc.record({
    memory: size(4_000),
    parts: fc.record({ cache: size(1_000), tables: size(1_000), ids: size(100) }),
  });
  fc.assert(
    fc.property(chosen, fc.integer({ min: 100 * MIB, max: 8 * GIB }), (chosen, bytes) => {
      const division = divideMemory(spec, chosen, machine(bytes));
      if (division.kind === 'refused') return;
      const { memory, parts } = division;
      expect(Object.values(parts).reduce((sum, part) => sum + part)).toBe(memory);
      for (const name of ['cache', 'tables', 'ids'] as const) {
        if (chosen.parts[name] !== undefined) expect(parts[name]).toBe(chosen.parts[name]);
        else expect(parts[name]).toBeGreaterThanOrEqual(spec.parts[name].leastBytes);
      }
      // The objects of the cache have as much garbage beside them.
      expect(parts.garbage).toBeGreaterThanOrEqual(spec.garbage.leastBytes + parts.cache);
    }),
  );
});
