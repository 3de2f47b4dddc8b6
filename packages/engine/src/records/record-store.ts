import { type QueueName, reservedQueues } from '@taskmaster/proto';
import type { Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import type { CachedTask } from '../queues/cache/places.ts';
import type { Knowledge, Queue } from '../queues/queue.ts';

/** What the records need of a draft. */
export interface RecordDraft {
  /** What has to be read before the draft is complete. */
  readonly needs: readonly unknown[];
  queue(name: QueueName): Queue | undefined;
  queueFor(name: QueueName): Queue;
  known(queue: Queue, pid: Pid): Knowledge;
  find(queue: Queue, pid: Pid): CachedTask | undefined;
  payload(queue: Queue, pid: Pid): Uint8Array | undefined;
  need(queue: Queue, pid: Pid, payloadBytes: number): void;
  add(queue: Queue, pid: Pid, after: TaskState, data: Uint8Array): void;
  change(queue: Queue, pid: Pid, known: CachedTask, after: TaskState, data?: Uint8Array): void;
  remove(queue: Queue, pid: Pid, known: CachedTask, how: 'removed' | 'moved'): void;
}

/** A record that a draft has found. */
export interface FoundRecord {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly task: CachedTask;
}

/**
 * The records of one kind, of all groups. A record is a task in a reserved queue of its group, so it is durable with the atom
 * that changes it, moves with the group and is in backups. Reads may need rows of the store: see `TaskDraft.needs`.
 */
export class RecordStore {
  /** Name of the reserved queue. */
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  /** The queue of the records of a group. */
  of(group: string): QueueName {
    return { group, name: this.name };
  }

  has({ name }: QueueName): boolean {
    return name === this.name;
  }

  /** Number of records of a group: counted in the draft's turn, so that a limit holds. */
  count(draft: RecordDraft, group: string): number {
    return draft.queue(this.of(group))?.ledger.size ?? 0;
  }

  /** Undefined: there is none, or it must be read first. */
  find(draft: RecordDraft, group: string, pid: Pid): FoundRecord | undefined {
    const queue = draft.queue(this.of(group));
    const task = queue && draft.find(queue, pid);
    return queue && task && { queue, pid, task };
  }

  /** The payload of a record. Undefined: it must be read first. */
  dataOf(draft: RecordDraft, { queue, pid, task }: FoundRecord): Uint8Array | undefined {
    const data = task.data ?? draft.payload(queue, pid);
    if (data === undefined) draft.need(queue, pid, task.state.dataBytes);
    return data;
  }

  /** As `put`, but nothing is read: if there is another one with its PID, it must be so recent that it is in memory. */
  putUnread(draft: RecordDraft, group: string, pid: Pid, state: TaskState, data: Uint8Array): void {
    const queue = draft.queueFor(this.of(group));
    const earlier = draft.known(queue, pid);
    if (earlier.kind === 'task') draft.change(queue, pid, earlier.task, state, data);
    else draft.add(queue, pid, state, data);
  }

  /** Writes a record, or replaces the one with its PID. */
  put(draft: RecordDraft, group: string, pid: Pid, state: TaskState, data: Uint8Array): void {
    const queue = draft.queueFor(this.of(group));
    const earlier = draft.find(queue, pid);
    if (earlier === undefined) draft.add(queue, pid, state, data);
    else draft.change(queue, pid, earlier, state, data);
  }

  /** Removes a record. Returns false if there is none, or if it must be read first. */
  remove(draft: RecordDraft, group: string, pid: Pid): boolean {
    const found = this.find(draft, group, pid);
    if (found !== undefined) draft.remove(found.queue, pid, found.task, 'moved');
    return found !== undefined;
  }
}

/** Schedules, by name: hidden until their next runs. */
export const scheduleRecords = new RecordStore(reservedQueues.schedules);
/** Subscriptions of queues to topics. */
export const subscriptionRecords = new RecordStore(reservedQueues.subscriptions);
/** Settings of queues, by pattern. */
export const settingsRecords = new RecordStore(reservedQueues.settings);
/** Pauses of queues, by pattern: hidden until their ends. */
export const pauseRecords = new RecordStore(reservedQueues.pauses);
/** Limits of queues, by pattern. */
export const limitRecords = new RecordStore(reservedQueues.limits);
/** Buckets of tokens that may not be full; see `TokenTable`. */
export const tokenRecords = new RecordStore(reservedQueues.tokens);
/** Bulk runs, by id: hidden until their next slices, or until they are removed. */
export const bulkRunRecords = new RecordStore(reservedQueues.bulkRuns);
/** How tasks have ended: results, and what keeps later tasks out. */
export const endRecords = new RecordStore(reservedQueues.results);
/** Signals that came before their tasks. */
export const signalRecords = new RecordStore(reservedQueues.signals);
/** Where the tasks with keys are, and what else belongs to tasks of one queue. */
export const keyRecords = new RecordStore(reservedQueues.keys);
