import { availableMemory, divideMemory, type MemorySpec, MIB } from '@taskmaster/server/memory';
import { InvalidConfigError } from '@taskmaster/server/program';

/** The options whose sizes are parts of the memory of an embedded queue. */
export type EmbeddedPart =
  | 'cacheBytes'
  | 'store.blockCacheBytes'
  | 'store.memtableBytes'
  | 'requestIdCacheBytes'
  | 'maxInFlightBytes';

/** An embedded queue is a guest in another program: it takes less by itself than a node, and leaves V8 alone. */
const spec: MemorySpec<EmbeddedPart> = {
  whose: 'an embedded queue',
  processBytes: 0,
  garbage: { leastBytes: 5 * MIB, usualBytes: 30 * MIB },
  shares: { cgroup: 0.25, machine: 0.25 },
  parts: {
    cacheBytes: { leastBytes: 4 * MIB, usualBytes: 64 * MIB, cost: 1.25 },
    'store.blockCacheBytes': { leastBytes: 4 * MIB, usualBytes: 32 * MIB },
    'store.memtableBytes': { leastBytes: 8 * MIB, usualBytes: 64 * MIB },
    requestIdCacheBytes: { leastBytes: MIB, usualBytes: 8 * MIB, cost: 1.25 },
    maxInFlightBytes: { leastBytes: 8 * MIB, usualBytes: 40 * MIB },
  },
};

/** The sizes of the parts of an embedded queue. @throws InvalidConfigError if they do not fit. */
export function divideEmbeddedMemory(
  memory: number | undefined,
  parts: Partial<Readonly<Record<EmbeddedPart, number | undefined>>>,
  available = availableMemory(),
): Readonly<Record<EmbeddedPart, number>> {
  const chosen = Object.fromEntries(Object.entries(parts).filter(([, bytes]) => bytes !== undefined));
  const division = divideMemory(spec, { memory, parts: chosen }, available);
  if (division.kind === 'refused') throw new InvalidConfigError([`memoryBytes: ${division.problem}`]);
  return division.parts;
}
