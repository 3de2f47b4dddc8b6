import type { Key, PartitionId } from '@taskmaster/server/domain';
import { afterPrefix, metaKeys, partitionOfMetaKey } from '../domain/keys.ts';
import { decodeHolderRow, type HolderRow } from '../log/holder-row.ts';
import { decodeClockMark, decodeNodeRow, encodeClockMark, encodeNodeRow, isEarlierNodeRow } from '../log/node-row.ts';
import { recover } from '../log/replay.ts';
import { scanAll } from '../log/scan-all.ts';
import { Family, type Store, StoreCorruptError, StoreFullError } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { EngineState, type EngineStateDeps } from './engine-state.ts';

/** Prepares a store for its first run, or continues where the last one stopped. Returns the number of partitions. */
export async function openNode(store: Store, clock: EngineStateDeps['clock'], partitions: number): Promise<number> {
  const [nodeRow, clockRow] = await store.get(Family.meta, [metaKeys.node, metaKeys.clock]);
  const earlier = clockRow && decodeClockMark(clockRow);
  if (earlier) clock.resume(earlier);
  const mark = clock.mark();
  const first = new WriteBatch();
  const row = nodeRow ? decodeNodeRow(nodeRow) : { partitions };
  const isCurrent = nodeRow !== undefined && !isEarlierNodeRow(nodeRow);
  if (!isCurrent) first.put(Family.meta, metaKeys.node, encodeNodeRow(row));
  // Before the first lease of a boot: a crash before the first checkpoint must not leave the time to the system's clock.
  if (earlier?.bootId === undefined || earlier.bootId !== mark.bootId) {
    first.put(Family.meta, metaKeys.clock, encodeClockMark(mark));
  }
  try {
    if (first.count > 0) await store.write(first, { sync: true });
  } catch (error) {
    // A full disk keeps nobody from starting; the next checkpoint writes the mark.
    if (!isCurrent || !(error instanceof StoreFullError)) throw error;
  }
  return row.partitions;
}

/** Every key of a family begins with two bytes of a partition. */
const EVERYTHING = { gte: '' as Key, lt: '\xff\xff\xff\xff\xff\xff\xff\xff\xff' as Key };

/** What a store has before it is opened. */
export async function inspectStore(store: Store): Promise<{ hasQueues: boolean; partitions: number | undefined }> {
  const [nodeRow] = await store.get(Family.meta, [metaKeys.node]);
  const queues = await store.scan(Family.queues, EVERYTHING, { rows: 1, bytes: 1 });
  return { hasQueues: queues.length > 0, partitions: nodeRow && decodeNodeRow(nodeRow).partitions };
}

/** Builds memory from the store: the checkpoint and the log behind it (the paper, 5.3). */
export async function openState(deps: EngineStateDeps): Promise<{ memory: EngineState; replayedAtoms: number }> {
  const { store, config, holdings } = deps;
  const recovered = await recover(store, config.requestIdWindowMs, (id) => holdings.holds(id));
  for (const id of recovered.partitions.keys()) assertPartition(id, deps.config.partitions);
  const memory = new EngineState(deps, recovered);
  await memory.requests.load(deps.clock.now());
  return { memory, replayedAtoms: recovered.replayedAtoms };
}

/** What the node knows for certain of its holding partitions of a cluster. */
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
