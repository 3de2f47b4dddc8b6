import {
  type ChosenMemory,
  type MemoryBounds,
  type MemoryDivision,
  type MemorySpec,
  MIB,
  PROGRAM_SHARES,
  readSize,
} from '@taskmaster/server/memory';

/** The settings whose sizes are parts of a proxy's memory. */
const settingParts = ['router.maxInFlightBytes', 'grpc.maxUnreadReplyBytes'] as const;

export type ProxyPart = (typeof settingParts)[number];
export type ProxyMemory = MemoryDivision<ProxyPart>;

/** The memory of a proxy. */
export const proxyMemorySpec: MemorySpec<ProxyPart> = {
  whose: 'a proxy',
  // Most of it is the mapped code of Node.js.
  processBytes: 128 * MIB,
  garbage: { leastBytes: 16 * MIB, usualBytes: 128 * MIB },
  shares: PROGRAM_SHARES,
  parts: {
    'router.maxInFlightBytes': { leastBytes: 16 * MIB, usualBytes: 128 * MIB, mostBytes: 512 * MIB },
    'grpc.maxUnreadReplyBytes': { leastBytes: 32 * MIB, usualBytes: 128 * MIB, mostBytes: 512 * MIB },
  },
};

/** The names of the settings that a division depends on. */
export const memorySettings: readonly string[] = ['memory', ...settingParts];

/** The sizes among raw values of settings. Values that are no sizes count as missing; the check of all settings reports them. */
export function chosenOf(values: ReadonlyMap<string, string>): ChosenMemory<ProxyPart> {
  const sizeOf = (name: string): number | undefined => readSize(values.get(name) ?? '');
  return {
    memory: sizeOf('memory'),
    parts: Object.fromEntries(settingParts.map((name) => [name, sizeOf(name)])),
  };
}

/**
 * A proxy keeps the messages that it passes on in buffers outside of V8's heap, and little in the heap itself. By default V8
 * collects the whole heap when the buffers of a moment exceed half of it: ten times a second. With a smaller young generation it
 * frees most buffers earlier, and with more growth it seldom collects the whole heap.
 */
export function proxyBoundsOf({ memory }: ProxyMemory): MemoryBounds {
  return { youngMib: 4, oldGrowthPercent: 300, oldMostMib: Math.floor(memory / MIB) };
}
