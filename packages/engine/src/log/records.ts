import { reservedQueues } from '@taskmaster/proto';
import type { Instant, PartitionId, Pid, QueueId } from '../domain/ids.ts';
import { afterPrefix, instantOfDueKey, pidOfDueKey, pidOfTaskKey, queueKey } from '../domain/keys.ts';
import { Family, type Store } from '../ports/store.ts';
import { type BehindRows, untilOf } from './atom-rows.ts';
import type { QueueLedger } from './queue-ledger.ts';
import { scanAll } from './scan-all.ts';

/** The records of a group: tasks of a reserved queue, by their PIDs. */
export type RecordRows = ReadonlyMap<Pid, RecordRow>;

/** A record: the payload of its task, and until when the task is hidden. */
interface RecordRow {
  readonly data: Uint8Array;
  readonly until: Instant | undefined;
}

/** Reserved queues whose records memory keeps, because decisions need them at once. */
const IN_MEMORY: ReadonlySet<string> = new Set([
  reservedQueues.settings,
  reservedQueues.pauses,
  reservedQueues.limits,
  reservedQueues.bulkRuns,
  reservedQueues.subscriptions,
]);

interface Loaded {
  readonly ledgers: ReadonlyMap<QueueId, QueueLedger>;
  readonly behind: ReadonlyMap<QueueId, ReadonlyMap<Pid, BehindRows>>;
  readonly records: Map<QueueId, RecordRows>;
}

/**
 * Reads the records of a partition that memory keeps. The rows of payloads are exact at any time, because they are written and
 * deleted with the commit. The index of hidden tasks is exact for tasks that the log does not change.
 */
export async function loadRecords(store: Store, id: PartitionId, { ledgers, behind, records }: Loaded): Promise<void> {
  for (const { queueId, name } of ledgers.values()) {
    if (!IN_MEMORY.has(name.name)) continue;
    const gte = queueKey(id, queueId);
    const range = { gte, lt: afterPrefix(gte) };
    const untils = new Map<Pid, Instant | undefined>();
    for await (const { key } of scanAll(store, Family.due, range)) untils.set(pidOfDueKey(key), instantOfDueKey(key));
    for (const [pid, { now }] of behind.get(queueId) ?? []) untils.set(pid, untilOf(now));
    const rows = new Map<Pid, RecordRow>();
    for await (const { key, value } of scanAll(store, Family.data, range)) {
      const pid = pidOfTaskKey(key);
      rows.set(pid, { data: value, until: untils.get(pid) });
    }
    records.set(queueId, rows);
  }
}
