import {
  type ChosenMemory,
  type MemoryBounds,
  type MemoryDivision,
  type MemorySpec,
  MIB,
  PROGRAM_SHARES,
  readSize,
} from '@taskmaster/server/memory';

/** The settings whose sizes are parts of a node's memory. */
const settingParts = [
  'engine.cacheBytes',
  'store.blockCacheBytes',
  'store.memtableBytes',
  'engine.requestIdCacheBytes',
  'engine.maxInFlightBytes',
  'grpc.maxUnreadReplyBytes',
] as const;

type SettingPart = (typeof settingParts)[number];
/** V8's young generation has no setting. */
export type NodePart = SettingPart | 'youngGeneration';
export type NodeMemory = MemoryDivision<NodePart>;

/** A young generation has three semi-spaces. */
const SEMI_SPACES = 3;

/** The memory of a node. The figures are measured: see docs/operate/sizing.md and row B8 of the bench. */
export const nodeMemorySpec: MemorySpec<NodePart> = {
  whose: 'a node',
  // Half of it is the mapped code of Node.js and RocksDB.
  processBytes: 160 * MIB,
  garbage: { leastBytes: 16 * MIB, usualBytes: 200 * MIB },
  shares: PROGRAM_SHARES,
  parts: {
    'engine.cacheBytes': { leastBytes: 8 * MIB, usualBytes: 256 * MIB, cost: 1.25 },
    'store.blockCacheBytes': { leastBytes: 8 * MIB, usualBytes: 128 * MIB },
    'store.memtableBytes': { leastBytes: 48 * MIB, usualBytes: 96 * MIB, mostBytes: 256 * MIB },
    'engine.requestIdCacheBytes': { leastBytes: 2 * MIB, usualBytes: 32 * MIB, mostBytes: 256 * MIB, cost: 1.25 },
    // Requests have copies in the writing thread, and requests that wait for their turn come on top.
    'engine.maxInFlightBytes': { leastBytes: 8 * MIB, usualBytes: 128 * MIB, mostBytes: 512 * MIB, cost: 1.5 },
    'grpc.maxUnreadReplyBytes': { leastBytes: 32 * MIB, usualBytes: 128 * MIB, mostBytes: 512 * MIB },
    // V8's young generation is not faster beyond this, and keeps more memory of received messages.
    youngGeneration: { leastBytes: 6 * MIB, usualBytes: 48 * MIB, mostBytes: 48 * MIB },
  },
};

/** With less memory, the allocator keeps none of the memory of large payloads for later. */
const SCARCE_BYTES = 1024 * MIB;

/** V8 waits for this much garbage at most before it collects everything for the first time. More is not faster. */
const MOST_INITIAL_OLD_MIB = 128;

/** The names of the settings that a division depends on. */
export const memorySettings: readonly string[] = ['memory', ...settingParts];

/** The sizes among raw values of settings. Values that are no sizes count as missing; the check of all settings reports them. */
export function chosenOf(values: ReadonlyMap<string, string>): ChosenMemory<NodePart> {
  const sizeOf = (name: string): number | undefined => readSize(values.get(name) ?? '');
  return {
    memory: sizeOf('memory'),
    parts: Object.fromEntries(settingParts.map((name) => [name, sizeOf(name)])),
  };
}

/** The bounds of V8 for a division. */
export function nodeBoundsOf({ memory, parts }: NodeMemory): MemoryBounds {
  const outsideOfHeap = parts['store.blockCacheBytes'] + parts['store.memtableBytes'];
  const young = Math.floor(parts.youngGeneration / SEMI_SPACES / MIB);
  return {
    youngMib: Math.max(1, young),
    oldGrowthPercent: 60,
    oldLeastMib: Math.min(MOST_INITIAL_OLD_MIB, Math.round(parts.garbage / MIB)),
    oldMostMib: Math.floor((memory - outsideOfHeap - parts.youngGeneration) / MIB),
    countsBuffers: true,
    givesBack: memory < SCARCE_BYTES,
  };
}
