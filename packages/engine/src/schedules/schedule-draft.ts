import { EnqueueResult, parseQueueName, type QueueName, type ScheduleSpec } from '@taskmaster/proto';
import { BATCH_START } from '../domain/batches.ts';
import { latin1Of } from '../domain/bytes.ts';
import { withHeaders } from '../domain/headers.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import { givenIn, isLeased, isLeasedAt, isTooLate, type TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { endsWithLease, newState, recordState } from '../operations/attempts.ts';
import { capBacklogs, dropOldest, type OldestTasks } from '../operations/backlog.ts';
import type { Attempt } from '../operations/decide.ts';
import { isKeptOut } from '../operations/ends/keep-out.ts';
import { type DueSearches, deadFor } from '../operations/expire.ts';
import { objectionByLimits } from '../operations/limits.ts';
import { type DraftMark, TaskDraft } from '../operations/task-draft.ts';
import { EngineView } from '../pending/engine-view.ts';
import type { Reads } from '../pending/reads.ts';
import type { Queue } from '../queues/queue.ts';
import { type FoundRecord, scheduleRecords } from '../records/record-store.ts';
import {
  decodeRecord,
  encodeRecord,
  hiddenState,
  hiddenUntilRun,
  keyOf,
  retryOf,
  type ScheduleRecord,
} from './record.ts';

/** A schedule that was found. */
export interface FoundSchedule extends FoundRecord {
  readonly record: ScheduleRecord;
}

/** What one attempt of a decision tells the next. */
export interface LearntByAttempts {
  readonly searches: DueSearches;
  readonly oldest: OldestTasks;
}

/** Changes of schedules and the tasks of their runs, which are committed together. */
export class ScheduleDraft {
  readonly #engineState: EngineState;
  readonly #view: EngineView;
  readonly #draft: TaskDraft;
  /** The system clock, in ms since 1970. */
  readonly wall: number;
  readonly #searches: DueSearches;
  readonly #oldest: OldestTasks;
  /** Queues where attempts that are over end first: it must not matter whether a request has looked there since. */
  readonly #due = new Set<Queue>();
  #bytes = 0;

  /** `learnt`: what all attempts of a decision share. */
  constructor(engineState: EngineState, now: Instant, reads: Reads, { searches, oldest }: LearntByAttempts) {
    this.#engineState = engineState;
    this.#searches = searches;
    this.#oldest = oldest;
    this.#view = new EngineView(engineState, now, reads, searches.notShown);
    this.#draft = new TaskDraft(this.#view);
    this.wall = engineState.clock.wall();
  }

  /** Size of the payloads that were read and are written, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Undefined: there is none, or it must be read first. */
  find({ group, name }: QueueName): FoundSchedule | undefined {
    return this.read(group, keyOf(name));
  }

  /** As `find`, by the PID of the record. */
  read(group: string, pid: Pid): FoundSchedule | undefined {
    const found = scheduleRecords.find(this.#draft, group, pid);
    if (found === undefined) return undefined;
    this.#bytes += found.task.state.dataBytes;
    const data = scheduleRecords.dataOf(this.#draft, found);
    return data && { ...found, record: decodeRecord(data) };
  }

  /** Number of schedules of a group. */
  count(group: string): number {
    return scheduleRecords.count(this.#draft, group);
  }

  add({ group, name }: QueueName, record: ScheduleRecord): void {
    const data = encodeRecord(record);
    const until = hiddenUntilRun(record);
    const { now } = this.#view;
    const state = hiddenState(recordState(data, now), until, data.length);
    scheduleRecords.put(this.#draft, group, keyOf(name), state, data);
  }

  change({ queue, pid, task }: FoundSchedule, record: ScheduleRecord): void {
    const data = encodeRecord(record);
    this.#bytes += data.length;
    const state = hiddenState(task.state, hiddenUntilRun(record), data.length);
    this.#draft.change(queue, pid, task, state, data);
  }

  remove({ queue, pid, task }: FoundSchedule): void {
    this.#draft.remove(queue, pid, task, 'removed');
  }

  /**
   * Enqueues the task of a run. It collapses into a task with its PID, also into one that is kept out. A refusal: a limit is
   * reached, and nothing changes.
   */
  tryEnqueue(spec: ScheduleSpec, pid: Pid): Refusal | undefined {
    const { mark } = this.#draft;
    const name = parseQueueName(spec.queue);
    this.#endFirst(deadFor(this.#engineState, name));
    const queue = this.#draft.queueFor(name);
    const { now } = this.#view;
    if (this.#draft.find(queue, pid) !== undefined || isKeptOut(this.#draft, queue, { key: undefined, pid }, now)) {
      this.#draft.rollBack(mark);
      return undefined;
    }
    const payload = withHeaders(spec.headers, spec.data);
    this.#bytes += payload.data.length;
    const start = spec.startWithinMs ? { withinMs: spec.startWithinMs } : undefined;
    const state = newState({ ...payload, retry: retryOf(spec), given: givenIn(spec), start }, now, now);
    this.#draft.add(queue, pid, state, payload.data);
    const refusal = this.#refusal(name, pid, mark);
    if (refusal !== undefined) this.#draft.rollBack(mark);
    return refusal;
  }

  /** Whether the queue of the schedule has a task with this PID. */
  has(spec: ScheduleSpec, pid: Pid): boolean {
    const name = parseQueueName(spec.queue);
    this.#endFirst(deadFor(this.#engineState, name));
    const queue = this.#draft.queue(name);
    return queue !== undefined && this.#draft.find(queue, pid) !== undefined;
  }

  /** Whether a task of an earlier run is in the queue. After its last attempt a task belongs into its dead-letter queue. */
  isRunning({ spec, lastPid, triggeredPid }: ScheduleRecord): boolean {
    const name = parseQueueName(spec.queue);
    this.#endFirst(deadFor(this.#engineState, name));
    const queue = this.#draft.queue(name);
    if (queue === undefined) return false;
    return [lastPid, triggeredPid].some((pid) => {
      const task = pid.length === 0 ? undefined : this.#draft.find(queue, latin1Of(pid) as Pid);
      return task !== undefined && !this.#isOver(queue, task.state);
    });
  }

  /** What must be read before the plan can be made. */
  missing(): Attempt<never> | undefined {
    const { needs } = this.#draft;
    return needs.length > 0 ? { kind: 'needs', needs } : undefined;
  }

  /** The draft as an attempt of a decision. */
  attempt<T>(result: T): Attempt<T> {
    const { changes, created } = this.#draft;
    const missing = this.missing();
    if (missing !== undefined) return missing;
    if (this.#due.size > 0) return { kind: 'waits', wait: () => this.#searches.show(this.#engineState, this.#due) };
    const unread = dropOldest(this.#draft, this.#view.now, this.#oldest);
    if (unread !== undefined) return { kind: 'waits', wait: () => this.#oldest.read(this.#engineState, unread) };
    this.#draft.writeBoxes(this.#view.now);
    const dropping = this.missing();
    if (dropping !== undefined) return dropping;
    return { kind: 'decided', result, changes: changes.length === 0 ? undefined : { changes, created } };
  }

  /** The refusal if a task added since the mark would go beyond a limit of the node or a quota of the group. */
  #refusal(queue: QueueName, pid: Pid, mark: DraftMark): Refusal | undefined {
    const outcomes = [{ pid, result: EnqueueResult.ENQUEUE_RESULT_CREATED, leased: false }];
    const end = { ...BATCH_START, enqueue: 1 };
    const update = { start: BATCH_START, end, draft: this.#draft, mark, outcomes, firstOutcome: 0 };
    const command = { group: queue.group, enqueue: [{ queue }] };
    const objection =
      objectionByLimits(this.#engineState, command, update, this.#view) ??
      capBacklogs(command.enqueue, update, this.#view);
    if (objection === undefined || objection instanceof Refusal) return objection;
    this.#endFirst(objection.queues);
    return undefined;
  }

  #endFirst(queues: Iterable<Queue>): void {
    for (const queue of queues) if (this.#view.canShowDue(queue)) this.#due.add(queue);
  }

  #isOver({ settings }: Queue, state: TaskState): boolean {
    const { now } = this.#view;
    return isTooLate(state, now) || (isLeased(state) && !isLeasedAt(state, now) && endsWithLease(state, settings));
  }
}
