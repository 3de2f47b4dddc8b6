import { limits, type QueueName } from '@taskmaster/proto';
import type { WaitFor } from '../../domain/commands.ts';
import { recordPid } from '../../domain/end-record.ts';
import type { Instant, Pid } from '../../domain/ids.ts';
import { boxPid, endOfKey } from '../../domain/key-pointer.ts';
import { type KeptSignal, SignalBox } from '../../domain/signal-box.ts';
import type { TaskState } from '../../domain/task.ts';
import type { CachedTask } from '../../queues/cache/places.ts';
import type { Queue } from '../../queues/queue.ts';
import { type FoundRecord, keyRecords, signalRecords } from '../../records/record-store.ts';
import type { TaskDraft } from '../task-draft.ts';
import type { BoxPlace } from './open-boxes.ts';
import { waitsOf, withWaits } from './waiting.ts';

/** A task that waits for signals. */
export interface SignalTarget {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly task: CachedTask;
}

/** What a signal names: a task by its PID or its key. */
export interface SignalName {
  readonly name: QueueName;
  readonly pid: Pid | undefined;
  readonly key: string | undefined;
}

/**
 * How many signals the task still waits for. At the end of its timeout it waits for none, even if no search has noticed that yet.
 */
export function awaited({ history }: TaskState, now: Instant): number {
  const waits = history?.waits;
  if (waits === undefined || (waits.timeout !== undefined && waits.timeout.at <= now)) return 0;
  return waits.signals;
}

/**
 * Counts a signal of a task that waits for one. When it was the last one, the task waits no more. Returns false if the signal
 * came before, or if something must be read first.
 */
export function countSignal(draft: TaskDraft, target: SignalTarget, signal: KeptSignal, now: Instant): boolean {
  const { queue, pid, task } = target;
  const waits = task.state.history?.waits;
  if (waits === undefined || awaited(task.state, now) === 0) return false;
  const isKept = signal.child === undefined ? signal.data.byteLength > 0 : waits.collect;
  const isBare = signal.child === undefined && signal.id === '' && !isKept;
  if (!isBare) {
    const before = waits.box ? boxOf(draft, queue, pid) : undefined;
    if (draft.needs.length > 0) return false;
    const after = (before ?? SignalBox.EMPTY).with(signal, isKept);
    if (after === undefined) return false;
    draft.boxes.set(draft, placeOf(queue, pid), after);
  }
  const box = waits.box || !isBare;
  draft.change(queue, pid, task, withWaits(task.state, { ...waits, signals: waits.signals - 1, box }, now));
  return true;
}

/** Where the box of a task is. */
const placeOf = ({ ledger }: Queue, pid: Pid): BoxPlace => ({
  records: keyRecords,
  group: ledger.name.group,
  pid: boxPid(ledger.queueId, pid),
});

/** The record of the box of a task. Undefined: there is none, or it must be read first. */
export const boxRecordOf = (draft: TaskDraft, { ledger }: Queue, pid: Pid): FoundRecord | undefined =>
  keyRecords.find(draft, ledger.name.group, boxPid(ledger.queueId, pid));

/** Removes the box of a task that has ended. */
export const removeBox = (draft: TaskDraft, queue: Queue, pid: Pid): void =>
  draft.boxes.remove(draft, placeOf(queue, pid));

/** The signals that came for a task. Undefined: none says something, or they must be read first. */
export const boxOf = (draft: TaskDraft, queue: Queue, pid: Pid): SignalBox | undefined =>
  draft.boxes.get(draft, placeOf(queue, pid));

/** Keeps a signal whose task is not there yet. Returns false if it came before, or if something must be read first. */
export function keepSignal(draft: TaskDraft, to: SignalName, signal: KeptSignal, now: Instant): boolean {
  const place = earlyPlace(to);
  const before = draft.boxes.get(draft, place) ?? SignalBox.EMPTY;
  // No task waits for more, and the record must not grow without end.
  if (draft.needs.length > 0 || before.count >= limits.signals) return false;
  const box = before.with(signal, signal.data.byteLength > 0);
  if (box === undefined) return false;
  draft.boxes.set(draft, place, box, (now + limits.signalRetentionMs) as Instant);
  return true;
}

/** A new task that waits for signals, after those that came before it. */
export function waitingFor(
  draft: TaskDraft,
  queue: Queue,
  pid: Pid,
  state: TaskState,
  waitFor: WaitFor,
  now: Instant,
): TaskState {
  const order = state.history?.waits?.order ?? false;
  const waits = { ...waitsOf(waitFor, now), order };
  const early = takeEarly(draft, queue, pid, state.history?.key);
  if (early === undefined || draft.needs.length > 0) return withWaits(state, waits, now);
  draft.boxes.set(draft, placeOf(queue, pid), early);
  const signals = Math.max(0, waits.signals - early.count);
  return withWaits(state, { ...waits, signals, box: true }, now);
}

/** Removes the signals that came before a task, by its PID and by its key. Undefined: there are none. */
function takeEarly(draft: TaskDraft, { ledger }: Queue, pid: Pid, key: string | undefined): SignalBox | undefined {
  const { name } = ledger;
  let all: SignalBox | undefined;
  const names = [{ name, pid, key: undefined }];
  for (const to of key === undefined ? names : [...names, { name, pid: undefined, key }]) {
    const place = earlyPlace(to);
    const box = draft.boxes.get(draft, place);
    if (box === undefined) continue;
    draft.boxes.remove(draft, place);
    all = all === undefined ? box : all.merged(box);
  }
  return all;
}

function earlyPlace({ name, pid, key }: SignalName): BoxPlace {
  const ofKey = key === undefined ? undefined : endOfKey(name, key);
  const record = recordPid(ofKey?.name.name ?? name.name, ofKey?.pid ?? pid ?? ('' as Pid));
  return { records: signalRecords, group: name.group, pid: record };
}
