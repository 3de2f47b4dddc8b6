import type { DequeueCall, EnqueueCall, HistoryEvent, LeaseCall, LeasedReply } from '@taskmaster/cli/testing/history';
import { parseQueueName } from '@taskmaster/proto';
import { withoutCancelled } from './ends.ts';
import { deadLetterQueueOf } from './records/settings.ts';
import {
  accepts,
  haveDeadComing,
  isCancelled,
  isLastAttempt,
  isLate,
  isOverdue,
  leaseMs,
  mayBeLate,
  type Setting,
  sweeps,
  timeLimitOf,
} from './rules.ts';
import { contains, exactly, later, type ModelTask, type Span, type World } from './world.ts';

interface Picked {
  readonly queue: string;
  readonly task: ModelTask;
}

/** Bytes of a leased task that count towards `maxBytes`, beside its texts. */
const REST_BYTES = 64;
/** Bytes of a text that most tasks do not have, beside the text. */
const TEXT_BYTES = 4;
/** A waiting request may get a task this long after it became available by itself. The contract allows a second. */
const EXPIRY_SLACK_MS = 50;
/** Additional time for dead letters and for free slots from a queue that no request looks at. */
const OTHERS_SLACK_MS = 1000;

/** The queues of a call that are not paused. */
const offering = (world: World, call: LeaseCall): string[] =>
  [...new Set(call.queues)].filter((queue) => !world.isPaused(queue));

/**
 * The first tasks of the queues, in the order in which the call names them, as far as limits allow. A search may not have found
 * yet that it is too late for a task. Two choices if it is not known whether it is too late.
 */
function choices(world: World, call: LeaseCall, span: Span): readonly Picked[][] {
  const first = firstTasks(world, call, (task) => isLate(task, span.from));
  const isSure = first.every(({ task }) => task.startBy === undefined || task.startBy.from > span.to);
  return isSure ? [first] : [first, firstTasks(world, call, (task) => mayBeLate(task, span.to))];
}

function firstTasks(world: World, call: LeaseCall, isTooLate: (task: ModelTask) => boolean): Picked[] {
  const picked: Picked[] = [];
  const taken = new Map<string, number>();
  let bytes = 0;
  for (const queue of offering(world, call)) {
    const limits = world.limitsOf(queue);
    const keyLimits = world.keyLimitsOf(queue);
    for (const task of world.available(queue)) {
      const { limitKey } = task;
      const ofKey = (limit: string): string => `${limit} ${limitKey}`;
      if (isTooLate(task) || !accepts(call, task)) continue;
      if (picked.length === call.maxTasks) return picked;
      if (limits.some((limit) => world.room(limit) <= (taken.get(limit) ?? 0))) break;
      // No other task waits behind one whose key is used up.
      const counting = limitKey === undefined ? [] : keyLimits;
      if (counting.some((limit) => world.room(limit, limitKey) <= (taken.get(ofKey(limit)) ?? 0))) continue;
      bytes += leasedBytes(task);
      if (bytes > call.maxBytes && picked.length > 0) return picked;
      picked.push({ queue, task });
      for (const limit of [...limits, ...counting.map(ofKey)]) taken.set(limit, (taken.get(limit) ?? 0) + 1);
    }
  }
  return picked;
}

/**
 * Bytes of the task in the reply to a lease. All texts of the model have one byte a character. Reported progress comes twice,
 * because the callers leave it as the checkpoint, too.
 */
function leasedBytes({ data, pid, key = '', progress = '', kind, limitKey, orderKey }: ModelTask): number {
  const texts = [kind, limitKey, orderKey].map((text) => (text === undefined ? 0 : text.length + TEXT_BYTES));
  const always = REST_BYTES + data.length + pid.length + key.length + 2 * progress.length;
  return texts.reduce((sum, bytes) => sum + bytes, always);
}

export function explainLease(
  world: World,
  event: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): readonly World[] {
  const { outcome } = event;
  if (outcome.kind !== 'leased') {
    return unreportedGrants(world, event, span, setting).map(({ after }) => after);
  }
  if (outcome.tasks.length > 0) return explainTasks(world, event, outcome.tasks, span, setting);
  if (outcome.dismissed) {
    return [
      ...sweeps(world, world.withSharing(event.call.queues), span, setting),
      ...explainAllGone(world, event, span, setting),
    ];
  }
  return [...explainNothing(world, event, span, setting), ...explainAllGone(world, event, span, setting)];
}

/** The call leased tasks, but all of them were taken away before the reply was sent. */
function explainAllGone(world: World, event: HistoryEvent<LeaseCall>, span: Span, setting: Setting): World[] {
  return unreportedGrants(world, event, span, setting)
    .filter(({ picked }) => picked.length > 0)
    .filter(({ picked }) => picked.every(({ queue, task }) => mayHaveGone(world, event, queue, task.pid, setting)))
    .map(({ after }) => after);
}

/** No task was available at the time of the call or, if the request waited, until the end of the wait. */
function explainNothing(
  world: World,
  { call, endedAt }: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): World[] {
  const waited = call.waitMs > 0;
  const queues = world.withSharing(call.queues);
  // A wait that ends before a slow disk has answered says nothing about the queues.
  if (waited && call.waitMs <= setting.slackMs) return sweeps(world, queues, span, setting);
  const from = waited ? Math.max(span.from, endedAt - setting.slackMs) : span.from;
  const overdueAt = waited ? endedAt - setting.slackMs - EXPIRY_SLACK_MS : span.from;
  const longOverdueAt = waited ? overdueAt - OTHERS_SLACK_MS : overdueAt;
  return sweeps(world, queues, { from, to: span.to }, setting)
    .filter((swept) => choices(swept, call, { from, to: span.to }).some((choice) => choice.length === 0))
    .filter((swept) => !offering(swept, call).some((queue) => hasOverdue(swept, queue, overdueAt, call)))
    .filter((swept) => !haveDeadComing(swept, offering(swept, call), longOverdueAt, call))
    .filter((swept) => !hasSlotsToCome(swept, call, longOverdueAt))
    .map((swept) => swept.at(from, swept.epoch));
}

/** Whether leases that must be over hold back tasks of limited queues. */
const hasSlotsToCome = (world: World, call: LeaseCall, at: number): boolean =>
  offering(world, call)
    .filter((queue) => world.available(queue).some((task) => accepts(call, task)))
    .flatMap((queue) => world.withSharing([queue]))
    .some((queue) => world.tasks(queue).some((task) => task.hidden?.leasedBy !== undefined && isOverdue(task, at)));

const hasOverdue = (world: World, queue: string, at: number, call: LeaseCall): boolean =>
  world.tasks(queue).some((task) => accepts(call, task) && isOverdue(task, at));

function explainTasks(
  world: World,
  event: HistoryEvent<LeaseCall>,
  tasks: readonly LeasedReply[],
  span: Span,
  setting: Setting,
): World[] {
  const { call } = event;
  const at = (tasks[0]?.until ?? 0) - leaseMs(call.leaseDurationMs, tasks[0]?.timeLimitMs ?? 0);
  if (!contains(span, at)) return [];
  const worlds: World[] = [];
  for (const swept of sweeps(world, world.withSharing(call.queues), exactly(at), setting)) {
    const now = swept.at(at, swept.epoch);
    for (const first of choices(swept, call, exactly(at))) worlds.push(...grant(now, event, tasks, first, setting));
  }
  return worlds;
}

function grant(
  world: World,
  event: HistoryEvent<LeaseCall>,
  tasks: readonly LeasedReply[],
  first: readonly Picked[],
  setting: Setting,
): World[] {
  const worlds: World[] = [];
  let next = world;
  const told = [...tasks];
  for (const [index, { queue, task }] of first.entries()) {
    const reply = told[0];
    // The reply may have fewer tasks than asked for: if the cache is too small for the request …
    if (!reply && setting.tinyCache && event.call.queues.length > 1) worlds.push(next);
    if (reply && reply.queue === queue && reply.pid === task.pid) {
      told.shift();
      if (!isLeaseOf(reply, task) && !isLeaseOf(reply, replacedMeanwhile(event, reply, task, setting))) return [];
      next = lease(next, queue, task, reply.token, exactly(world.time), event, setting, index);
      if ((next.task(queue, task.pid)?.hidden?.suspects ?? 0) > 0 !== (reply.unbegun !== undefined)) return [];
      if (!contains(next.task(queue, task.pid)?.hidden?.until ?? exactly(0), reply.until)) return [];
      continue;
    }
    // … or if a task was taken away before the reply was sent.
    if (!mayHaveGone(world, event, queue, task.pid, setting)) return worlds;
    next = lease(next, queue, task, `of #${event.id}`, exactly(world.time), event, setting, index);
  }
  if (told.length === 0) worlds.push(next);
  return worlds;
}

function isLeaseOf(reply: LeasedReply, task: ModelTask): boolean {
  const grew = typeof task.token === 'string' || reply.token > task.token;
  const limitMs = timeLimitOf(reply.queue, task);
  if (reply.unbegun !== undefined && reply.unbegun !== task.suspicion) return false;
  const same = reply.data === task.data && reply.attempt === task.attempts + 1 && reply.timeLimitMs === limitMs;
  return grew && same && contains(task.enqueuedAt, reply.enqueuedAt);
}

const replaces = ({ mode }: EnqueueCall): boolean => mode !== 'collapse' && mode !== 'fail';

/** Whether the enqueue is one of this task, which a key may name. */
const isOf = ({ pid, key }: EnqueueCall, task: ModelTask): boolean =>
  pid === task.pid || (key !== undefined && key === task.key);

/** The payload is read after the lease is granted, so it may be the payload of a later replacement. */
function replacedMeanwhile(event: HistoryEvent, reply: LeasedReply, task: ModelTask, setting: Setting): ModelTask {
  const isReplaced = setting.besides(event).some(({ call }) => {
    if (call.kind !== 'update') return false;
    const { queue, data } = reply;
    return call.enqueue.some(
      (item) => replaces(item) && item.queue === queue && isOf(item, task) && item.data === data,
    );
  });
  return isReplaced ? { ...task, data: reply.data } : task;
}

function lease(
  world: World,
  queue: string,
  task: ModelTask,
  token: number | string,
  since: Span,
  { id: leasedBy, call }: HistoryEvent<LeaseCall>,
  setting: Setting,
  index: number,
): World {
  const { starts } = call;
  const suspects = starts === undefined || index < starts.now ? 0 : starts.together;
  const limitMs = timeLimitOf(queue, task);
  const until = later(since, leaseMs(call.leaseDurationMs, limitMs));
  const hidden = { until, since, isFull: limitMs > 0 && call.leaseDurationMs >= limitMs, leasedBy, suspects };
  const leased = { ...task, token, attempts: task.attempts + 1, hidden, rerun: false, startBy: undefined };
  return world.put(queue, leased, setting.retentionMs);
}

function mayHaveGone(world: World, event: HistoryEvent, queue: string, pid: string, setting: Setting): boolean {
  const others = setting.besides(event);
  // Any call for a queue moves its dead tasks. They replace tasks in the dead-letter queue.
  const mayDie = (task: ModelTask, from: string): boolean =>
    isLastAttempt(from, task) && deadLetterQueueOf(from, task.retry) === queue;
  const sources = world.queueNames.map((from) => ({ from, task: world.task(from, pid) }));
  if (others.length > 0 && sources.some(({ from, task }) => task && mayDie(task, from))) return true;
  const key = world.task(queue, pid)?.key;
  // A dequeue may name the task by its key.
  const isIt = (item: Pick<DequeueCall, 'queue' | 'pid' | 'key'>): boolean =>
    item.queue === queue && (item.key === undefined ? item.pid === pid : item.key === key);
  return others.some(({ call }) => {
    if (call.kind === 'delete' || call.kind === 'reset') return call.queue === queue;
    if (call.kind !== 'update') return false;
    // A release without a token ends whatever lease the task has.
    return call.dequeue.some(isIt) || call.release.some((item) => item.token === undefined && isIt(item));
  });
}

/** Leases that no caller knows: the reply was lost, or the caller has disconnected. */
function unreportedGrants(
  world: World,
  event: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): { after: World; picked: readonly Picked[] }[] {
  const { call } = event;
  const found: { after: World; picked: readonly Picked[] }[] = [];
  for (const swept of sweeps(world, world.withSharing(call.queues), span, setting)) {
    for (const first of choices(swept, call, span)) {
      const shortest = setting.tinyCache && call.queues.length > 1 ? 1 : first.length;
      for (let length = first.length; length >= Math.max(1, shortest); length--) {
        for (const picked of parts(first.slice(0, length), event)) {
          let after = swept.at(span.from, swept.epoch);
          for (const one of picked) {
            const { queue, task } = one;
            after = lease(after, queue, task, `of #${event.id}`, span, event, setting, first.indexOf(one));
          }
          found.push({ after, picked });
        }
      }
    }
  }
  return found;
}

/**
 * The parts of a lease that may be on disk after a crash. The tasks of each group are leased by a change of their own, and the
 * crash may come between them.
 */
function parts(picked: readonly Picked[], { outcome }: HistoryEvent): (readonly Picked[])[] {
  const byGroup = Map.groupBy(picked, ({ queue }) => parseQueueName(queue).group);
  return outcome.kind !== 'unknown' || byGroup.size < 2 ? [picked] : [picked, ...byGroup.values()];
}

/**
 * A lease whose caller has disconnected. It got no task, or its tasks were released as if they had not been leased. `done` is
 * false between the grant and the release; a crash may happen then.
 */
export function explainCancelled(
  world: World,
  event: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): { world: World; done: boolean }[] {
  const owed = world.progress(event.id);
  if (owed === undefined) {
    const given = unreportedGrants(world, event, span, setting).map(({ after, picked }) => {
      const tasks = picked.map(({ queue, task }) => [queue, task.pid]);
      return { world: after.withProgress(event.id, JSON.stringify(tasks)), done: false };
    });
    return event.outcome.kind === 'unknown' ? given : [{ world, done: true }, ...given];
  }
  // Without space on the disk the tasks cannot be released; the leases expire.
  const kept = setting.mayBeFull ? [{ world: world.withProgress(event.id, undefined), done: true }] : [];
  // A waiting request may have shown due tasks before.
  const given = sweeps(world, world.withSharing(event.call.queues), span, setting).map((swept) => {
    let next = swept.at(span.from, swept.epoch).withProgress(event.id, undefined);
    for (const [queue = '', pid = ''] of JSON.parse(owed) as string[][]) {
      const task = next.task(queue, pid);
      if (task?.token !== `of #${event.id}` || task.hidden?.leasedBy !== event.id) continue;
      // The lease has expired: the attempt counts.
      if (isOverdue(task, span.from)) continue;
      const back = { ...task, attempts: task.attempts - 1, hidden: undefined, isCancelled: false };
      next = isCancelled(task) ? withoutCancelled(next, queue, pid) : next.put(queue, back, setting.retentionMs);
    }
    return { world: next, done: true };
  });
  return [...given, ...kept];
}
