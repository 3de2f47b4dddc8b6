import { formatQueueName, type QueueName } from '@taskmaster/proto';
import { lastAfter, lastChanges, type TaskChange } from '../domain/atom.ts';
import { deadLetterPid } from '../domain/dead-letter-queues.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { childOf, childPid, encodeChild, keyOf, pidIn, pointerData, pointerPid } from '../domain/key-pointer.ts';
import type { ChildEnd } from '../domain/signal-box.ts';
import { NO_HISTORY, NO_LINKS, type TaskParent, type TaskState } from '../domain/task.ts';
import type { AnyNeed } from '../pending/reads.ts';
import type { PlannedChange } from '../planned-atom.ts';
import type { CachedTask } from '../queues/cache/places.ts';
import type { Knowledge, KnownLast, Queue } from '../queues/queue.ts';
import { keyRecords } from '../records/record-store.ts';
import { NO_TOKEN, recordState } from './attempts.ts';
import { OpenBoxes } from './flows/open-boxes.ts';

/** The state that a draft reads. */
export interface DraftView {
  queue(name: QueueName): Queue | undefined;
  /** A new queue that does not exist yet. `drafts`: how many this draft has made before. */
  draftQueue(name: QueueName, drafts: number): Queue;
  known(queue: Queue, pid: Pid): Knowledge;
  /** The last task with an order key. Undefined: the store must be read. */
  lastInOrder(queue: Queue, orderKey: string): KnownLast | undefined;
  /** The payload, if it was fetched. */
  payload(queue: Queue, pid: Pid): Uint8Array | undefined;
}

/** A task that moves to another queue: to its dead-letter queue, or back from there. */
export interface TaskMove {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly task: CachedTask;
  readonly target: QueueName;
  /** Its PID there, unless another task has it. */
  readonly arrival: Pid;
  /** Its state there. */
  readonly after: TaskState;
  readonly kind: 'dead-letter' | 'requeue';
}

/** The end of a task that is connected with others. */
export interface NotedEnd {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly state: TaskState;
  readonly end: ChildEnd;
  /** What it has left. */
  readonly result: Uint8Array | undefined;
  /** Why it was not completed. */
  readonly reason: string | undefined;
}

/** How far a draft has come. */
export interface DraftMark {
  changes: number;
  created: number;
  latestQueue: Queue | undefined;
  latestPid: Pid | undefined;
  overwritten: number;
  lasts: number;
  boxes: number;
  earlyBytes: number;
}

/** The changes of one atom before it is committed. Each change sees the effects of the earlier ones. */
export class TaskDraft {
  readonly changes: PlannedChange[] = [];
  readonly created: Queue[] = [];
  /** By full name. */
  #createdByName: Map<string, Queue> | undefined;
  readonly needs: AnyNeed[] = [];
  /** Ends of tasks that concern others and are not settled yet. */
  #ends: NotedEnd[] | undefined;
  /** What the first `changes` of them add to the group. Kept by the check of quotas, which asks for each update of a batch. */
  usage: { changes: number; tasks: number; bytes: number } | undefined;
  /** As `usage`, for the check of backlogs: what they add to the waiting tasks of each queue, and of each key, with a cap. */
  waiting: { changes: number; readonly more: Map<Queue, Map<string, number>> } | undefined;
  /** How many parents have heard of the ends of their children. */
  told = 0;
  /** More than this do not hear: see `tellsTooMany`. */
  mostTold = Number.POSITIVE_INFINITY;
  /** True: some parents have not heard, so its last update must be refused. */
  tellsTooMany = false;
  /** Undefined: none was asked for. */
  #boxes: OpenBoxes | undefined;
  readonly #view: DraftView;
  /**
   * Tasks after the first `#indexed` changes; undefined: removed. Built on demand, because most updates do not need it.
   */
  #tasks: Map<Queue, Map<Pid, CachedTask | undefined>> | undefined;
  #indexed = 0;
  /** The last queue that got a larger PID, its largest one, and those of the queues before it. */
  #latestQueue: Queue | undefined;
  #latestPid: Pid | undefined;
  #largest: Map<Queue, Pid> | undefined;
  /** Earlier values of `#largest`, in the order in which they were replaced, so that a roll-back costs what it drops. */
  readonly #overwritten: { readonly queue: Queue; readonly largest: Pid | undefined }[] = [];
  /** The last tasks with order keys after the changes. Undefined: they change none. */
  #lasts: Map<Queue, Map<string, KnownLast>> | undefined;
  /** Earlier values of `#lasts`, as of `#largest`. */
  #lastsBefore:
    | { readonly queue: Queue; readonly orderKey: string; readonly before: KnownLast | undefined }[]
    | undefined;

  constructor(view: DraftView) {
    this.#view = view;
  }

  get mark(): DraftMark {
    return {
      changes: this.changes.length,
      created: this.created.length,
      latestQueue: this.#latestQueue,
      latestPid: this.#latestPid,
      overwritten: this.#overwritten.length,
      lasts: this.#lastsBefore?.length ?? 0,
      boxes: this.#boxes?.changes ?? 0,
      earlyBytes: this.earlySignalBytes,
    };
  }

  /** Moves a mark to where the draft is now: a batch needs one mark for all its updates. */
  advance(mark: DraftMark): void {
    mark.changes = this.changes.length;
    mark.created = this.created.length;
    mark.latestQueue = this.#latestQueue;
    mark.latestPid = this.#latestPid;
    mark.overwritten = this.#overwritten.length;
    mark.lasts = this.#lastsBefore?.length ?? 0;
    mark.boxes = this.#boxes?.changes ?? 0;
    mark.earlyBytes = this.earlySignalBytes;
  }

  /** The boxes of signals that it has changed. */
  get boxes(): OpenBoxes {
    this.#boxes ??= new OpenBoxes();
    return this.#boxes;
  }

  /** What they are when they are written, in bytes, also for changes that were rolled back. */
  get boxBytes(): number {
    return this.#boxes?.bytes ?? 0;
  }

  /** See `OpenBoxes.earlyBytes`. */
  get earlySignalBytes(): number {
    return this.#boxes?.earlyBytes ?? 0;
  }

  /** Writes the boxes. Call it behind the last change, and look at `needs` only then. */
  writeBoxes(now: Instant): void {
    this.#boxes?.write(this, now);
  }

  /** Drops what came after the mark, except the needs. Takes time in proportion to what it drops: a batch may do it often. */
  rollBack({ changes, created, latestQueue, latestPid, overwritten, lasts, boxes }: DraftMark): void {
    this.#boxes?.rollBack(boxes);
    this.uncreate(created);
    this.#ends = undefined;
    while (this.changes.length > changes) {
      const planned = this.changes.pop();
      if (planned !== undefined && this.changes.length < this.#indexed) this.#forget(planned);
    }
    this.#indexed = Math.min(this.#indexed, changes);
    this.#latestQueue = latestQueue;
    this.#latestPid = latestPid;
    while (this.#overwritten.length > overwritten) {
      const earlier = this.#overwritten.pop();
      if (earlier === undefined) break;
      if (earlier.largest === undefined) this.#largest?.delete(earlier.queue);
      else this.#largest?.set(earlier.queue, earlier.largest);
    }
    for (const { queue, orderKey, before } of this.#lastsBefore?.splice(lasts).reverse() ?? []) {
      if (before === undefined) this.#lasts?.get(queue)?.delete(orderKey);
      else this.#lasts?.get(queue)?.set(orderKey, before);
    }
  }

  /** The queue of that name, perhaps one that the atom creates. */
  queue(name: QueueName): Queue | undefined {
    const existing = this.#view.queue(name);
    if (existing !== undefined || this.created.length === 0) return existing;
    return this.#createdByName?.get(formatQueueName(name));
  }

  /** The queue of that name. If there is none, the atom creates it. */
  queueFor(name: QueueName): Queue {
    const existing = this.queue(name);
    if (existing) return existing;
    const queue = this.#view.draftQueue(name, this.created.length);
    this.created.push(queue);
    this.#createdByName ??= new Map();
    this.#createdByName.set(queue.fullName, queue);
    return queue;
  }

  /** Takes back the queues after this number of them. Nothing was added to them. */
  uncreate(count: number): void {
    while (this.created.length > count) this.#createdByName?.delete(this.created.pop()?.fullName ?? '');
  }

  largestPid(queue: Queue): Pid | undefined {
    if (this.#latestQueue === queue) return this.#latestPid;
    return this.#largest?.get(queue) ?? queue.ledger.largestPid;
  }

  /** What is known of the task after the changes so far. */
  known(queue: Queue, pid: Pid): Knowledge {
    const tasks = this.#changed(queue);
    if (!tasks?.has(pid)) return this.#view.known(queue, pid);
    const task = tasks.get(pid);
    return task ? { kind: 'task', task } : ABSENT;
  }

  /** The task after the changes so far. Undefined if there is none, or if it must be read first: see `needs`. */
  find(queue: Queue, pid: Pid): CachedTask | undefined {
    const knowledge = this.known(queue, pid);
    if (knowledge.kind === 'unknown') this.need(queue, pid, 0);
    return knowledge.kind === 'task' ? knowledge.task : undefined;
  }

  need(queue: Queue, pid: Pid, payloadBytes: number): void {
    this.needs.push({ queue, pid, payloadBytes });
  }

  add(queue: Queue, pid: Pid, after: TaskState, data: Uint8Array, hasMoved = false): void {
    const { queueId } = queue.ledger;
    const change = { kind: 'enqueue' as const, queueId, pid, after, data };
    this.changes.push(hasMoved ? { queue, change, known: undefined, hasMoved } : { queue, change, known: undefined });
    this.#noteLargest(queue, pid);
    if (after.history === undefined) return;
    this.#index(queue, pid, undefined, after);
    this.#noteLasts(queue, change);
  }

  /** Notes the end of a task if it concerns others; see `settleEnds`. */
  noteEnd(end: NotedEnd): void {
    const { history } = end.state;
    if (history?.links === undefined && history?.waits?.box !== true) return;
    this.#ends ??= [];
    this.#ends.push(end);
  }

  /** Whether so many more parents may hear of an end. */
  mayTell(parents: number): boolean {
    if (this.told + parents > this.mostTold) this.tellsTooMany = true;
    else this.told += parents;
    return !this.tellsTooMany;
  }

  /** Whether ends were noted since the last call of `takeEnds`. */
  get hasEnds(): boolean {
    return this.#ends !== undefined;
  }

  /** The ends that were noted since the last call. */
  takeEnds(): readonly NotedEnd[] {
    const ends = this.#ends ?? NO_ENDS;
    this.#ends = undefined;
    return ends;
  }

  #noteLargest(queue: Queue, pid: Pid): void {
    const largest = this.largestPid(queue);
    if (largest !== undefined && pid <= largest) return;
    const [other, ofOther] = [this.#latestQueue, this.#latestPid];
    if (other !== undefined && ofOther !== undefined && other !== queue) {
      this.#largest ??= new Map();
      this.#overwritten.push({ queue: other, largest: this.#largest.get(other) });
      this.#largest.set(other, ofOther);
    }
    this.#latestQueue = queue;
    this.#latestPid = pid;
  }

  change(queue: Queue, pid: Pid, known: CachedTask, after: TaskState, data?: Uint8Array): void {
    const { queueId } = queue.ledger;
    const change = { kind: 'change' as const, queueId, pid, before: known.state, after, data };
    this.changes.push({ queue, change, known });
    if (known.state.history === after.history) return;
    this.#index(queue, pid, known.state, after);
    this.#noteLasts(queue, change);
  }

  /** As `change`, for a task whose attempt failed or was interrupted, and that waits for the next one. */
  retry(queue: Queue, pid: Pid, known: CachedTask, after: TaskState, failure: 'retry' | 'interrupted' = 'retry'): void {
    const { queueId } = queue.ledger;
    const change = { kind: 'change' as const, queueId, pid, before: known.state, after, data: undefined };
    this.changes.push({ queue, change, known, failure });
  }

  /** `moved`: it does not count as completed. `dead`: nor does this, and its last attempt failed. `dropped`: nor this. */
  remove(
    queue: Queue,
    pid: Pid,
    known: CachedTask,
    how: 'completed' | 'removed' | 'moved' | 'dead' | 'dropped',
  ): PlannedChange {
    const { queueId } = queue.ledger;
    const planned: PlannedChange = {
      queue,
      change: {
        kind: 'dequeue',
        queueId,
        pid,
        before: known.state,
        completed: how === 'completed' || how === 'removed',
      },
      known,
      isRemoval: how === 'removed',
      isDropped: how === 'dropped',
      failure: how === 'dead' ? how : undefined,
    };
    this.changes.push(planned);
    if (known.state.history === undefined) return planned;
    this.#index(queue, pid, known.state, undefined);
    this.#noteLasts(queue, planned.change);
    return planned;
  }

  /** As `add`, for a task that has left another place with this change. */
  arrive(left: PlannedChange, queue: Queue, pid: Pid, after: TaskState, data: Uint8Array): void {
    left.movedTo = { queue, pid };
    this.add(queue, pid, after, data, true);
  }

  /** The last task with an order key after the changes so far. Undefined: none, or it must be read first: see `needs`. */
  lastInOrder(queue: Queue, orderKey: string): Pid | undefined {
    const known = this.#lasts?.get(queue)?.get(orderKey) ?? this.#view.lastInOrder(queue, orderKey);
    if (known === undefined) this.needs.push({ queue, orderKey });
    return known?.last;
  }

  #noteLasts(queue: Queue, change: TaskChange): void {
    for (const one of lastChanges(change)) {
      const { orderKey, pid } = one;
      this.#lasts ??= new Map();
      let ofQueue = this.#lasts.get(queue);
      if (ofQueue === undefined) {
        ofQueue = new Map();
        this.#lasts.set(queue, ofQueue);
      }
      const before = ofQueue.get(orderKey);
      this.#lastsBefore ??= [];
      this.#lastsBefore.push({ queue, orderKey, before });
      ofQueue.set(orderKey, { last: lastAfter(one, before === undefined ? pid : before.last) });
    }
  }

  /** The PID of the task with this key. Undefined if there is none, or if the pointer must be read first: see `needs`. */
  pidOfKey({ ledger }: Queue, key: string): Pid | undefined {
    const pointer = keyRecords.find(this, ledger.name.group, pointerPid(ledger.queueId, key));
    const data = pointer && keyRecords.dataOf(this, pointer);
    return data && pidIn(data);
  }

  /** Keeps the records by which a task is found: by its key, and as a child. Undefined: there is no such state. */
  #index(queue: Queue, pid: Pid, before: TaskState | undefined, after: TaskState | undefined): void {
    const { name, queueId } = queue.ledger;
    const earlier = before && keyOf(before);
    const key = after && keyOf(after);
    if (earlier !== key) {
      if (earlier !== undefined) keyRecords.remove(this, name.group, pointerPid(queueId, earlier));
      if (key !== undefined && after !== undefined) {
        this.#addRecord(queue, pointerPid(queueId, key), pointerData(pid), after.enqueuedAt);
      }
    }
    const { parents } = before?.history?.links ?? NO_LINKS;
    if (parents === (after?.history?.links ?? NO_LINKS).parents) return;
    const child = after && childOf(name.name, pid, after);
    if (parents.length > 0) keyRecords.remove(this, name.group, childPid(queueId, pid));
    if (child !== undefined && after !== undefined) {
      this.#addRecord(queue, childPid(queueId, pid), encodeChild(child), after.enqueuedAt);
    }
  }

  #addRecord({ ledger }: Queue, pid: Pid, data: Uint8Array, at: Instant): void {
    this.add(this.queueFor(keyRecords.of(ledger.name.group)), pid, recordState(data, at), data);
  }

  /**
   * Moves tasks. All tasks leave before any arrives: one may free the PID that another one needs. A dead one replaces its own
   * earlier dead letter, and no other task. `arrived`: the state of a requeued one in its queue. Calls back for a requeued one
   * whose PID is taken by a task.
   */
  move(
    tasks: readonly TaskMove[],
    arrived: (target: Queue, pid: Pid, after: TaskState) => TaskState,
    taken?: (move: TaskMove, queue: Queue, by: Pid) => void,
  ): void {
    if (tasks.length === 0) return;
    const moves = tasks.map((move) => ({ move, data: this.#payloadOf(move) }));
    if (this.needs.length > 0) return;
    const gone = moves.map(({ move, data }) => {
      const how = move.kind === 'dead-letter' ? 'dead' : 'moved';
      return { move, data, left: this.remove(move.queue, move.pid, move.task, how) };
    });
    for (const { move, data, left } of gone) {
      const { arrival, after } = move;
      const target = this.queueFor(move.target);
      if (move.kind === 'dead-letter') {
        this.#bury(target, move, data);
        continue;
      }
      const there = this.find(target, arrival);
      const key = keyOf(after);
      const holder = key === undefined ? undefined : this.pidOfKey(target, key);
      if (holder !== undefined) taken?.(move, target, holder);
      else if (there === undefined) this.arrive(left, target, arrival, arrived(target, arrival, after), data ?? EMPTY);
      else taken?.(move, target, arrival);
    }
  }

  /**
   * Puts a dead letter into its queue. If another task has its PID there, it gets one behind that. Of two dead letters, the one
   * whose attempt ended first has the PID, whatever the order in which the searches find them. So it may have to take the PID
   * from another one. No request has seen that one since: each request finds all attempts that have ended before it.
   */
  #bury(target: Queue, { arrival, after, task }: TaskMove, payload: Uint8Array | undefined): void {
    let place = arrival;
    let letter = after;
    let data = payload ?? EMPTY;
    for (let there = this.find(target, place); there !== undefined; there = this.find(target, place)) {
      if (isSameLetter(letter, place, there.state)) {
        this.#noteReplaced(target, place, there.state, task);
        this.change(target, place, there, withTimeOf(letter, there.state), data);
        return;
      }
      if (isBefore(letter, there.state)) {
        const displaced = this.#payloadOf({ queue: target, pid: place, task: there });
        if (displaced === undefined) return;
        this.change(target, place, there, letter, data);
        letter = there.state;
        data = displaced;
      }
      place = deadLetterPid(place, letter.history?.origin?.queue ?? '');
    }
    this.add(target, place, letter, data);
  }

  /** Parents that wait for a dead letter hear that it is gone, unless the task of the one in its place has them, too. */
  #noteReplaced(queue: Queue, pid: Pid, state: TaskState, by: CachedTask): void {
    const links = state.history?.links ?? NO_LINKS;
    const others = by.state.history?.links?.parents ?? [];
    const parents = links.parents.filter((parent) => !others.some((other) => isSameParent(parent, other)));
    if (parents.length === 0) return;
    const history = { ...(state.history ?? NO_HISTORY), links: { ...links, parents } };
    const reason = 'another task with its PID has failed since';
    this.noteEnd({ queue, pid, state: { ...state, history }, end: 'removed', result: undefined, reason });
  }

  /** The payload of a task that the draft has not changed, if it was fetched. */
  payload(queue: Queue, pid: Pid): Uint8Array | undefined {
    return this.#view.payload(queue, pid);
  }

  #payloadOf({ queue, pid, task }: Pick<TaskMove, 'queue' | 'pid' | 'task'>): Uint8Array | undefined {
    if (task.state.dataBytes === 0) return EMPTY;
    const data = task.data ?? this.#view.payload(queue, pid);
    if (!data) this.need(queue, pid, task.state.dataBytes);
    return data;
  }

  /** The queue's tasks that the changes so far concern, after these changes. */
  #changed(queue: Queue): ReadonlyMap<Pid, CachedTask | undefined> | undefined {
    for (; this.#indexed < this.changes.length; this.#indexed++) {
      const planned = this.changes[this.#indexed];
      if (planned) this.#remember(planned);
    }
    return this.#tasks?.get(queue);
  }

  #remember({ queue, change, known }: PlannedChange): void {
    this.#tasks ??= new Map();
    let tasks = this.#tasks.get(queue);
    if (!tasks) {
      tasks = new Map();
      this.#tasks.set(queue, tasks);
    }
    const isGone = change.kind === 'dequeue';
    tasks.set(change.pid, isGone ? undefined : { state: change.after, data: change.data ?? known?.data });
  }

  /** Takes the latest indexed change back. Its task is again what the change has found. */
  #forget({ queue, change, known }: PlannedChange): void {
    this.#tasks?.get(queue)?.set(change.pid, known);
  }
}

const isSameParent = (a: TaskParent, b: TaskParent): boolean =>
  a.queue === b.queue && a.pid === b.pid && a.key === b.key;

/** Whether a task at this PID of a dead-letter queue is an earlier dead letter of the same task. */
function isSameLetter(letter: TaskState, place: Pid, there: TaskState): boolean {
  const own = letter.history?.origin;
  const other = there.history?.origin;
  return other !== undefined && own?.queue === other.queue && own.died?.pid === (other.died?.pid ?? place);
}

/** Whether the attempt of a dead letter ended before that of another dead letter, which was not leased since. */
function isBefore({ history }: TaskState, there: TaskState): boolean {
  const own = history?.origin;
  const other = there.history?.origin;
  if (own?.died === undefined || other?.died === undefined || there.token !== NO_TOKEN) return false;
  return own.died.at < other.died.at || (own.died.at === other.died.at && own.queue < other.queue);
}

/** The dead letter that replaces an earlier one of the same task. It has its PID as long as that one had it. */
function withTimeOf(letter: TaskState, there: TaskState): TaskState {
  const { history } = letter;
  if (history?.origin === undefined) return letter;
  return { ...letter, history: { ...history, origin: { ...history.origin, died: there.history?.origin?.died } } };
}

const NO_ENDS: readonly NotedEnd[] = [];
const ABSENT: Knowledge = { kind: 'absent' };
const EMPTY = new Uint8Array(0);
