import { reservedQueues } from '@taskmaster/proto';
import type { PartitionId, Pid, QueueId } from '@taskmaster/server/domain';
import { afterPrefix, pidOfTaskKey, queueKey } from '../domain/keys.ts';
import { Family, type Store } from '../ports/store.ts';
import type { QueueLedger } from './queue-ledger.ts';
import { scanAll } from './scan-all.ts';

/** The records of a group: tasks of a reserved queue, by their PIDs. */
export type RecordRows = ReadonlyMap<Pid, Uint8Array>;

/** Reserved queues whose records memory keeps, because decisions need them at once. */
const IN_MEMORY: ReadonlySet<string> = new Set([reservedQueues.settings]);

interface Loaded {
  readonly ledgers: ReadonlyMap<QueueId, QueueLedger>;
  readonly records: Map<QueueId, RecordRows>;
}

/**
 * Reads the records of a partition that memory keeps. The rows of payloads are exact at any time, because they are written and
 * deleted with the commit.
 */
export async function loadRecords(store: Store, id: PartitionId, { ledgers, records }: Loaded): Promise<void> {
  for (const { queueId, name } of ledgers.values()) {
    if (!IN_MEMORY.has(name.name)) continue;
    const gte = queueKey(id, queueId);
    const rows = new Map<Pid, Uint8Array>();
    for await (const { key, value } of scanAll(store, Family.data, { gte, lt: afterPrefix(gte) })) {
      rows.set(pidOfTaskKey(key), value);
    }
    records.set(queueId, rows);
  }
}
