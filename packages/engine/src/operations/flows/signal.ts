import { limits, type QueueName } from '@taskmaster/proto';
import type { WaitFor } from '../../domain/commands.ts';
import { recordPid } from '../../domain/end-record.ts';
import type { Instant, Pid } from '../../domain/ids.ts';
import { boxPid, endOfKey } from '../../domain/key-pointer.ts';
import {
  decodeBox,
  EMPTY_BOX,
  encodeBox,
  type KeptSignal,
  merged,
  type SignalBox,
  signalsIn,
  withSignal,
} from '../../domain/signal-box.ts';
import type { TaskState } from '../../domain/task.ts';
import type { CachedTask } from '../../queues/cache/places.ts';
import type { Queue } from '../../queues/queue.ts';
import { keyRecords, signalRecords } from '../../records/record-store.ts';
import { recordState } from '../attempts.ts';
import type { TaskDraft } from '../task-draft.ts';
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

/** How many signals the task still waits for. */
export const awaited = ({ history }: TaskState): number => history?.waits?.signals ?? 0;

/**
 * Boxes that several ends change in one step. A box is read and written whole, so each is written once: 10,000 ends of the
 * children of one parent would write gigabytes otherwise.
 */
export class OpenBoxes {
  readonly #open = new Map<Queue, Map<Pid, SignalBox>>();

  get(queue: Queue, pid: Pid): SignalBox | undefined {
    return this.#open.get(queue)?.get(pid);
  }

  set(queue: Queue, pid: Pid, box: SignalBox): void {
    const ofQueue = this.#open.get(queue);
    if (ofQueue === undefined) this.#open.set(queue, new Map([[pid, box]]));
    else ofQueue.set(pid, box);
  }

  /** Call it once, after the last change. */
  write(draft: TaskDraft, now: Instant): void {
    for (const [queue, boxes] of this.#open) for (const [pid, box] of boxes) putBox(draft, queue, pid, box, now);
  }
}

/**
 * Counts a signal of a task that waits for one. When it was the last one, the task waits no more. Returns false if the signal
 * came before, or if something must be read first. `boxes`: where its box is kept until all are written. Default: it is written.
 */
export function countSignal(
  draft: TaskDraft,
  target: SignalTarget,
  signal: KeptSignal,
  now: Instant,
  boxes?: OpenBoxes,
): boolean {
  const { queue, pid, task } = target;
  const waits = task.state.history?.waits;
  if (waits === undefined || waits.signals === 0) return false;
  const isKept = signal.child === undefined ? signal.data.byteLength > 0 : waits.collect;
  const isBare = signal.child === undefined && signal.id === '' && !isKept;
  let { box } = waits;
  if (!isBare) {
    const before = boxes?.get(queue, pid) ?? (box ? boxOf(draft, queue, pid) : undefined);
    if (draft.needs.length > 0) return false;
    const after = withSignal(before ?? EMPTY_BOX, signal, isKept);
    if (after === undefined) return false;
    if (boxes === undefined) putBox(draft, queue, pid, after, now);
    else boxes.set(queue, pid, after);
    box = true;
  }
  draft.change(queue, pid, task, withWaits(task.state, { ...waits, signals: waits.signals - 1, box }, now));
  return true;
}

function putBox(draft: TaskDraft, { ledger }: Queue, pid: Pid, box: SignalBox, now: Instant): void {
  const data = encodeBox(box);
  draft.boxBytes += data.byteLength;
  keyRecords.put(draft, ledger.name.group, boxPid(ledger.queueId, pid), recordState(data, now), data);
}

/** Removes the box of a task that has ended. */
export function removeBox(draft: TaskDraft, { ledger }: Queue, pid: Pid): void {
  keyRecords.remove(draft, ledger.name.group, boxPid(ledger.queueId, pid));
}

/** The signals that came for a task. Undefined: none says something, or they must be read first. */
export function boxOf(draft: TaskDraft, { ledger }: Queue, pid: Pid): SignalBox | undefined {
  const record = keyRecords.find(draft, ledger.name.group, boxPid(ledger.queueId, pid));
  const data = record && keyRecords.dataOf(draft, record);
  return data && decodeBox(data);
}

/** Keeps a signal whose task is not there yet. Returns false if it came before, or if something must be read first. */
export function keepSignal(draft: TaskDraft, to: SignalName, signal: KeptSignal, now: Instant): boolean {
  const { group } = to.name;
  const pid = earlyPid(to);
  const known = signalRecords.find(draft, group, pid);
  const earlier = known && signalRecords.dataOf(draft, known);
  if (draft.needs.length > 0) return false;
  const isKept = signal.data.byteLength > 0;
  const before = earlier === undefined ? EMPTY_BOX : decodeBox(earlier);
  // No task waits for more, and the record must not grow without end.
  if (signalsIn(before) >= limits.signals) return false;
  const box = withSignal(before, signal, isKept);
  if (box === undefined) return false;
  const data = encodeBox(box);
  draft.boxBytes += data.byteLength;
  const until = (now + limits.signalRetentionMs) as Instant;
  signalRecords.put(draft, group, pid, recordState(data, now, until), data);
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
  putBox(draft, queue, pid, early, now);
  const signals = Math.max(0, waits.signals - signalsIn(early));
  return withWaits(state, { ...waits, signals, box: true }, now);
}

/** Removes the signals that came before a task, by its PID and by its key. Undefined: there are none. */
function takeEarly(draft: TaskDraft, { ledger }: Queue, pid: Pid, key: string | undefined): SignalBox | undefined {
  const { name } = ledger;
  if (draft.queue(signalRecords.of(name.group)) === undefined) return undefined;
  let all: SignalBox | undefined;
  const names = [{ name, pid, key: undefined }];
  for (const to of key === undefined ? names : [...names, { name, pid: undefined, key }]) {
    const early = earlyPid(to);
    const record = signalRecords.find(draft, name.group, early);
    const data = record && signalRecords.dataOf(draft, record);
    if (record === undefined || data === undefined) continue;
    draft.remove(record.queue, early, record.task, 'moved');
    const box = decodeBox(data);
    all = all === undefined ? box : merged(all, box);
  }
  return all;
}

function earlyPid({ name, pid, key }: SignalName): Pid {
  const ofKey = key === undefined ? undefined : endOfKey(name, key);
  return recordPid(ofKey?.name.name ?? name.name, ofKey?.pid ?? pid ?? ('' as Pid));
}
