import { isDeepStrictEqual } from 'node:util';
import { EnqueueMode, EnqueueResult, formatQueueName, ItemKind, limits, type Reason } from '@taskmaster/proto';
import { BATCH_START } from '../domain/batches.ts';
import type {
  BatchCommand,
  BatchOutcome,
  DequeueItem,
  EnqueueItem,
  EnqueueOutcome,
  ReleaseItem,
  RenewItem,
  RenewOutcome,
  TaskItem,
  UpdateCommand,
  UpdateEnd,
  UpdateOutcome,
} from '../domain/commands.ts';
import { nextFifoPid } from '../domain/fifo-pid.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { endOfKey, keyOf } from '../domain/key-pointer.ts';
import { Refusal, type RefusedItem, UpdateRefusal } from '../domain/refusal.ts';
import { hasSuspects, isLeased, isLeasedAt, isParked, isTooLate, NO_LINKS, type TaskState } from '../domain/task.ts';
import type { AnyNeed } from '../pending/reads.ts';
import type { Random } from '../ports/random.ts';
import type { CachedTask } from '../queues/cache/places.ts';
import type { Queue } from '../queues/queue.ts';
import {
  afterFailedAttempt,
  afterMissedStart,
  afterWait,
  asNew,
  cancelReasonOf,
  endsWithLease,
  hiddenUntil,
  isToRunAgain,
  leaseEnd,
  NO_TOKEN,
  newState,
  timeLimitOf,
  tooManyInterruptions,
  withCancellation,
  withCheckpoint,
  withoutAttempt,
  withProgress,
  withRerun,
} from './attempts.ts';
import { isKeptOut, keepEndMs } from './ends/keep-out.ts';
import { endCancelled, forgetEnd, leaveEnd, moveAll } from './ends/leave-end.ts';
import { joinOrder } from './flows/order.ts';
import { type HowEnded, settleEnds, tellParents } from './flows/settle-ends.ts';
import { countSignal, keepSignal, waitingFor } from './flows/signal.ts';
import { itemsByKey } from './keys/items-by-key.ts';
import { fromDeadLetters, toDeadLetters, toQueue } from './moves.ts';
import { type DraftMark, type DraftView, TaskDraft, type TaskMove } from './task-draft.ts';

/** The state that a plan may read. */
export interface UpdateView extends DraftView {
  readonly now: Instant;
  readonly random: Random;
  /** False if showing the queue's due tasks has failed. The plan then uses its tasks as they are. */
  canShowDue(queue: Queue): boolean;
}

export type BatchPlan =
  /** Plan again after these have been read. */
  | { readonly kind: 'needs'; readonly needs: readonly AnyNeed[] }
  /** Plan again after these queues are searched: last attempts have ended there, or the tasks of each key must be counted. */
  | { readonly kind: 'due'; readonly queues: ReadonlySet<Queue> }
  | {
      readonly kind: 'planned';
      readonly outcome: BatchOutcome;
      /** The changes of the updates that are not refused. */
      readonly draft: TaskDraft;
    };

/** An update of a batch that is being planned. One object stands for all updates of the batch, one after the other. */
export interface PlannedUpdate {
  start: UpdateEnd;
  end: UpdateEnd;
  readonly draft: TaskDraft;
  /** Where its changes begin in the draft. */
  readonly mark: DraftMark;
  /** Outcomes of enqueues, which may be replaced: its own ones begin at `firstOutcome`. */
  readonly outcomes: EnqueueOutcome[];
  firstOutcome: number;
}

/** A refusal for another reason than items, or the queues that must be searched before there may be one; see `BatchPlan`. */
export type Objection = Refusal | { readonly kind: 'due'; readonly queues: ReadonlySet<Queue> };

/** Decides updates in order on one draft. Refused ones leave nothing in it. At most `most` are decided; others come again. */
export function planBatch(
  command: BatchCommand,
  view: UpdateView,
  objectionTo: (update: Readonly<PlannedUpdate>) => Objection | undefined,
  most = Number.POSITIVE_INFINITY,
): BatchPlan {
  const draft = new TaskDraft(view);
  const planner = new UpdatePlanner(view, draft, command);
  const { mark } = draft;
  const { enqueued, renewed, released } = planner;
  const update: PlannedUpdate = {
    start: BATCH_START,
    end: BATCH_START,
    draft,
    mark,
    outcomes: enqueued,
    firstOutcome: 0,
  };
  let refusals: Map<number, Refusal> | undefined;
  let start = BATCH_START;
  let index = -1;
  for (const end of command.updates) {
    index++;
    if (index >= most) {
      refusals ??= new Map();
      refusals.set(index, tooMuchAtOnce('read as much'));
      continue;
    }
    draft.advance(mark);
    update.start = start;
    update.end = end;
    update.firstOutcome = enqueued.length;
    const renewals = renewed.length;
    const releases = released.length;
    const { assignedBytes } = planner;
    const { told } = draft;
    draft.mostTold = limits.toldParents;
    const refused = planner.plan(start, end);
    // From here on nothing can be refused for it any more.
    draft.mostTold = Number.POSITIVE_INFINITY;
    // Goes on, so that one read fetches what all updates need.
    if (draft.needs.length === 0) {
      const objection = refused ?? tooManyParents(draft, told) ?? objectionTo(update);
      draft.tellsTooMany = false;
      if (objection !== undefined) {
        if (!(objection instanceof Refusal)) return objection;
        draft.rollBack(mark);
        draft.told = told;
        planner.rollBack(update.firstOutcome, renewals, releases, assignedBytes);
        refusals ??= new Map();
        refusals.set(index, objection);
      } else if (draft.hasEnds) settleEnds(draft, view.now);
    }
    start = end;
  }
  if (draft.needs.length > 0) return { kind: 'needs', needs: draft.needs };
  return { kind: 'planned', outcome: { enqueued, renewed, released, refusals: refusals ?? NO_REFUSALS }, draft };
}

/** `told`: how many have heard of the updates before. */
function tooManyParents({ tellsTooMany }: TaskDraft, told: number): Refusal | undefined {
  if (!tellsTooMany) return undefined;
  const limit = String(limits.toldParents);
  if (told === 0) {
    const message = `it ends tasks with more than ${limit} parents together: end them in several updates`;
    return new Refusal('TOO_MANY_ITEMS', message, { metadata: { field: 'dequeue', limit } });
  }
  return tooMuchAtOnce('end tasks with as many parents');
}

const tooMuchAtOnce = (what: string): Refusal =>
  new Refusal('OVERLOADED', `the updates before this one ${what} as one turn may`, { retryDelayMs: RETRY_DELAY_MS });

const RETRY_DELAY_MS = 100;
const NO_REFUSALS: ReadonlyMap<number, Refusal> = new Map();

/**
 * Decides updates one after another by the contract's rules for updates and enqueues. Changes no state but the draft, which has
 * the changes of the updates before. Dequeues, renewals and releases refer to the tasks before their update; enqueues come last,
 * in order. A lease is over at its end, even if no search has found it yet.
 */
class UpdatePlanner {
  readonly enqueued: UpdateOutcome['enqueued'][number][] = [];
  readonly renewed: UpdateOutcome['renewed'][number][] = [];
  readonly released: UpdateOutcome['released'][number][] = [];
  /** Bytes of the long PIDs that were assigned. */
  assignedBytes = 0;
  /** Bytes of the boxes that the updates before this one write. */
  #boxBytesBefore = 0;
  readonly #view: UpdateView;
  readonly #draft: TaskDraft;
  readonly #command: UpdateCommand;
  /** True if the draft had changes before this update. */
  #follows = false;
  /** The tasks that items of this update name by their keys. */
  #byKey: ReturnType<typeof itemsByKey>;
  #refused: RefusedItem[] = [];
  /** Tasks that change their queue. They are moved last, so that all other items find their tasks unchanged. */
  #moves: TaskMove[] = [];
  /** Children that count as completed, because they are kept out. Their parents may be enqueued behind them. */
  #keptOut: { readonly item: EnqueueItem; readonly index: number; readonly pid: Pid }[] = [];
  /** Queues in which tasks of this update must first be moved to their dead-letter queues. */
  #due: Set<Queue> | undefined;

  constructor(view: UpdateView, draft: TaskDraft, command: UpdateCommand) {
    this.#view = view;
    this.#draft = draft;
    this.#command = command;
  }

  /** Drops the outcomes behind these numbers of them. */
  rollBack(enqueued: number, renewed: number, released: number, assignedBytes: number): void {
    this.assignedBytes = assignedBytes;
    this.enqueued.length = enqueued;
    this.renewed.length = renewed;
    this.released.length = released;
  }

  /**
   * Plans the update between these ends: its changes are in the draft, its outcomes in the lists. Both must be rolled back if it
   * is refused. What is returned counts only if the draft needs nothing.
   */
  plan(start: UpdateEnd, end: UpdateEnd): Objection | undefined {
    this.#follows = this.#draft.changes.length > 0;
    this.#boxBytesBefore = this.#draft.boxBytes;
    this.#byKey = itemsByKey(this.#command, start, end, this.#draft);
    if (this.#refused.length > 0) this.#refused = [];
    if (this.#moves.length > 0) this.#moves = [];
    if (this.#keptOut.length > 0) this.#keptOut = [];
    // Loops without closures: there may be many updates of one item.
    const { enqueue, dequeue, renew, release } = this.#command;
    for (let at = start.dequeue; at < end.dequeue; at++) this.#dequeue(itemAt(dequeue, at), at - start.dequeue);
    for (let at = start.renew; at < end.renew; at++) {
      this.renewed.push(this.#renew(itemAt(renew, at), at - start.renew));
    }
    for (let at = start.release; at < end.release; at++) {
      this.released.push(this.#release(itemAt(release, at), at - start.release));
    }
    if (this.#moves.length > 0) this.#move(dequeue, start.dequeue, end.dequeue);
    else if (this.#draft.hasEnds) settleEnds(this.#draft, this.#view.now);
    for (let at = start.enqueue; at < end.enqueue; at++) {
      this.enqueued.push(this.#enqueue(itemAt(enqueue, at), at - start.enqueue));
    }
    if (this.#keptOut.length > 0) this.#countKeptOut();
    if (this.#draft.hasEnds) settleEnds(this.#draft, this.#view.now);

    if (this.#due !== undefined) return { kind: 'due', queues: this.#due };
    const [first] = this.#refused;
    return first && new UpdateRefusal([first, ...this.#refused.slice(1)]);
  }

  #dequeue(item: DequeueItem, index: number): void {
    const found = this.#find(ItemKind.ITEM_KIND_DEQUEUE, item, index);
    if (!found) return;
    const { queue, pid, task } = found;
    // What it takes along, or its attempts, would otherwise depend on whether a search has found the end of the lease.
    const isMoved = item.requeue || item.moveTo !== undefined;
    const changesAtEnd = isMoved || isToRunAgain(task.state) || hasSuspects(task.state);
    if (changesAtEnd && this.#mustEnd(queue, task)) return;
    if (item.cancelReason !== undefined) {
      this.#cancel(item.cancelReason, found);
      return;
    }
    if (item.moveTo !== undefined && isConnected(task.state)) {
      this.#refuse(ItemKind.ITEM_KIND_DEQUEUE, index, item, 'TASK_CONNECTED');
      return;
    }
    if (item.moveTo !== undefined) {
      this.#moves.push(toQueue(queue, pid, task, item.moveTo));
      return;
    }
    // The worker completes the run that it has, and not the later enqueue. Without a token the task is removed, come what may.
    if (!item.requeue && item.token !== undefined && isToRunAgain(task.state)) {
      this.#draft.change(queue, pid, task, asNew(task.state, this.#view.now));
      return;
    }
    if (!item.requeue) {
      this.#end(item, found);
      return;
    }
    const move = fromDeadLetters(queue, pid, task, this.#view.now);
    if (move === undefined) this.#refuse(ItemKind.ITEM_KIND_DEQUEUE, index, item, 'NOT_DEAD_LETTERED');
    else this.#moves.push(move);
  }

  /** A lease is over at its end, so then the task goes at once. */
  #cancel(reason: string, { queue, pid, task }: FoundTask): void {
    const { now } = this.#view;
    const { state } = task;
    if (!isLeasedAt(state, now)) {
      endCancelled(this.#draft, queue, pid, task, cancelReasonOf(state) ?? reason, now);
      return;
    }
    const history = withCancellation(state.history, reason, now);
    if (cancelReasonOf(state) === undefined) this.#draft.change(queue, pid, task, { ...state, history });
  }

  /** Removes the task, and leaves its result. */
  #end({ token, result }: DequeueItem, { queue, pid, task }: FoundTask): void {
    const { name } = queue.ledger;
    const isCompleted = token !== undefined || result !== undefined;
    this.#draft.remove(queue, pid, task, isCompleted ? 'completed' : 'removed');
    const { attempts, history } = task.state;
    if (history !== undefined) {
      const how = isCompleted ? ('completed' as const) : ('removed' as const);
      this.#draft.noteEnd({ queue, pid, state: task.state, end: how, result: result?.data, reason: undefined });
    }
    const end = {
      outcome: 'completed' as const,
      at: this.#view.now,
      attempts,
      result: result?.data,
      error: undefined,
      cancelReason: undefined,
    };
    const keepMs = keepEndMs(queue.settings, isCompleted, result);
    if (keepMs === 0) forgetEnd(this.#draft, name, pid);
    else leaveEnd(this.#draft, name, pid, end, keepMs);
    const key = keyOf(task.state);
    if (key === undefined || !isCompleted || queue.settings.keepOutMs === 0) return;
    const ofKey = endOfKey(name, key);
    leaveEnd(this.#draft, ofKey.name, ofKey.pid, { ...end, result: undefined }, queue.settings.keepOutMs);
  }

  #move(dequeue: readonly DequeueItem[], from: number, to: number): void {
    moveAll(this.#draft, this.#moves, this.#view.now, ({ queue: { ledger }, pid }, target, by) => {
      const there = this.#draft.find(target, by);
      if (there && this.#hasDied(target, there) && !this.#isLateInDraft(target, by, there)) this.#mustShow(target);
      const { name } = ledger.name;
      const index = dequeue.slice(from, to).findIndex((item) => item.pid === pid && item.queue.name === name);
      this.#refuse(ItemKind.ITEM_KIND_DEQUEUE, index, { queue: ledger.name, pid }, 'TASK_EXISTS');
    });
  }

  #renew(item: RenewItem, index: number): RenewOutcome {
    const { now } = this.#view;
    const found = this.#find(ItemKind.ITEM_KIND_RENEW, item, index);
    if (!found) return { until: now, cancelReason: undefined };
    const { state } = found.task;
    const { visibility } = state;
    if (visibility.kind !== 'hidden' || visibility.lease === undefined || !isLeasedAt(state, now)) {
      this.#refuse(ItemKind.ITEM_KIND_RENEW, index, item, whyNotLeased(item, state));
      return { until: now, cancelReason: undefined };
    }
    const { settings } = found.queue;
    const durationMs = item.leaseDurationMs || settings.leaseDurationMs;
    const { since } = visibility.lease;
    const until = leaseEnd(now, durationMs, timeLimitOf(state, settings), since, visibility.until);
    const reported = item.progress === undefined ? state.history : withProgress(state.history, item.progress, now);
    const history = item.checkpoint === undefined ? reported : withCheckpoint(reported, item.checkpoint);
    const { begun } = item;
    const lease = begun === undefined ? visibility.lease : { ...visibility.lease, suspects: begun === 1 ? 0 : begun };
    const after = { ...state, history, visibility: { ...visibility, until, lease } };
    this.#draft.change(found.queue, item.pid, found.task, after);
    return { until, cancelReason: cancelReasonOf(state) };
  }

  #release(item: ReleaseItem, index: number): UpdateOutcome['released'][number] {
    const nothing = { until: undefined, deadLetterQueue: undefined };
    const found = this.#find(ItemKind.ITEM_KIND_RELEASE, item, index);
    if (!found) return nothing;
    const { queue, pid, task } = found;
    const { now, random } = this.#view;
    if (item.waiting) return this.#reschedule(item, index, found);
    if (!isLeasedAt(task.state, now)) {
      this.#refuse(ItemKind.ITEM_KIND_RELEASE, index, item, whyNotLeased(item, task.state));
      return nothing;
    }
    const delayMs = delayOf(item, now);
    const cancelReason = cancelReasonOf(task.state);
    if (cancelReason !== undefined) {
      endCancelled(this.#draft, queue, pid, task, cancelReason, now);
      return nothing;
    }
    const { interrupted = false, deadLetter } = item;
    const tooMany = interrupted ? tooManyInterruptions(task.state) : undefined;
    if (item.refundAttempt && tooMany === undefined) {
      const state = afterWait(withoutAttempt(task.state, interrupted), now, delayMs ?? 0, now);
      if (interrupted) this.#draft.retry(queue, pid, task, state, 'interrupted');
      else this.#draft.change(queue, pid, task, state);
      return { until: shownAt(state), deadLetterQueue: undefined };
    }
    const error = tooMany ?? item.error;
    const attempt = { endedAt: now, delayMs, error, isExpired: false, deadLetter };
    const after = afterFailedAttempt(task.state, queue.settings, attempt, now, random);
    if (after.kind === 'dead') {
      const move = toDeadLetters(queue, pid, task, after.state, now);
      this.#moves.push(move);
      const target = this.#draft.queue(move.target);
      const there = target === undefined ? undefined : this.#draft.find(target, pid);
      if (target !== undefined && there !== undefined) this.#mustEnd(target, there);
      return { until: undefined, deadLetterQueue: formatQueueName(move.target) };
    }
    if (after.kind === 'retry') this.#draft.retry(queue, pid, task, after.state);
    else this.#draft.change(queue, pid, task, after.state);
    return { until: shownAt(after.state), deadLetterQueue: undefined };
  }

  /** Changes when a waiting task becomes available. */
  #reschedule(item: ReleaseItem, index: number, { queue, pid, task }: FoundTask): UpdateOutcome['released'][number] {
    const { now } = this.#view;
    const { state } = task;
    if (isLeased(state)) {
      if (!this.#mustEnd(queue, task)) this.#refuse(ItemKind.ITEM_KIND_RELEASE, index, item, 'TASK_LEASED');
      return { until: undefined, deadLetterQueue: undefined };
    }
    const dueAt = (now + (delayOf(item, now) ?? 0)) as Instant;
    // What it waits for hides it, too, and comes first.
    const visibility = isParked(state) ? state.visibility : hiddenUntil(dueAt, now);
    const after = { ...state, dueAt, visibility };
    if (isParked(state)) {
      this.#draft.change(queue, pid, task, after);
      return { until: dueAt > now ? dueAt : undefined, deadLetterQueue: undefined };
    }
    if (after.visibility !== state.visibility) this.#draft.change(queue, pid, task, after);
    return { until: shownAt(after), deadLetterQueue: undefined };
  }

  #enqueue(item: EnqueueItem, index: number): UpdateOutcome['enqueued'][number] {
    if (item.mode === EnqueueMode.ENQUEUE_MODE_SIGNAL) return this.#signal(item, index);
    const queues = this.#draft.created.length;
    const queue = this.#draft.queueFor(item.queue);
    const keyed = item.key === undefined ? undefined : this.#draft.pidOfKey(queue, item.key);
    const pid = keyed ?? item.pid ?? nextFifoPid(this.#draft.largestPid(queue), this.#view.now);
    const created = EnqueueResult.ENQUEUE_RESULT_CREATED;
    if (pid === undefined) {
      this.#refuse(ItemKind.ITEM_KIND_ENQUEUE, index, item, 'FIFO_EXHAUSTED');
      return { pid: '' as Pid, result: created, leased: false };
    }
    if (pid.length > SHORT_PID_BYTES && item.pid === undefined) this.#noteAssigned(pid, item, index);
    const existing = (keyed ?? item.pid) === undefined ? undefined : this.#draft.find(queue, pid);
    if (existing && this.#isLateInDraft(queue, pid, existing)) {
      this.#endLate(queue, pid, existing);
      // Otherwise it ends when the reads are there, in the next plan.
      if (this.#draft.needs.length === 0) return this.#enqueue(item, index);
    } else if (existing) {
      const leased = isLeasedAt(existing.state, this.#view.now);
      const mode = item.mode || queue.settings.mode;
      if (this.#hasDied(queue, existing)) this.#mustShow(queue);
      else if (isAboutRuns(mode, item)) this.#mustEnd(queue, existing);
      // With a key, the PID is only the order: another task has it.
      const isAnother = item.key !== undefined && keyed === undefined;
      if (mode === EnqueueMode.ENQUEUE_MODE_FAIL || isAnother || !isSameChild(item, existing.state)) {
        this.#refuse(ItemKind.ITEM_KIND_ENQUEUE, index, item, 'TASK_EXISTS');
      } else if (mode !== EnqueueMode.ENQUEUE_MODE_COLLAPSE && this.#isToMove(item, pid, mode, existing)) {
        return this.#reorder(item, index, queue, pid, existing);
      } else if (mode === EnqueueMode.ENQUEUE_MODE_REPLACE) {
        const after = { ...existing.state, ...sizesOf(item) };
        this.#draft.change(queue, pid, existing, after, item.data);
        return { pid, result: EnqueueResult.ENQUEUE_RESULT_REPLACED, leased };
      } else if (mode === EnqueueMode.ENQUEUE_MODE_RERUN || mode === EnqueueMode.ENQUEUE_MODE_RERUN_FIRST) {
        return { pid, result: this.#rerun(item, mode, queue, pid, existing, leased), leased };
      }
      return { pid, result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED, leased };
    }
    const { now } = this.#view;
    if (isKeptOut(this.#draft, queue, item, now)) {
      this.#draft.uncreate(queues);
      if (item.links !== undefined) this.#keptOut.push({ item, index, pid });
      return { pid, result: EnqueueResult.ENQUEUE_RESULT_KEPT_OUT, leased: false };
    }
    const dueAt = (now + (delayOf(item, now) ?? 0)) as Instant;
    let state = newState(item, now, dueAt);
    if (item.links !== undefined) state = joinOrder(this.#draft, queue, pid, state, now);
    if (item.waitFor !== undefined) state = waitingFor(this.#draft, queue, pid, state, item.waitFor, now);
    this.#draft.add(queue, pid, state, item.data);
    return { pid, result: created, leased: false };
  }

  #countKeptOut(): void {
    for (const { item, index, pid } of this.#keptOut) {
      if (this.#writesTooMuch) return;
      const { queue, key, links } = item;
      const child = { parents: (links ?? NO_LINKS).parents, queue: queue.name, pid, key };
      tellParents(this.#draft, queue.group, child, COMPLETED, this.#view.now);
      this.#noteBoxes(item, index);
    }
  }

  /** Refuses the first task with which the PIDs that the node tells would be too many bytes for a reply. */
  #noteAssigned({ length }: Pid, item: EnqueueItem, index: number): void {
    const before = this.assignedBytes;
    this.assignedBytes += length;
    const { assignedPidBytes: most } = limits;
    if (before <= most && this.assignedBytes > most) {
      this.#refuse(ItemKind.ITEM_KIND_ENQUEUE, index, item, 'REQUEST_TOO_LARGE');
    }
  }

  get #writesTooMuch(): boolean {
    return this.#draft.boxBytes - this.#boxBytesBefore > limits.signalRewriteBytes;
  }

  /** Refuses the item with which the update would write too much: what has come for a task is written whole. */
  #noteBoxes(item: EnqueueItem, index: number): void {
    if (this.#writesTooMuch) this.#refuse(ItemKind.ITEM_KIND_ENQUEUE, index, item, 'REQUEST_TOO_LARGE');
  }

  /** Counts a signal of the task that the item names. Without such a task it is kept. */
  #signal(item: EnqueueItem, index: number): EnqueueOutcome {
    const { queue: name, pid, key, signalId = '', data } = item;
    const { now } = this.#view;
    // It is refused already, so that the rest is not worth its time.
    if (this.#writesTooMuch) return { pid: NO_PID, result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED, leased: false };
    const queue = this.#draft.queue(name);
    const target = key === undefined ? pid : queue && this.#draft.pidOfKey(queue, key);
    const task = queue && target && this.#draft.find(queue, target);
    if (queue && target && task && this.#isLateInDraft(queue, target, task)) {
      this.#endLate(queue, target, task);
      // Otherwise it ends when the reads are there, in the next plan.
      if (this.#draft.needs.length === 0) return this.#signal(item, index);
    }
    const signal = { id: signalId, child: undefined, data };
    const outcome = { pid: target ?? NO_PID, leased: false };
    if (queue === undefined || target === undefined || task === undefined) {
      const isKept = keepSignal(this.#draft, { name, pid, key }, signal, now);
      this.#noteBoxes(item, index);
      const kept = isKept ? EnqueueResult.ENQUEUE_RESULT_SIGNAL_KEPT : EnqueueResult.ENQUEUE_RESULT_COLLAPSED;
      return { ...outcome, result: kept };
    }
    if (this.#hasDied(queue, task)) this.#mustShow(queue);
    const isCounted = countSignal(this.#draft, { queue, pid: target, task }, signal, now);
    this.#noteBoxes(item, index);
    const counted = isCounted ? EnqueueResult.ENQUEUE_RESULT_SIGNALLED : EnqueueResult.ENQUEUE_RESULT_COLLAPSED;
    return { ...outcome, result: counted, leased: isLeasedAt(task.state, now) };
  }

  /** Whether an enqueue with a key gives a waiting task another PID. */
  #isToMove({ key, pid }: EnqueueItem, at: Pid, mode: EnqueueMode, { state }: CachedTask): boolean {
    if (isConnected(state)) return false;
    const isLatest = mode === EnqueueMode.ENQUEUE_MODE_REPLACE || mode === EnqueueMode.ENQUEUE_MODE_RERUN;
    return key !== undefined && pid !== undefined && pid !== at && isLatest && !isLeased(state);
  }

  /** Gives a task with a key new data and another place. */
  #reorder(item: EnqueueItem, index: number, queue: Queue, from: Pid, existing: CachedTask): EnqueueOutcome {
    const pid = item.pid ?? from;
    let other = this.#draft.find(queue, pid);
    if (other && this.#isLateInDraft(queue, pid, other)) {
      this.#endLate(queue, pid, other);
      other = undefined;
    }
    if (other && this.#hasDied(queue, other)) this.#mustShow(queue);
    if (other) this.#refuse(ItemKind.ITEM_KIND_ENQUEUE, index, item, 'TASK_EXISTS');
    else {
      const left = this.#draft.remove(queue, from, existing, 'moved');
      if (!this.#isAssigned(queue, from)) forgetEnd(this.#draft, queue.ledger.name, from);
      // Another task with this PID may have been leased together with this one: its worker must not complete this one.
      const after = { ...existing.state, ...sizesOf(item), token: NO_TOKEN };
      this.#draft.arrive(left, queue, pid, after, item.data);
    }
    return { pid, result: EnqueueResult.ENQUEUE_RESULT_REPLACED, leased: false };
  }

  /**
   * Whether the node has assigned this PID to a task of this request. No earlier task had it. Nothing may be read for it, because
   * it is another one in each attempt.
   */
  #isAssigned({ ledger }: Queue, at: Pid): boolean {
    return at > (ledger.largestPid ?? '') && !this.#command.enqueue.some(({ pid }) => pid === at);
  }

  /** Enqueues an existing task again, so that it runs with this data after the lease that it has or had. */
  #rerun(
    item: EnqueueItem,
    mode: EnqueueMode,
    queue: Queue,
    pid: Pid,
    existing: CachedTask,
    leased: boolean,
  ): EnqueueResult {
    const { state } = existing;
    const isLatest = mode === EnqueueMode.ENQUEUE_MODE_RERUN;
    const replaces = isLatest || (leased && !isToRunAgain(state));
    // The worker of an earlier lease may still complete the task.
    const rerun = state.token !== NO_TOKEN;
    if (replaces || (rerun && !isToRunAgain(state))) {
      const history = rerun ? withRerun(state.history, true) : state.history;
      const after = { ...state, ...(replaces ? sizesOf(item) : {}), history };
      this.#draft.change(queue, pid, existing, after, replaces ? item.data : undefined);
    }
    if (leased) return EnqueueResult.ENQUEUE_RESULT_RERUN;
    return isLatest ? EnqueueResult.ENQUEUE_RESULT_REPLACED : EnqueueResult.ENQUEUE_RESULT_COLLAPSED;
  }

  /** The task of an item. Refuses the item if there is no such task or the item's token is stale. */
  #find(kind: ItemKind, item: TaskItem, index: number): FoundTask | undefined {
    const queue = this.#draft.queue(item.queue);
    const byKey = this.#byKey?.get(item);
    const pid = item.key === undefined ? item.pid : byKey?.pid;
    if (!queue || pid === undefined || byKey?.isNamedTwice) {
      this.#refuse(kind, index, item, byKey?.isNamedTwice ? 'CONFLICTING_ITEMS' : 'TASK_NOT_FOUND');
      return undefined;
    }
    // These items name different tasks, so what the draft knows is what was before the update. An index of its changes costs.
    const knowledge = (this.#follows ? this.#draft : this.#view).known(queue, pid);
    if (knowledge.kind === 'unknown') {
      this.#draft.need(queue, pid, 0);
      return undefined;
    }
    const isLateInDraft = knowledge.kind === 'task' && this.#isLateInDraft(queue, pid, knowledge.task);
    if (knowledge.kind === 'task' && !isLateInDraft && this.#hasDied(queue, knowledge.task)) {
      this.#mustShow(queue);
      return undefined;
    }
    if (knowledge.kind === 'absent' || isLateInDraft) {
      this.#refuse(kind, index, item, 'TASK_NOT_FOUND');
      return undefined;
    }
    if (item.token !== undefined && item.token !== knowledge.task.state.token) {
      this.#refuse(kind, index, item, 'LEASE_LOST');
      return undefined;
    }
    return { queue, pid, task: knowledge.task };
  }

  /**
   * True if the lease of the task is over and nothing has noticed that yet. The update is then planned again after the attempt
   * has failed: it must not matter whether a request has looked at the queue since.
   */
  #mustEnd(queue: Queue, { state }: CachedTask): boolean {
    const isOver = isLeased(state) && !isLeasedAt(state, this.#view.now) && this.#view.canShowDue(queue);
    if (isOver) this.#mustShow(queue);
    return isOver;
  }

  #mustShow(queue: Queue): void {
    this.#due ??= new Set();
    this.#due.add(queue);
  }

  /** True if the task's last attempt is over, or its first one has not begun in time. It is not in this queue any more. */
  #hasDied(queue: Queue, { state }: CachedTask): boolean {
    if (isTooLate(state, this.#view.now)) return this.#view.canShowDue(queue);
    const isOver = isLeased(state) && !isLeasedAt(state, this.#view.now);
    return isOver && endsWithLease(state, queue.settings) && this.#view.canShowDue(queue);
  }

  /** True if the task is too late and the draft has enqueued it: no search finds it before the commit. */
  #isLateInDraft(queue: Queue, pid: Pid, { state }: CachedTask): boolean {
    const { now } = this.#view;
    if (!isTooLate(state, now)) return false;
    const before = this.#view.known(queue, pid);
    return before.kind !== 'task' || !isTooLate(before.task.state, now);
  }

  /** Ends such a task as a search would. */
  #endLate(queue: Queue, pid: Pid, task: CachedTask): void {
    const { kind, state, at, reason } = afterMissedStart(task.state, queue.settings);
    if (kind === 'cancelled') {
      endCancelled(this.#draft, queue, pid, task, reason, at);
      // At once, because the next item may enqueue another task in its place.
      settleEnds(this.#draft, this.#view.now);
    } else moveAll(this.#draft, [toDeadLetters(queue, pid, task, state, at)], this.#view.now);
  }

  /** Names the item as the request does: a repetition of the request must get the same refusal. */
  #refuse(kind: ItemKind, index: number, { queue, pid = NO_PID, ...item }: RefusableItem, reason: Reason): void {
    const key = pid === NO_PID ? item.key : undefined;
    this.#refused.push({ kind, index, queue, pid, key, reason, message: sentence(reason) });
  }
}

/** The usual length of the PIDs that are assigned. */
const SHORT_PID_BYTES = 16;

/** A task that an item names. */
interface FoundTask {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly task: CachedTask;
}

type RefusableItem = Pick<RefusedItem, 'queue' | 'key'> & { readonly pid: Pid | undefined };
const NO_PID = '' as Pid;

/** Whether the effect of an enqueue on an existing task depends on the attempt that the task has or had. */
const isAboutRuns = (mode: EnqueueMode, { key }: EnqueueItem): boolean =>
  mode === EnqueueMode.ENQUEUE_MODE_RERUN ||
  mode === EnqueueMode.ENQUEUE_MODE_RERUN_FIRST ||
  (mode === EnqueueMode.ENQUEUE_MODE_REPLACE && key !== undefined);

/** Whether other tasks, or its signals, know the task by its queue and PID. */
const isConnected = ({ history }: TaskState): boolean => history?.links !== undefined || history?.waits !== undefined;

/** Whether the enqueue may be of the existing task. Parents that it does not know would wait for it in vain. */
const isSameChild = ({ links }: EnqueueItem, { history }: TaskState): boolean =>
  links === undefined || links.parents.length === 0 || isDeepStrictEqual(links.parents, history?.links?.parents);

const COMPLETED: HowEnded = { end: 'completed', result: undefined, reason: undefined };

const sizesOf = ({ data, headerBytes }: EnqueueItem): Pick<TaskState, 'dataBytes' | 'headerBytes'> => ({
  dataBytes: data.byteLength,
  headerBytes,
});

/** Tells a task whose lease has ended from a task that is not leased: the former still has the item's token. */
const whyNotLeased = ({ token }: TaskItem, state: TaskState): Reason =>
  token !== undefined && token === state.token ? 'LEASE_EXPIRED' : 'NOT_LEASED';

/** How long an item hides its task from now on. Undefined: it does not say. */
function delayOf({ delayMs, runAt }: Pick<ReleaseItem, 'delayMs' | 'runAt'>, now: Instant): number | undefined {
  return runAt === undefined ? delayMs : Math.max(0, runAt - now);
}

const shownAt = ({ visibility }: TaskState): Instant | undefined =>
  visibility.kind === 'hidden' ? visibility.until : undefined;

function sentence(reason: Reason): string {
  switch (reason) {
    case 'TASK_NOT_FOUND':
      return 'no such task in the queue';
    case 'TASK_EXISTS':
      return 'a task with this PID is in the queue already';
    case 'LEASE_LOST':
      return 'the lease token is no longer current: the task was leased again or its leases were reset';
    case 'LEASE_EXPIRED':
      return 'the lease has expired';
    case 'NOT_LEASED':
      return 'the task is not leased';
    case 'TASK_LEASED':
      return 'the task is leased';
    case 'TASK_CONNECTED':
      return 'the task has waited for others, or has parents or an order key, so it stays in its queue';
    case 'CONFLICTING_ITEMS':
      return 'another item names the same task by its PID';
    case 'NOT_DEAD_LETTERED':
      return 'the task did not come to this queue from another one';
    case 'REQUEST_TOO_LARGE':
      return 'the reply would be too large, because the PIDs of the queue are long, or too many signals go to tasks that keep much: use several updates';
    case 'FIFO_EXHAUSTED':
      return 'no PID is behind the largest one of the queue';
    default:
      return reason;
  }
}

function itemAt<T>(items: readonly T[], at: number): T {
  const item = items[at];
  if (item === undefined) throw new RangeError(`an update ends behind its ${items.length} items`);
  return item;
}
