import type { Key, PartitionId } from './domain/ids.ts';
import { afterPrefix, metaKeys, partitionOfMetaKey } from './domain/keys.ts';
import { EngineState, type EngineStateDeps } from './engine-state.ts';
import { decodeHolderRow, type HolderRow } from './log/holder-row.ts';
import { decodeClockMark, decodeNodeRow, encodeClockMark, encodeNodeRow, isEarlierNodeRow } from './log/node-row.ts';
import { recover } from './log/replay.ts';
import { scanAll } from './log/scan-all.ts';
import { Family, type Store, StoreCorruptError, StoreFullError } from './ports/store.ts';
import { WriteBatch } from './ports/write-batch.ts';

/**
 * Prepares a new store, or checks an existing one and restores the clock. Returns the number of partitions. `isShared`: other
 * nodes use the store, too, and it has no mark of a clock.
 */
export async function openNode(
  store: Store,
  clock: EngineStateDeps['clock'],
  partitions: number,
  isShared = false,
): Promise<number> {
  const [nodeRow, clockRow] = await store.get(Family.meta, [metaKeys.node, metaKeys.clock]);
  const earlier = isShared ? undefined : clockRow && decodeClockMark(clockRow);
  if (earlier) clock.resume(earlier);
  const mark = clock.mark();
  const first = new WriteBatch();
  const row = nodeRow ? decodeNodeRow(nodeRow) : { partitions };
  const isCurrent = nodeRow !== undefined && !isEarlierNodeRow(nodeRow);
  if (!isCurrent) first.put(Family.meta, metaKeys.node, encodeNodeRow(row));
  // Write the mark before the first lease after a boot. Otherwise, after a crash before the first checkpoint, only the system's
  // clock would tell the time.
  if (!isShared && (earlier?.bootId === undefined || earlier.bootId !== mark.bootId)) {
    first.put(Family.meta, metaKeys.clock, encodeClockMark(mark));
  }
  try {
    if (first.count > 0) await store.write(first, { sync: true });
  } catch (error) {
    // A full disk does not prevent the start. The next checkpoint writes the mark.
    if (!isCurrent || !(error instanceof StoreFullError)) throw error;
  }
  return row.partitions;
}

/** Every key of a family begins with two bytes of a partition. */
const EVERYTHING = { gte: '' as Key, lt: '\xff\xff\xff\xff\xff\xff\xff\xff\xff' as Key };

/** The facts about a store that are needed before it is opened. */
export async function inspectStore(store: Store): Promise<{ hasQueues: boolean; partitions: number | undefined }> {
  const [nodeRow] = await store.get(Family.meta, [metaKeys.node]);
  const queues = await store.scan(Family.queues, EVERYTHING, { rows: 1, bytes: 1 });
  return { hasQueues: queues.length > 0, partitions: nodeRow && decodeNodeRow(nodeRow).partitions };
}

/** Builds the state from the store: from the checkpoint and the log behind it (the paper, 5.3). */
export async function openState(
  deps: EngineStateDeps,
  onReplay?: (atoms: number) => void,
): Promise<{ engineState: EngineState; replayedAtoms: number }> {
  const { store, config, holdings, shared, clock } = deps;
  // Nodes that share a store read only what they hold of it.
  const only = shared && holdings.inMemory();
  const isHeld = (id: PartitionId): boolean => holdings.holds(id);
  const recovered = await recover(store, config.requestIdWindowMs, { isHeld, only, onReplay });
  for (const id of recovered.partitions.keys()) assertPartition(id, config.partitions);
  const engineState = new EngineState(deps, recovered);
  const { requests } = engineState;
  if (only === undefined) await requests.load(clock.now());
  else {
    requests.begin();
    for (const id of only) requests.opens(id, clock.now());
  }
  return { engineState, replayedAtoms: recovered.replayedAtoms };
}

/** Reads the durable facts about which partitions of a cluster this node holds. */
export async function readHolderRows(store: Store): Promise<Map<PartitionId, HolderRow>> {
  const rows = new Map<PartitionId, HolderRow>();
  const range = { gte: 'holder/' as Key, lt: afterPrefix('holder/') };
  for await (const { key, value } of scanAll(store, Family.meta, range)) {
    rows.set(partitionOfMetaKey(key), decodeHolderRow(value));
  }
  return rows;
}

function assertPartition(id: PartitionId, partitions: number): void {
  if (id < partitions) return;
  throw new StoreCorruptError(`the store has rows of partition ${id}, but was created with ${partitions} partitions`);
}
