import type { HistoryEvent, LeaseCall, Outcome, RetryCall } from '@taskmaster/cli/testing/history';
import { deadLetterPid, type Pid } from '@taskmaster/engine/domain';
import { parseQueueName } from '@taskmaster/proto';
import type { Caps } from './caps.ts';
import { withDeath, withoutCancelled } from './ends.ts';
import { deadLetterQueueOf, lateQueueOf, retrySettings, timeLimitSetting } from './records/settings.ts';
import { derived, later, type ModelTask, type Span, type World } from './world.ts';

/** Facts about a run that the model needs beside the history. */
export interface Setting {
  /** The value of all random numbers of the engine, so that backoffs are known. */
  readonly jitter: number;
  /** Undefined: any number of tasks may wait. */
  readonly caps: Caps | undefined;
  readonly retentionMs: number;
  readonly requestWindowMs: number;
  /** True if the cache may be too small for a request for several queues, which then gets fewer tasks than exist. */
  readonly tinyCache: boolean;
  /** True if the disk was full for some time. */
  readonly mayBeFull: boolean;
  /** Longest time for a request that needs the disk several times, in ms. */
  readonly slackMs: number;
  /** The PID that the node must have assigned behind `largest` to a task without a PID, as other replies tell. */
  readonly pidBehind: (data: string, largest: string) => string | undefined;
  /** The reply to another call with the same request id. */
  readonly toldFor: (requestId: string) => Extract<Outcome, { kind: 'updated' }> | undefined;
  /** Whether several calls have this request id. */
  readonly isRepeated: (requestId: string | undefined) => boolean;
  /** When the task with this payload was enqueued, as other replies tell. */
  readonly enqueuedAt: (data: string) => number | undefined;
  /** Calls that were in progress at the same time. */
  readonly besides: (event: HistoryEvent) => readonly HistoryEvent[];
  /** How often the clock may have gone back before this place in the history. */
  readonly epochAt: (seq: number) => number;
  /** Called if there are more worlds than can be tried: the first of them are. */
  readonly tooManyWorlds?: () => void;
  /** The last known time before the clock may have gone back at the start of this epoch. */
  readonly endBefore: (epoch: number) => number;
}

/** When an event took effect, if the reply tells. With a time limit a renewal may have been later. */
export function instantOf({ call, outcome }: HistoryEvent, setting: Setting): number | undefined {
  if (call.kind === 'lease' && outcome.kind === 'leased') {
    const [first] = outcome.tasks;
    return first && first.until - leaseMs(call.leaseDurationMs, first.timeLimitMs ?? 0);
  }
  if (call.kind !== 'update' || outcome.kind === 'refused') return undefined;
  const [renewal] = call.renew;
  const [renewed] = outcome.kind === 'updated' ? outcome.renewed : [];
  if (renewal && renewed) return renewed.until - renewal.leaseDurationMs;
  for (const [index, { data }] of call.enqueue.entries()) {
    const isNew = outcome.kind !== 'updated' || outcome.enqueued[index]?.result === 'created';
    const at = setting.enqueuedAt(data);
    if (isNew && at !== undefined) return at;
  }
  return undefined;
}

/**
 * When an event must have taken effect exactly, if the replies tell. An update with a request id may have been applied by another
 * call with the same one.
 */
export function exactInstantOf({ call, outcome }: HistoryEvent, setting: Setting): number | undefined {
  if (call.kind === 'lease' && outcome.kind === 'leased') {
    const [first] = outcome.tasks;
    return first && first.until - leaseMs(call.leaseDurationMs, first.timeLimitMs ?? 0);
  }
  if (call.kind !== 'update' || outcome.kind === 'refused' || setting.isRepeated(call.requestId)) return undefined;
  for (const [index, { data }] of call.enqueue.entries()) {
    const isNew = outcome.kind !== 'updated' || outcome.enqueued[index]?.result === 'created';
    const at = setting.enqueuedAt(data);
    if (isNew && at !== undefined) return at;
  }
  return undefined;
}

/** The policy of a task: its own, or that of the settings. A dead letter without its own has no limit of attempts. */
function policyOf(queue: string, { retry, origin }: ModelTask): RetryCall {
  const settings = retrySettings(queue);
  return retry ?? (origin === undefined ? settings : { ...settings, maxAttempts: 0 });
}

/** The time limit of an attempt, in ms: that of the task, or that of the settings. 0: there is none. */
export const timeLimitOf = (queue: string, { timeLimitMs, origin }: ModelTask): number =>
  (origin === undefined ? timeLimitMs : undefined) ?? timeLimitSetting(queue);

/** How long a new lease lasts. */
export const leaseMs = (durationMs: number, limitMs: number): number =>
  limitMs === 0 ? durationMs : Math.min(durationMs, limitMs);

/** The latest end of the lease of a task. Undefined: there is none. */
export function limitAtOf(queue: string, task: ModelTask): Span | undefined {
  const limitMs = timeLimitOf(queue, task);
  return limitMs === 0 || task.hidden?.since === undefined ? undefined : later(task.hidden.since, limitMs);
}

const EXPIRED = 'expired';

/** The failures that the end of a lease may leave. Two if it is not known whether the lease has ended at its limit. */
function endsOf(queue: string, task: ModelTask): string[] {
  const isFull = limitAtOf(queue, task) === undefined ? false : task.hidden?.isFull;
  const over = `the attempt exceeded its time limit of ${timeLimitOf(queue, task)} ms`;
  return [...(isFull === true ? [] : [EXPIRED]), ...(isFull === false ? [] : [over])];
}

/** Whether the task goes when its lease ends. A later enqueue runs again. */
export const isCancelled = (task: ModelTask): boolean => task.isCancelled && !task.rerun;

/** A task that was enqueued again meanwhile has no last attempt. */
export function isLastAttempt(queue: string, task: ModelTask): boolean {
  const { maxAttempts } = policyOf(queue, task);
  return isCancelled(task) || (maxAttempts > 0 && task.attempts >= maxAttempts && !task.rerun);
}

/** The backoff: it doubles with every attempt up to its bound, with full jitter. */
export function backoffMs(queue: string, task: ModelTask, jitter: number): number {
  const { backoffInitialMs, backoffMaxMs } = policyOf(queue, task);
  return Math.ceil(jitter * Math.min(backoffMaxMs, backoffInitialMs * 2 ** Math.max(0, task.attempts - 1)));
}

/**
 * Moves a task of `queue` to its dead-letter queue. It replaces its own earlier dead letter, and stands beside others. Of two
 * dead letters that of the attempt that ended first has the PID of both.
 */
export function buryIn(
  world: World,
  target: string,
  queue: string,
  task: ModelTask,
  endedAt: Span,
  setting: Setting,
): World {
  const origin = { queue, pid: task.pid, retry: task.retry, at: endedAt };
  let next = withDeath(world, queue, task.pid);
  const rest = { hidden: undefined, place: undefined, parked: undefined, rerun: false };
  let letter = derived(task, `of ${queue}, dead from ${endedAt.from} to ${endedAt.to}`, () => ({
    ...task,
    ...rest,
    token: 0,
    retry: undefined,
    origin,
  }));
  for (let there = next.task(target, letter.pid); there !== undefined; there = next.task(target, letter.pid)) {
    if (there.origin?.queue === letter.origin?.queue && there.origin?.pid === letter.origin?.pid) {
      return next.put(target, { ...letter, origin: there.origin }, setting.retentionMs);
    }
    if (isBefore(letter, there)) {
      next = next.put(target, letter, setting.retentionMs);
      letter = there;
    }
    letter = { ...letter, pid: deadLetterPid(letter.pid as Pid, parseQueueName(letter.origin?.queue ?? '').name) };
  }
  return next.put(target, letter, setting.retentionMs);
}

function isBefore({ origin }: ModelTask, there: ModelTask): boolean {
  if (origin === undefined || there.origin === undefined || there.token !== 0) return false;
  const { at, queue } = there.origin;
  return origin.at.from < at.from || (origin.at.from === at.from && origin.queue < queue);
}

/** The task with one more failure. It keeps the last five. */
export const withFailure = (task: ModelTask, what: string): ModelTask =>
  derived(task, `failed: ${what}`, () => ({
    ...task,
    failures: [...task.failures, `${task.attempts}: ${what}`].slice(-5),
  }));

/** Tasks that a search at `at` may change: hidden ones that may be due, and those that may not have started in time. */
const dueTasks = (world: World, queue: string, at: number): ModelTask[] =>
  world
    .tasks(queue)
    .filter((task) => mayBeLate(task, at) || (task.hidden !== undefined && task.hidden.until.from <= at));

/** True if it may be too late at `at` for the task to start. */
export const mayBeLate = ({ startBy }: ModelTask, at: number): boolean => startBy !== undefined && startBy.from <= at;

/** True if it must be too late at `at` for the task to start. */
export const isLate = ({ startBy }: ModelTask, at: number): boolean => startBy !== undefined && startBy.to <= at;

/** Where a due task goes if a search ends it. Undefined: nowhere. */
function targetOf(queue: string, task: ModelTask, at: number): string | undefined {
  if (mayBeLate(task, at)) return lateQueueOf(queue, task.retry);
  const isLast = task.hidden?.leasedBy !== undefined && isLastAttempt(queue, task);
  return isLast ? deadLetterQueueOf(queue, task.retry) : undefined;
}

type Accepting = Pick<LeaseCall, 'maxPid' | 'kinds'>;
const ALL: Accepting = { maxPid: undefined };

/** Whether a lease request may get the task when it is available. */
export const accepts = ({ maxPid, kinds }: Accepting, { pid, kind = '' }: ModelTask): boolean =>
  (maxPid === undefined || pid <= maxPid) &&
  (kinds === undefined || kinds.some((one) => one === kind || (one === 'm@*' && kind.startsWith('m@'))));

/** True if a task belongs to one of these dead-letter queues, because it must be dead at `at`. */
export function haveDeadComing(world: World, queues: readonly string[], at: number, call: Accepting = ALL): boolean {
  return world.queueNames.some((from) =>
    world.tasks(from).some((task) => {
      const target = targetOf(from, task, at);
      return (
        accepts(call, task) &&
        !isCancelled(task) &&
        isDead(from, task, at) &&
        target !== undefined &&
        queues.includes(target)
      );
    }),
  );
}

/** True if the task is not in its queue any more, because its last attempt must be over at `at`, or it starts too late. */
export const isDead = (queue: string, task: ModelTask, at: number): boolean =>
  isLate(task, at) ||
  (task.hidden?.leasedBy !== undefined && isLastAttempt(queue, task) && !mayBeBlameless(task) && isOverdue(task, at));

/** True if an attempt whose lease expires may not count: another task may be to blame. */
const mayBeBlameless = (task: ModelTask): boolean =>
  hasSuspects(task) && !isCancelled(task) && task.hidden?.isFull !== true;

const hasSuspects = ({ hidden }: ModelTask): boolean => (hidden?.suspects ?? 0) > 0;

/** In how large a call the task may begin after its lease has expired. */
function suspicionAfter({ hidden, suspicion }: ModelTask): number {
  const half = Math.max(1, Math.floor((hidden?.suspects ?? 0) / 2));
  return suspicion === 0 ? half : Math.min(half, suspicion);
}

/** The world after the lease of a task has expired for which the task is not to blame. */
function interruptedBy(world: World, queue: string, task: ModelTask, setting: Setting): World {
  const attempts = task.rerun ? 0 : Math.max(0, task.attempts - 1);
  const [interruptions, suspicion] = [task.interruptions + 1, suspicionAfter(task)];
  const after = derived(task, 'interrupted', () => ({
    ...task,
    attempts,
    interruptions,
    suspicion,
    hidden: undefined,
    isCancelled: false,
  }));
  return world.put(queue, after, setting.retentionMs);
}

/** True if a hidden task must be due at `at`, or a task starts too late. */
export const isOverdue = (task: ModelTask, at: number): boolean =>
  isLate(task, at) || (task.hidden !== undefined && task.hidden.until.to <= at);

/**
 * The worlds that lazy expiry may have made of these queues by the end of `span`: each queue is unchanged, or searches have
 * shown the tasks that were due at some instants. The unchanged world comes first. Other queues do not change here.
 */
export function sweeps(world: World, queues: readonly string[], span: Span, setting: Setting): World[] {
  if (span.to < span.from) return [world];
  const found: World[] = [];
  // Many orders begin alike, and lead to worlds that are alike.
  const byOrder = new Map<string, World[]>();
  const bySearch = new Map<string, readonly World[]>();
  const search = (before: World, queue: string): readonly World[] => {
    const key = `${queue} ${before.likeness}`;
    const after = bySearch.get(key) ?? [before, ...sweepsOf(before, queue, span.to, setting)];
    bySearch.set(key, after);
    return after;
  };
  for (const order of orders(world, touching(world, queues, span.to), span.to)) {
    let worlds = [world];
    for (const [index, queue] of order.entries()) {
      const begun = order.slice(0, index + 1).join();
      const known = byOrder.get(begun);
      worlds = known ?? unlike(worlds.flatMap((before) => search(before, queue)));
      if (worlds.length > MAX_WORLDS) {
        setting.tooManyWorlds?.();
        worlds = worlds.slice(0, MAX_WORLDS);
      }
      byOrder.set(begun, worlds);
    }
    found.push(...worlds);
  }
  return unlike(found);
}

/** The worlds without those that are like an earlier one. */
function unlike(worlds: readonly World[]): World[] {
  const found = new Map<string, World>();
  for (const world of worlds) if (!found.has(world.likeness)) found.set(world.likeness, world);
  return [...found.values()];
}

/** The error of a task that has not started in time, without the instant. */
export const NOT_STARTED = 'not started';

const MAX_WORLDS = 500;

/**
 * The possible orders of the searches. The order matters if dead tasks of one queue go to another one. Then the background may
 * have searched a queue at two instants, and another one in between: what is due at the first instant may need the opposite order
 * of what is due at the second. Orders with one search of each queue come first, because they are likely.
 */
function orders(world: World, due: readonly string[], at: number): readonly (readonly string[])[] {
  const meet = due.some((queue) =>
    dueTasks(world, queue, at).some((task) => due.includes(targetOf(queue, task, at) ?? '')),
  );
  if (!meet) return [due];
  const once = permutations(due);
  const isDueTwice = new Set(due.filter((queue) => new Set(dueTasks(world, queue, at).map(dueFrom)).size > 1));
  const twice = once.flatMap((order) => {
    const again = order.slice(0, -1).filter((queue) => isDueTwice.has(queue));
    return again.length === 0 ? [] : [[...order, ...again]];
  });
  return [...once, ...twice];
}

/** The earliest instant at which a search may change the task. */
const dueFrom = ({ startBy, hidden }: ModelTask): number =>
  Math.min(startBy?.from ?? Number.POSITIVE_INFINITY, hidden?.until.from ?? Number.POSITIVE_INFINITY);

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((first, i) => permutations(items.toSpliced(i, 1)).map((rest) => [first, ...rest]));
}

/**
 * The queues with due tasks that are among `queues` or whose dead tasks go to them. Dead tasks leave a dead-letter queue before
 * those that go there come.
 */
export function touching(world: World, queues: readonly string[], at: number): string[] {
  const due = world.queueNames.filter((queue) => dueTasks(world, queue, at).length > 0);
  const wanted = new Set(queues);
  // A dead-letter queue may have a dead-letter queue itself. A task moves at most twice in one search.
  for (let depth = 0; depth < 2; depth++) {
    for (const queue of due) {
      if (targetsOf(world, queue, at).some((target) => wanted.has(target))) wanted.add(queue);
    }
  }
  for (let depth = 0; depth < 2; depth++) {
    for (const queue of due)
      if (wanted.has(queue)) for (const target of targetsOf(world, queue, at)) wanted.add(target);
  }
  return due.filter((queue) => wanted.has(queue));
}

/** Where the due dead tasks of a queue go. */
const targetsOf = (world: World, queue: string, at: number): string[] =>
  dueTasks(world, queue, at).flatMap((task) => targetOf(queue, task, at) ?? []);

function sweepsOf(world: World, queue: string, latest: number, setting: Setting): World[] {
  const due = dueTasks(world, queue, latest);
  const found: World[] = [];
  const parked = due.length === 0 ? [] : world.tasks(queue).flatMap(({ parked: until }) => until ?? []);
  for (const cutOff of instantsOf(queue, due, parked, latest, setting)) {
    let worlds = [world];
    for (const task of due) worlds = worlds.flatMap((before) => shown(before, queue, task, cutOff, setting));
    found.push(...worlds.filter((swept) => swept !== world));
  }
  // Two instants are the same if no task becomes due between them.
  return unlike(found);
}

/** The instants at which a search may have happened, latest first: usually one search showed all due tasks. */
function instantsOf(
  queue: string,
  due: readonly ModelTask[],
  parked: readonly Span[],
  latest: number,
  setting: Setting,
): number[] {
  // A parked task may become due when the one before it has ended.
  const instants = new Set(parked.flatMap(({ from, to }) => [Math.min(from, latest), Math.min(to, latest)]));
  for (const task of due) {
    const { hidden, startBy } = task;
    const until = hidden?.until ?? { from: latest, to: latest };
    const again = later(until, backoffMs(queue, task, setting.jitter));
    const spans = startBy === undefined ? [until, again] : [until, again, startBy];
    for (const { from, to } of spans) for (const at of [from, to]) instants.add(Math.min(at, latest));
  }
  return [...instants].sort((a, b) => b - a);
}

/** The worlds after a search at `now` for this task. Two if it is not known whether the task was due. */
function shown(world: World, queue: string, task: ModelTask, now: number, setting: Setting): World[] {
  const inTime = isLate(task, now) ? [] : shownInTime(world, queue, task, now, setting);
  return mayBeLate(task, now) ? [...inTime, endedLate(world, queue, task, now, setting)] : inTime;
}

/** The world without a task that has not started in time. */
function endedLate(world: World, queue: string, task: ModelTask, now: number, setting: Setting): World {
  const target = lateQueueOf(queue, task.retry);
  if (target === undefined || task.startBy === undefined) return withoutCancelled(world, queue, task.pid, now);
  const failures = [`${task.attempts}: ${NOT_STARTED}`];
  const failed = derived(task, NOT_STARTED, () => ({ ...task, startBy: undefined, failures }));
  return buryIn(world.remove(queue, task.pid, false, now), target, queue, failed, task.startBy, setting);
}

function shownInTime(world: World, queue: string, task: ModelTask, now: number, setting: Setting): World[] {
  const { hidden } = task;
  if (!hidden || hidden.until.from > now) return [world];
  const stays = hidden.until.to > now ? [world] : [];
  if (hidden.leasedBy === undefined) return [...stays, world.put(queue, available(task), setting.retentionMs)];
  if (isCancelled(task)) return [...stays, withoutCancelled(world, queue, task.pid, now)];
  return [
    ...stays,
    ...endsOf(queue, task).flatMap((end) =>
      end === EXPIRED && hasSuspects(task)
        ? [interruptedBy(world, queue, task, setting)]
        : failedBy(end, world, queue, task, hidden.until, now, setting),
    ),
  ];
}

/** The worlds after the lease of a task has ended, which `failure` says. */
function failedBy(
  failure: string,
  world: World,
  queue: string,
  task: ModelTask,
  endedAt: Span,
  now: number,
  setting: Setting,
): World[] {
  const failed = derived(task, `ended: ${failure}`, () => ({
    ...withFailure(task, failure),
    suspicion: suspicionAfter(task),
  }));
  if (isLastAttempt(queue, task)) {
    const gone = world.remove(queue, task.pid, false, now);
    return [buryIn(gone, deadLetterQueueOf(queue, task.retry), queue, failed, endedAt, setting)];
  }
  const until = later(endedAt, backoffMs(queue, task, setting.jitter));
  const next = task.rerun ? derived(failed, 'anew', () => ({ ...failed, attempts: 0, isCancelled: false })) : failed;
  const waiting = derived(next, `until ${until.from} to ${until.to}`, () => ({
    ...next,
    hidden: { until, leasedBy: undefined },
  }));
  const after: World[] = [];
  if (until.from <= now) after.push(world.put(queue, available(next), setting.retentionMs));
  if (until.to > now) after.push(world.put(queue, waiting, setting.retentionMs));
  return after;
}

const available = (task: ModelTask): ModelTask => derived(task, 'available', () => ({ ...task, hidden: undefined }));
