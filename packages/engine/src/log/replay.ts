import { type ApplyAtom, lastAfter, lastChanges, type TaskChange } from '../domain/atom.ts';
import { decodeAtom, eventsOfEntry } from '../domain/atom-codec.ts';
import { UnreadableBytesError } from '../domain/bytes.ts';
import type { EventsOfAtom } from '../domain/events.ts';
import type { Key, PartitionId, PartitionLife, Pid, QueueId, Ticket } from '../domain/ids.ts';
import {
  afterPrefix,
  metaKeys,
  partitionOfLogKey,
  partitionOfMetaKey,
  partitionRange,
  queuePrefix,
  ticketOfLogKey,
} from '../domain/keys.ts';
import type { TaskState } from '../domain/task.ts';
import { Family, type Row, type Store, StoreCorruptError } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { type BehindRows, writeLast, writeRows, writeTaskRows } from './atom-rows.ts';
import { decodePartitionRow } from './partition-row.ts';
import { QueueLedger } from './queue-ledger.ts';
import { loadRecords, type RecordRows } from './records.ts';
import { scanAll, WHOLE_FAMILY } from './scan-all.ts';

/** A task that atoms behind the checkpoint have changed. Its rows may have any of its states since then. */
interface RecoveredTask extends BehindRows {
  readonly others: TaskState[];
  now: TaskState | undefined;
}

/** The last tasks by queue and order key. Undefined: there is none. */
export type LastTasks = Map<QueueId, Map<string, Pid | undefined>>;

/** A partition as recovered from disk. */
export interface RecoveredPartition {
  lastTicket: Ticket;
  nextQueueId: QueueId;
  life: PartitionLife;
  /** See `PartitionRow.lastEpoch`. Undefined also if the last atom is behind the checkpoint. */
  lastEpoch: number | undefined;
  /** The log has only entries behind this ticket. Some of them may already be covered by the checkpoint. */
  trimmedTicket: Ticket;
  readonly ledgers: Map<QueueId, QueueLedger>;
  /** Ledgers that atoms behind the checkpoint have changed. */
  readonly changed: Set<QueueLedger>;
  /** By queue: tasks whose rows may be stale. */
  readonly behind: Map<QueueId, Map<Pid, RecoveredTask>>;
  /** By queue and order key: the last task, if these atoms have changed it. */
  readonly lasts: LastTasks;
  /** By queue: the records that memory keeps. See `loadRecords`. */
  readonly records: Map<QueueId, RecordRows>;
  /** The atoms of the log, with earlier ones that it still has, that say what happened in groups with readers. In order. */
  readonly eventful: EventfulAtom[];
}

/** What an atom says about the groups that had readers. */
export interface EventfulAtom extends EventsOfAtom {
  readonly ticket: Ticket;
}

export interface Recovered {
  readonly partitions: ReadonlyMap<PartitionId, RecoveredPartition>;
  readonly replayedAtoms: number;
}

interface RecoverOptions {
  /** False for partitions whose rows are ignored: transfers have left them. Default: none. */
  readonly isHeld?: (id: PartitionId) => boolean;
  /** Only the rows of these partitions are read. Default: all rows. */
  readonly only?: readonly PartitionId[] | undefined;
  /** Called after each atom, with the number of atoms so far. */
  readonly onReplay?: ((atoms: number) => void) | undefined;
}

/** Rows of replayed atoms are written in batches of about this many bytes. */
const REPLAY_BATCH_BYTES = 4 * 1024 * 1024;

/**
 * Recovers the state in memory (the paper, 5.3) from the checkpointed ledgers and every atom behind the minimum ticket, in
 * order. An atom behind a gap was never acknowledged. It is removed, so that its ticket can be used again.
 *
 * Throws `StoreCorruptError` for rows that cannot be read.
 */
export async function recover(store: Store, requestWindowMs: number, options: RecoverOptions = {}): Promise<Recovered> {
  const { isHeld = () => true, onReplay = () => {}, only } = options;
  try {
    const partitions = await loadCheckpoint(store, isHeld, only);
    const replayedAtoms = await replayLog(store, partitions, requestWindowMs, { isHeld, onReplay, only });
    for (const [id, partition] of partitions) await loadRecords(store, id, partition);
    return { partitions, replayedAtoms };
  } catch (error) {
    if (!(error instanceof UnreadableBytesError)) throw error;
    throw new StoreCorruptError(
      `the store holds a row that cannot be read (${error.message}): restore it from a backup`,
      {
        cause: error,
      },
    );
  }
}

/** The rows of a family whose keys begin with the partition. `only`: see `RecoverOptions`. */
async function* rowsOf(store: Store, family: Family, only: readonly PartitionId[] | undefined): AsyncGenerator<Row> {
  if (only === undefined) yield* scanAll(store, family, WHOLE_FAMILY);
  else for (const id of only) yield* scanAll(store, family, partitionRange(id));
}

async function* partitionRows(store: Store, only: readonly PartitionId[] | undefined): AsyncGenerator<Row> {
  if (only === undefined) {
    yield* scanAll(store, Family.meta, { gte: 'partition/' as Key, lt: afterPrefix('partition/') });
    return;
  }
  const keys = only.map((id) => metaKeys.partition(id));
  const values = await store.get(Family.meta, keys);
  for (const [index, key] of keys.entries()) {
    const value = values[index];
    if (value !== undefined) yield { key, value };
  }
}

async function loadCheckpoint(
  store: Store,
  isHeld: (id: PartitionId) => boolean,
  only: readonly PartitionId[] | undefined,
): Promise<Map<PartitionId, RecoveredPartition>> {
  const partitions = new Map<PartitionId, RecoveredPartition>();
  for await (const { key, value } of partitionRows(store, only)) {
    const id = partitionOfMetaKey(key);
    if (!isHeld(id)) continue;
    const { appliedTicket, nextQueueId, life, lastEpoch } = decodePartitionRow(value);
    const partition = recoveredIn(partitions, id);
    partition.lastTicket = appliedTicket;
    partition.trimmedTicket = appliedTicket;
    partition.nextQueueId = nextQueueId;
    partition.life = life;
    partition.lastEpoch = lastEpoch;
  }
  for await (const { key, value } of rowsOf(store, Family.queues, only)) {
    // Like log keys, queue keys begin with the partition.
    const id = partitionOfLogKey(key);
    if (!isHeld(id)) continue;
    const ledger = QueueLedger.decode(value);
    const partition = recoveredIn(partitions, id);
    partition.ledgers.set(ledger.queueId, ledger);
    noteQueueId(partition, ledger.queueId);
  }
  return partitions;
}

async function replayLog(
  store: Store,
  partitions: Map<PartitionId, RecoveredPartition>,
  requestWindowMs: number,
  { isHeld, onReplay, only }: Pick<Required<RecoverOptions>, 'isHeld'> & RecoverOptions,
): Promise<number> {
  let replayed = 0;
  let rows = new WriteBatch();
  const broken = new Set<PartitionId>();
  for await (const { key, value } of rowsOf(store, Family.log, only)) {
    const id = partitionOfLogKey(key);
    if (!isHeld(id)) continue;
    const ticket = ticketOfLogKey(key);
    const partition = recoveredIn(partitions, id);
    if (ticket <= partition.trimmedTicket) partition.trimmedTicket = (ticket - 1) as Ticket;
    if (ticket <= partition.lastTicket && !broken.has(id)) {
      noteEvents(partition, ticket, eventsOfEntry(id, ticket, value));
      continue;
    }
    if (broken.has(id) || ticket !== partition.lastTicket + 1) {
      if (store.atomicBatches) {
        throw new StoreCorruptError(
          `the commit log of partition ${id} lacks ticket ${partition.lastTicket + 1}: restore it from a backup`,
        );
      }
      broken.add(id);
      rows.delete(Family.log, key);
      continue;
    }
    const atom = decodeAtom(id, ticket, value);
    replayInto(partition, atom);
    noteBehind(partition, atom);
    replayed++;
    onReplay?.(replayed);
    if (store.atomicBatches) {
      for (const { queueId } of atom.dropped) forgetBehind(partition, queueId);
      continue;
    }
    writeRows(atom, rows, requestWindowMs);
    writeLastRows(partition, atom, rows);
    if (rows.byteLength > REPLAY_BATCH_BYTES) {
      await store.write(rows, { sync: false });
      rows = new WriteBatch();
    }
  }
  // Synced before requests are served: atoms behind a gap must not reappear, and rows must not be older than replies.
  if (rows.count > 0 || (replayed > 0 && !store.atomicBatches)) await store.write(rows, { sync: true });
  return replayed;
}

/**
 * Notes the tasks that an atom has changed, and the last ones with order keys: the next checkpoint writes their rows, even if
 * those of a new task are there.
 */
function noteBehind({ behind, lasts }: RecoveredPartition, { changes }: ApplyAtom): void {
  for (const change of changes) {
    noteLasts(lasts, change);
    const now = change.kind === 'dequeue' ? undefined : change.after;
    let task = behind.get(change.queueId)?.get(change.pid);
    if (!task) {
      task = { now, earlier: change.kind === 'enqueue' ? undefined : change.before, others: [] };
      const tasks = behind.get(change.queueId) ?? new Map<Pid, RecoveredTask>();
      behind.set(change.queueId, tasks.set(change.pid, task));
    }
    task.now = now;
    if (now) task.others.push(now);
  }
}

/** Notes the last tasks with order keys after a change. */
export function noteLasts(lasts: LastTasks, change: TaskChange): void {
  for (const one of lastChanges(change)) {
    const { orderKey, pid } = one;
    const ofQueue = lasts.get(change.queueId) ?? new Map<string, Pid | undefined>();
    lasts.set(change.queueId, ofQueue);
    ofQueue.set(orderKey, lastAfter(one, ofQueue.has(orderKey) ? ofQueue.get(orderKey) : pid));
  }
}

/** Without atomic batches, an atom that ends a queue may be on disk without the latest rows of the queue's tasks. */
function writeLastRows(recovered: RecoveredPartition, { partition, dropped }: ApplyAtom, rows: WriteBatch): void {
  for (const { queueId } of dropped) {
    const prefix = queuePrefix(partition, queueId);
    for (const [pid, task] of recovered.behind.get(queueId) ?? []) writeTaskRows(rows, prefix, pid, task);
    for (const [orderKey, last] of recovered.lasts.get(queueId) ?? []) writeLast(rows, prefix, orderKey, last);
    forgetBehind(recovered, queueId);
  }
}

function forgetBehind({ behind, lasts }: RecoveredPartition, queueId: QueueId): void {
  behind.delete(queueId);
  lasts.delete(queueId);
}

/** Applies an atom to the recovered state of its partition. */
export function replayInto(partition: RecoveredPartition, atom: ApplyAtom): void {
  partition.lastTicket = atom.ticket;
  partition.lastEpoch = undefined;
  noteEvents(partition, atom.ticket, atom.events);
  for (const { queueId, name } of atom.created) {
    noteQueueId(partition, queueId);
    if (!partition.ledgers.has(queueId)) partition.ledgers.set(queueId, new QueueLedger(queueId, name));
  }
  for (const change of atom.changes) {
    const ledger = partition.ledgers.get(change.queueId);
    // If there is no ledger, a later atom dropped the queue and its rows are already on disk.
    if (!ledger) continue;
    ledger.apply(atom.ticket, change);
    partition.changed.add(ledger);
  }
  for (const { queueId } of atom.dropped) {
    const ledger = partition.ledgers.get(queueId);
    if (ledger) partition.changed.delete(ledger);
    partition.ledgers.delete(queueId);
  }
}

function noteEvents({ eventful }: RecoveredPartition, ticket: Ticket, events: ApplyAtom['events']): void {
  if (events !== undefined) eventful.push({ ticket, ...events });
}

function noteQueueId(partition: RecoveredPartition, queueId: QueueId): void {
  partition.nextQueueId = Math.max(partition.nextQueueId, queueId + 1) as QueueId;
}

function recoveredIn(partitions: Map<PartitionId, RecoveredPartition>, id: PartitionId): RecoveredPartition {
  let partition = partitions.get(id);
  if (!partition) {
    partition = newPartition();
    partitions.set(id, partition);
  }
  return partition;
}

/** An empty partition. Its tickets start behind the given one. */
export const newPartition = (behind = 0 as Ticket, life: PartitionLife = 0): RecoveredPartition => ({
  lastTicket: behind,
  trimmedTicket: behind,
  nextQueueId: 1 as QueueId,
  life,
  lastEpoch: 0,
  ledgers: new Map(),
  changed: new Set(),
  behind: new Map(),
  lasts: new Map(),
  records: new Map(),
  eventful: [],
});
