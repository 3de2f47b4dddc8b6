import { reservedQueues } from '@taskmaster/proto';
import type { PartitionId, Pid, QueueId } from '../domain/ids.ts';
import { afterPrefix, pidOfTaskKey, queueKey } from '../domain/keys.ts';
import type { TaskState } from '../domain/task.ts';
import { Family, type Store } from '../ports/store.ts';
import { type BehindRows, decodeTaskRow } from './atom-rows.ts';
import type { QueueLedger } from './queue-ledger.ts';
import { scanAll } from './scan-all.ts';

/** The records of a group: tasks of a reserved queue, by their PIDs. */
export type RecordRows = ReadonlyMap<Pid, RecordRow>;

/** A record: the payload of its task, and the state of the task if it is hidden. */
interface RecordRow {
  readonly data: Uint8Array;
  readonly hidden: TaskState | undefined;
}

/** Reserved queues whose records memory keeps, because decisions need them at once. */
const IN_MEMORY: ReadonlySet<string> = new Set([
  reservedQueues.settings,
  reservedQueues.pauses,
  reservedQueues.limits,
  reservedQueues.tokens,
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
 * deleted with the commit. The rows of hidden tasks are exact for tasks that the log does not change.
 */
export async function loadRecords(store: Store, id: PartitionId, { ledgers, behind, records }: Loaded): Promise<void> {
  for (const { queueId, name } of ledgers.values()) {
    if (!IN_MEMORY.has(name.name)) continue;
    const gte = queueKey(id, queueId);
    const range = { gte, lt: afterPrefix(gte) };
    const hidden = new Map<Pid, TaskState | undefined>();
    for await (const { key, value } of scanAll(store, Family.hidden, range))
      hidden.set(pidOfTaskKey(key), decodeTaskRow(value));
    for (const [pid, { now }] of behind.get(queueId) ?? [])
      hidden.set(pid, now?.visibility.kind === 'hidden' ? now : undefined);
    const rows = new Map<Pid, RecordRow>();
    for await (const { key, value } of scanAll(store, Family.data, range)) {
      const pid = pidOfTaskKey(key);
      rows.set(pid, { data: value, hidden: hidden.get(pid) });
    }
    records.set(queueId, rows);
  }
}
