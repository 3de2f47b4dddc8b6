import type { PartitionId } from '../domain/ids.ts';
import { metaKeys } from '../domain/keys.ts';
import { decodeClockMark, decodeNodeRow, encodeNodeRow } from '../log/node-row.ts';
import { recover } from '../log/replay.ts';
import { Family, type Store, StoreCorrupt } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { Memory, type MemoryDeps } from './memory.ts';

/** Prepares a store for its first run, or continues where the last one stopped. Returns the number of partitions. */
export async function openNode(store: Store, clock: MemoryDeps['clock'], partitions: number): Promise<number> {
  const [nodeRow, clockRow] = await store.get(Family.meta, [metaKeys.node, metaKeys.clock]);
  if (clockRow) clock.resume(decodeClockMark(clockRow));
  if (nodeRow) return decodeNodeRow(nodeRow).partitions;
  const first = new WriteBatch();
  first.put(Family.meta, metaKeys.node, encodeNodeRow({ partitions }));
  await store.write(first, { sync: true });
  return partitions;
}

/** Builds memory from the store: the checkpoint and the log behind it (the paper, 5.3). */
export async function openMemory(deps: MemoryDeps): Promise<{ memory: Memory; replayedAtoms: number }> {
  const recovered = await recover(deps.store, deps.config.requestIdWindowMs);
  for (const id of recovered.partitions.keys()) assertPartition(id, deps.config.partitions);
  const memory = new Memory(deps, recovered);
  await memory.requests.load(deps.clock.now());
  return { memory, replayedAtoms: recovered.replayedAtoms };
}

function assertPartition(id: PartitionId, partitions: number): void {
  if (id < partitions) return;
  throw new StoreCorrupt(`the store has rows of partition ${id}, but was created with ${partitions} partitions`);
}
