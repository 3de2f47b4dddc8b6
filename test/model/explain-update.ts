import { isDeepStrictEqual } from 'node:util';
import type {
  DequeueCall,
  EnqueueCall,
  HistoryEvent,
  Outcome,
  RefusedItemReply,
  ReleaseCall,
  TaskCall,
  UpdateCall,
} from '@taskmaster/cli/testing/history';
import { Added } from './caps.ts';
import { withoutCancelled } from './ends.ts';
import { joined, rescheduled } from './order.ts';
import { endOfKey, isNamedTwice, withKey, withPids } from './records/keys.ts';
import { deadLetterQueueOf, keepsOut } from './records/settings.ts';
import { namedItems } from './records/topics.ts';
import {
  backoffMs,
  buryIn,
  haveDeadComing,
  isCancelled,
  isDead,
  isLastAttempt,
  limitAtOf,
  type Setting,
  sweeps,
  withFailure,
} from './rules.ts';
import { exactly, later, type ModelEnd, type ModelTask, type Span, type World } from './world.ts';

type Updated = Extract<Outcome, { kind: 'updated' }>;
type Enqueued = Updated['enqueued'][number];
type Released = Updated['released'][number];

/** The worlds after the update, if it can have happened now with its outcome; empty if it cannot. */
export function explainUpdate(
  world: World,
  event: HistoryEvent<UpdateCall>,
  span: Span,
  setting: Setting,
): readonly World[] {
  const { call, outcome } = event;
  const { requestId } = call;
  const recorded = requestId === undefined ? undefined : world.request(requestId);
  const worlds: World[] = [];
  if (recorded && (outcome.kind === 'unknown' || isDeepStrictEqual(outcome, recorded.outcome))) worlds.push(world);
  // Within the window a repeated request is never applied again.
  if (recorded && span.to - recorded.at.from <= setting.requestWindowMs) return worlds;
  const queues = queuesOf(world, call);
  for (const swept of sweeps(world, queues, span, setting)) {
    if (haveDeadComing(swept, queues, Math.min(event.calledAt, span.from))) continue;
    for (const told of toldBy(outcome, requestId, setting)) {
      // No reply tells whether a lease was over when its task was cancelled.
      for (const isLate of call.dequeue.some(({ cancel }) => cancel) ? [false, true] : [false]) {
        const after = new UpdatePlayer(swept, withPids(swept, call), told, isLate, span, setting).play(outcome);
        if (after) worlds.push(after);
      }
    }
  }
  return worlds;
}

/**
 * The queues that the update concerns. A release may move a task to another queue, unless there is no such task or it only
 * changes when the task is due. Then it does not look at that queue: who waits there may get dead letters a second later.
 */
export function queuesOf(world: World, { enqueue, dequeue, renew, release }: UpdateCall): string[] {
  const graves = release.flatMap(({ queue, pid, waiting }) => {
    const task = world.task(queue, pid);
    return task === undefined || waiting ? [] : [deadLetterQueueOf(queue, task.retry)];
  });
  const origins = dequeue.flatMap(({ queue, pid, requeue }) => {
    const origin = requeue ? world.task(queue, pid)?.origin : undefined;
    return origin === undefined ? [] : [origin.queue];
  });
  return [...[...enqueue, ...dequeue, ...renew, ...release].map(({ queue }) => queue), ...graves, ...origins];
}

/** The reply to the caller. If it was lost: the reply to a repetition, or any reply. */
function toldBy(outcome: Outcome, requestId: string | undefined, setting: Setting): (Updated | undefined)[] {
  if (outcome.kind !== 'unknown') return [outcome.kind === 'updated' ? outcome : undefined];
  const repeated = requestId === undefined ? undefined : setting.toldFor(requestId);
  return repeated ? [repeated, undefined] : [undefined];
}

const LATER = exactly(Number.POSITIVE_INFINITY);

/** Plays one update by the contract: dequeues, renewals and releases on the tasks before the update, then enqueues. */
class UpdatePlayer {
  #world: World;
  #at: Span;
  readonly #call: UpdateCall;
  /** The reply to this call or to a repetition of it. */
  readonly #told: Updated | undefined;
  /** True: leases that may be over are over for its cancellations. */
  readonly #isLate: boolean;
  readonly #setting: Setting;
  readonly #refused: RefusedItemReply[] = [];
  readonly #deaths: { readonly target: string; readonly queue: string; readonly task: ModelTask }[] = [];
  readonly #requeued: { readonly index: number; readonly task: ModelTask }[] = [];
  /** Undefined: without caps. */
  readonly #added: Added | undefined;
  #impossible = false;

  constructor(world: World, call: UpdateCall, told: Updated | undefined, isLate: boolean, at: Span, setting: Setting) {
    this.#world = world;
    this.#at = at;
    this.#call = call;
    this.#told = told;
    this.#isLate = isLate;
    this.#setting = setting;
    this.#added = setting.caps && new Added(setting.caps);
  }

  play(outcome: Outcome): World | undefined {
    const before = this.#world;
    if (outcome.kind !== 'refused') this.#pinInstant();
    if (this.#impossible) return undefined;
    const { dequeue, renew, release, enqueue, requestId } = this.#call;
    for (const [index, item] of dequeue.entries()) this.#dequeue(item, index);
    const items = outcome.kind === 'refused' ? outcome.items : [];
    const wasAccepted = (kind: RefusedItemReply['kind'], index: number): boolean =>
      !items.some((item) => item.kind === kind && item.index === index);
    const renewed = renew.map((item, index) => this.#renew(item, index, wasAccepted('renew', index)));
    const released = release.map((item, index) => this.#release(item, index, wasAccepted('release', index)));
    for (const { index, task } of this.#requeued) this.#putBack(task, index);
    for (const { target, queue, task } of this.#deaths) {
      this.#world = buryIn(this.#world, target, queue, task, this.#at, this.#setting);
    }
    const enqueued = enqueue.map((item, index) => this.#enqueue(item, index));
    if (this.#impossible) return undefined;

    if (outcome.kind === 'refused') {
      const isFull = this.#refused.length === 0 && this.#added?.isRefused(before) === true;
      if (isFull !== (outcome.reason === 'BACKLOG_FULL')) return undefined;
      return isDeepStrictEqual(outcome.items, namedItems(enqueue, this.#refused)) ? before : undefined;
    }
    if (this.#refused.length > 0 || this.#added?.isRefused(before)) return undefined;
    this.#world = this.#added?.drop(before, this.#world, enqueue, enqueued) ?? this.#world;
    const played: Updated = { kind: 'updated', enqueued, renewed, released };
    if (this.#told && !isDeepStrictEqual(this.#told, played)) return undefined;
    const after = this.#world.at(this.#at.from, this.#world.epoch);
    return requestId === undefined ? after : after.record(requestId, played, this.#at);
  }

  /** A reply with an instant tells when the update happened. */
  #pinInstant(): void {
    const { renew, release, enqueue } = this.#call;
    for (const [index, { data }] of enqueue.entries()) {
      const at = this.#setting.enqueuedAt(data);
      if (at !== undefined && (this.#told?.enqueued[index]?.result ?? 'created') === 'created') this.#happenedAt(at);
    }
    for (const [index, { until }] of (this.#told?.renewed ?? []).entries()) {
      const item = renew[index];
      if (item) this.#renewedUntil(until, item);
    }
    for (const [index, { until }] of (this.#told?.released ?? []).entries()) {
      const item = release[index];
      if (item && until !== undefined) this.#happenedAt(until - this.#waitAfter(item));
    }
  }

  /** A lease that now ends at its time limit does not tell when it was renewed. */
  #renewedUntil(until: number, { queue, pid, leaseDurationMs }: UpdateCall['renew'][number]): void {
    const latest = this.#latestEnd(queue, this.#world.task(queue, pid));
    const at = until - leaseDurationMs;
    if (latest === undefined || until < latest.from) this.#happenedAt(at);
    else if (until > latest.to || at > this.#at.to) this.#impossible = true;
    else this.#at = { from: Math.max(at, this.#at.from), to: this.#at.to };
  }

  #endOfLease({ queue, leaseDurationMs }: UpdateCall['renew'][number], task: ModelTask): Span {
    const end = later(this.#at, leaseDurationMs);
    const latest = this.#latestEnd(queue, task) ?? end;
    return { from: Math.min(end.from, latest.from), to: Math.min(end.to, latest.to) };
  }

  /** The latest end that a renewal can give a lease. Undefined: there is none. */
  #latestEnd(queue: string, task: ModelTask | undefined): Span | undefined {
    const limitAt = task && limitAtOf(queue, task);
    const until = task?.hidden?.until;
    return limitAt && until && { from: Math.max(limitAt.from, until.from), to: Math.max(limitAt.to, until.to) };
  }

  #happenedAt(at: number): void {
    if (at < this.#at.from || at > this.#at.to) this.#impossible = true;
    this.#at = exactly(at);
  }

  #dequeue(item: DequeueCall, index: number): void {
    const task = this.#find('dequeue', item, index);
    if (!task) return;
    if (item.requeue || task.rerun) this.#mustHaveEnded(task);
    if (item.cancel) {
      this.#cancel(item, task);
      return;
    }
    if (item.requeue && task.origin === undefined) {
      this.#refuse('dequeue', index, 'NOT_DEAD_LETTERED');
      return;
    }
    if (!item.requeue && item.token !== undefined && task.rerun) {
      const anew = {
        enqueuedAt: this.#at,
        attempts: 0,
        token: 0,
        hidden: undefined,
        failures: [],
        interruptions: 0,
        suspicion: 0,
      };
      this.#put(item.queue, { ...task, ...anew, rerun: false, progress: undefined, isCancelled: false });
      return;
    }
    this.#added?.end(item.queue, task);
    if (item.requeue) this.#requeued.push({ index, task });
    this.#world = this.#world.at(this.#at.from, this.#world.epoch).remove(item.queue, item.pid, !item.requeue);
    if (item.requeue) return;
    const end = this.#endOf(item);
    this.#world = this.#world.withEnd(item.queue, item.pid, end);
    const isOfKey = task.key !== undefined && task.origin === undefined && keepsOut(item.queue);
    if (isOfKey && end) this.#world = this.#world.withEnd(item.queue, endOfKey(task.key), end);
  }

  #cancel({ queue, pid }: DequeueCall, task: ModelTask): void {
    if (this.#isLeased(task, !this.#isLate)) this.#put(queue, { ...task, isCancelled: true, rerun: false });
    else {
      this.#added?.end(queue, task);
      this.#world = withoutCancelled(this.#world.at(this.#at.from, this.#world.epoch), queue, pid);
    }
  }

  #endOf({ queue, token, result }: DequeueCall): ModelEnd | undefined {
    const isCompleted = token !== undefined || result !== undefined;
    if (result === undefined && !(isCompleted && keepsOut(queue))) return undefined;
    return { outcome: 'completed', result, from: this.#at.from, epoch: this.#world.epoch };
  }

  /** Puts a dead task back where it was, as a waiting task with no attempts. */
  #putBack({ origin, ...task }: ModelTask, index: number): void {
    if (origin === undefined) return;
    const { pid } = origin;
    const existing = this.#world.task(origin.queue, pid);
    if (existing && isDead(origin.queue, existing, this.#at.from)) this.#impossible = true;
    const keyed = task.key === undefined ? undefined : withKey(this.#world, origin.queue, task.key);
    if (keyed && isDead(origin.queue, keyed, this.#at.from)) this.#impossible = true;
    if (existing || keyed) this.#refuse('dequeue', index, 'TASK_EXISTS');
    const anew = { attempts: 0, token: 0, retry: origin.retry, hidden: undefined, origin: undefined, rerun: false };
    const back = { ...task, ...anew, pid, isCancelled: false, interruptions: 0 };
    if (existing || keyed) return;
    this.#added?.add(origin.queue, back);
    this.#put(origin.queue, joined(this.#world, origin.queue, back));
  }

  #renew(item: UpdateCall['renew'][number], index: number, wasAccepted: boolean): { until: number } {
    const told = this.#told?.renewed[index]?.until;
    const until = told ?? this.#at.from + item.leaseDurationMs;
    const task = this.#find('renew', item, index);
    if (!task) return { until };
    const { hidden } = task;
    if (!hidden || !this.#isLeased(task, wasAccepted)) {
      this.#refuse('renew', index, whyNotLeased(item, task));
    } else {
      const progress = item.progress === undefined ? task.progress : item.progress || undefined;
      const end = told === undefined ? this.#endOfLease(item, task) : exactly(told);
      const limitAt = limitAtOf(item.queue, task) ?? LATER;
      const isFull = end.to < limitAt.from ? false : end.from >= limitAt.to || undefined;
      const suspects = item.begun === undefined ? (hidden.suspects ?? 0) : item.begun === 1 ? 0 : item.begun;
      this.#put(item.queue, { ...task, progress, hidden: { ...hidden, until: end, isFull, suspects } });
    }
    return { until };
  }

  #release(item: UpdateCall['release'][number], index: number, wasAccepted: boolean): Released {
    const nothing = { until: undefined, deadLetterQueue: undefined };
    const task = this.#find('release', item, index);
    if (!task) return nothing;
    if (item.waiting) return this.#reschedule(item, index, task, wasAccepted);
    if (!this.#isLeased(task, wasAccepted)) {
      this.#refuse('release', index, whyNotLeased(item, task));
      return nothing;
    }
    if (isCancelled(task)) {
      this.#world = withoutCancelled(this.#world.at(this.#at.from, this.#world.epoch), item.queue, item.pid);
      return nothing;
    }
    const failed = {
      ...(item.error === undefined ? task : withFailure(task, item.error)),
      suspicion: item.refund ? task.suspicion : 0,
      interruptions: task.interruptions + (item.interrupted ? 1 : 0),
    };
    if (!task.rerun && (item.deadLetter || (!item.refund && isLastAttempt(item.queue, task)))) {
      const target = deadLetterQueueOf(item.queue, task.retry);
      this.#world = this.#world.remove(item.queue, item.pid, false);
      this.#deaths.push({ target, queue: item.queue, task: failed });
      return { until: undefined, deadLetterQueue: target };
    }
    const waitMs = this.#waitAfter(item);
    const attempts = task.rerun ? 0 : item.refund ? Math.max(0, task.attempts - 1) : task.attempts;
    const hidden = waitMs > 0 ? { until: later(this.#at, waitMs), leasedBy: undefined } : undefined;
    this.#put(item.queue, { ...failed, attempts, hidden, isCancelled: false });
    // If there was no reply, the instant is not known and is not compared.
    return { until: hidden && (this.#told?.released[index]?.until ?? hidden.until.from), deadLetterQueue: undefined };
  }

  #reschedule(item: ReleaseCall, index: number, task: ModelTask, wasAccepted: boolean): Released {
    const nothing = { until: undefined, deadLetterQueue: undefined };
    if (task.hidden?.leasedBy !== undefined) {
      if (wasAccepted) this.#impossible = true;
      this.#mustHaveEnded(task);
      this.#refuse('release', index, 'TASK_LEASED');
      return nothing;
    }
    const waitMs = item.delayMs ?? 0;
    const hidden = waitMs > 0 ? { until: later(this.#at, waitMs), leasedBy: undefined } : undefined;
    this.#put(item.queue, task.parked === undefined ? { ...task, hidden } : rescheduled(task, hidden?.until));
    return { ...nothing, until: hidden && (this.#told?.released[index]?.until ?? hidden.until.from) };
  }

  /** A search ends a lease that is over before the update is decided, unless the disk is full. */
  #mustHaveEnded({ hidden }: ModelTask): void {
    const isOver = hidden?.leasedBy !== undefined && hidden.until.to <= this.#at.from;
    if (isOver && !this.#setting.mayBeFull) this.#impossible = true;
  }

  /** A lease is over at its end, even if no search has found it. If the end is not known exactly, the reply decides. */
  #isLeased({ hidden }: ModelTask, wasAccepted: boolean): boolean {
    if (hidden?.leasedBy === undefined || hidden.until.to <= this.#at.from) return false;
    return wasAccepted || hidden.until.from > this.#at.to;
  }

  #waitAfter(item: UpdateCall['release'][number]): number {
    if (item.refund || item.waiting) return item.delayMs ?? 0;
    const task = this.#world.task(item.queue, item.pid);
    return item.delayMs ?? (task ? backoffMs(item.queue, task, this.#setting.jitter) : 0);
  }

  #enqueue(item: EnqueueCall, index: number): Enqueued {
    this.#world = this.#world.at(this.#at.from, this.#world.epoch);
    const forgotten = this.#world.mayBeForgotten(item.queue, this.#setting.retentionMs);
    const largest = forgotten ? '' : this.#world.queue(item.queue).largest;
    const told = this.#told?.enqueued[index];
    const keyed = item.key === undefined ? undefined : withKey(this.#world, item.queue, item.key);
    const given = keyed?.pid ?? item.pid;
    const pid = given ?? told?.pid ?? this.#setting.pidBehind(item.data, largest) ?? `${largest}\0behind`;
    if (given === undefined && pid <= largest) this.#impossible = true;
    const existing = this.#world.task(item.queue, pid);
    if (existing && isDead(item.queue, existing, this.#at.from)) this.#impossible = true;
    const ended = item.key !== undefined ? endOfKey(item.key) : item.pid;
    if (!existing && ended !== undefined && keepsOut(item.queue)) {
      if (this.#world.end(item.queue, ended)?.outcome === 'completed')
        return { pid, result: 'kept-out', leased: false };
    }
    if (!existing) {
      const created: ModelTask = {
        pid,
        key: item.key,
        data: item.data,
        enqueuedAt: this.#at,
        attempts: 0,
        token: 0,
        retry: item.retry,
        timeLimitMs: item.timeLimitMs,
        startBy: item.startWithinMs === undefined ? undefined : later(this.#at, item.startWithinMs),
        hidden: item.delayMs > 0 ? { until: later(this.#at, item.delayMs), leasedBy: undefined } : undefined,
        failures: [],
        origin: undefined,
        rerun: false,
        isCancelled: false,
        interruptions: 0,
        suspicion: 0,
        progress: undefined,
        orderKey: item.orderKey,
        limitKey: item.limitKey,
        kind: item.kind,
        place: undefined,
        parked: undefined,
      };
      this.#added?.add(item.queue, created);
      this.#put(item.queue, joined(this.#world, item.queue, created));
      return { pid, result: 'created', leased: false };
    }
    if (item.mode.startsWith('rerun') || (item.mode === 'replace' && item.key !== undefined)) {
      this.#mustHaveEnded(existing);
    }
    const isAnother = item.key !== undefined && keyed === undefined;
    if (item.mode === 'fail' || isAnother) this.#refuse('enqueue', index, 'TASK_EXISTS');
    const isWaiting = keyed?.orderKey === undefined && keyed?.hidden?.leasedBy === undefined;
    const isToMove = keyed !== undefined && isWaiting && item.pid !== undefined && item.pid !== pid;
    if (isToMove && (item.mode === 'replace' || item.mode === 'rerun')) return this.#reorder(item, index, keyed);
    const leased = this.#isLeased(existing, told?.leased ?? true);
    if (item.mode === 'rerun' || item.mode === 'rerun-first') return this.#rerun(item, pid, existing, leased);
    if (item.mode !== 'replace') return { pid, result: 'collapsed', leased };
    this.#put(item.queue, { ...existing, data: item.data });
    return { pid, result: 'replaced', leased };
  }

  /** Gives a waiting task with a key new data and another place. */
  #reorder({ queue, pid = '', data }: EnqueueCall, index: number, task: ModelTask): Enqueued {
    const other = this.#world.task(queue, pid);
    if (other && isDead(queue, other, this.#at.from)) this.#impossible = true;
    if (other) this.#refuse('enqueue', index, 'TASK_EXISTS');
    else {
      this.#world = this.#world.at(this.#at.from, this.#world.epoch).remove(queue, task.pid, false);
      this.#world = this.#world.withEnd(queue, task.pid, undefined);
      this.#put(queue, { ...task, pid, data, token: 0 });
    }
    return { pid, result: 'replaced', leased: false };
  }

  #rerun({ queue, mode, data }: EnqueueCall, pid: string, task: ModelTask, leased: boolean): Enqueued {
    const isLatest = mode === 'rerun';
    const replaces = isLatest || (leased && !task.rerun);
    this.#put(queue, { ...task, data: replaces ? data : task.data, rerun: task.rerun || task.token !== 0 });
    return { pid, result: leased ? 'rerun' : isLatest ? 'replaced' : 'collapsed', leased };
  }

  #find(kind: RefusedItemReply['kind'], item: TaskCall, index: number): ModelTask | undefined {
    const { queue, pid, token } = item;
    if (isNamedTwice(this.#call, item)) {
      this.#refuse(kind, index, 'CONFLICTING_ITEMS');
      return undefined;
    }
    const task = this.#world.task(queue, pid);
    // The dead task was moved before.
    if (task && isDead(queue, task, this.#at.from)) this.#impossible = true;
    if (!task) this.#refuse(kind, index, 'TASK_NOT_FOUND');
    else if (token !== undefined && token !== task.token) this.#refuse(kind, index, 'LEASE_LOST');
    else return task;
    return undefined;
  }

  #put(queue: string, task: ModelTask): void {
    this.#world = this.#world.at(this.#at.from, this.#world.epoch).put(queue, task, this.#setting.retentionMs);
  }

  #refuse(kind: RefusedItemReply['kind'], index: number, reason: string): void {
    this.#refused.push({ kind, index, reason });
  }
}

const whyNotLeased = (item: TaskCall, task: ModelTask): string =>
  item.token !== undefined && item.token === task.token ? 'LEASE_EXPIRED' : 'NOT_LEASED';
