import type { HistoryEvent, LeaseCall, LeasedReply } from '../support/history.ts';
import { deadLetterQueueOf, haveDeadComing, isLastAttempt, isOverdue, type Setting, sweeps } from './rules.ts';
import { contains, exactly, later, type ModelTask, type Span, type World } from './world.ts';

interface Picked {
  readonly queue: string;
  readonly task: ModelTask;
}

/** What a leased task counts towards `maxBytes` beside its payload and PID. */
const REST_BYTES = 64;
/** How late somebody who waits may hear of what has become available by itself. The contract allows a second. */
const EXPIRY_SLACK_MS = 50;
/** How much later, of tasks that came from a queue which nobody wants. */
const DEAD_SLACK_MS = 1000;

/** The first tasks of the queues, in the order in which the call names them. */
function firstTasks(world: World, call: LeaseCall): Picked[] {
  const picked: Picked[] = [];
  let bytes = 0;
  for (const queue of new Set(call.queues)) {
    for (const task of world.available(queue)) {
      if (picked.length === call.maxTasks) return picked;
      if (call.maxPid !== undefined && task.pid > call.maxPid) break;
      bytes += task.data.length + task.pid.length + REST_BYTES;
      if (bytes > call.maxBytes && picked.length > 0) return picked;
      picked.push({ queue, task });
    }
  }
  return picked;
}

export function explainLease(
  world: World,
  event: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): readonly World[] {
  const { outcome } = event;
  if (outcome.kind !== 'leased') {
    return grantsToNobody(world, event, span, setting).map(({ after }) => after);
  }
  if (outcome.tasks.length > 0) return explainTasks(world, event, outcome.tasks, span, setting);
  if (outcome.dismissed) {
    return [...sweeps(world, event.call.queues, span, setting), ...explainAllGone(world, event, span, setting)];
  }
  return [...explainNothing(world, event, span, setting), ...explainAllGone(world, event, span, setting)];
}

/** All that it leased was taken away again before the reply left. */
function explainAllGone(world: World, event: HistoryEvent<LeaseCall>, span: Span, setting: Setting): World[] {
  return grantsToNobody(world, event, span, setting)
    .filter(({ picked }) => picked.length > 0)
    .filter(({ picked }) => picked.every(({ queue, task }) => mayHaveGone(world, event, queue, task.pid, setting)))
    .map(({ after }) => after);
}

/** Nothing was there: when it was asked, or, for one who waited, until the end of the wait. */
function explainNothing(
  world: World,
  { call, endedAt }: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): World[] {
  const waited = call.waitMs > 0;
  // A wait that is over before a slow disk has answered says nothing.
  if (waited && call.waitMs <= setting.slackMs) return sweeps(world, call.queues, span, setting);
  const from = waited ? Math.max(span.from, endedAt - setting.slackMs) : span.from;
  const overdueAt = waited ? endedAt - setting.slackMs - EXPIRY_SLACK_MS : span.from;
  return sweeps(world, call.queues, { from, to: span.to }, setting)
    .filter((swept) => firstTasks(swept, call).length === 0)
    .filter((swept) => !call.queues.some((queue) => hasOverdue(swept, queue, overdueAt, call.maxPid)))
    .filter((swept) => !haveDeadComing(swept, call.queues, waited ? overdueAt - DEAD_SLACK_MS : overdueAt, call.maxPid))
    .map((swept) => swept.at(from, swept.epoch));
}

const hasOverdue = (world: World, queue: string, at: number, maxPid: string | undefined): boolean =>
  world.tasks(queue).some((task) => (maxPid === undefined || task.pid <= maxPid) && isOverdue(task, at));

function explainTasks(
  world: World,
  event: HistoryEvent<LeaseCall>,
  tasks: readonly LeasedReply[],
  span: Span,
  setting: Setting,
): World[] {
  const { call } = event;
  const at = (tasks[0]?.until ?? 0) - call.leaseMs;
  if (!contains(span, at)) return [];
  const worlds: World[] = [];
  for (const swept of sweeps(world, call.queues, exactly(at), setting)) {
    const after = grant(swept.at(at, swept.epoch), event, tasks, firstTasks(swept, call), setting);
    if (after) worlds.push(after);
  }
  return worlds;
}

function grant(
  world: World,
  event: HistoryEvent<LeaseCall>,
  tasks: readonly LeasedReply[],
  first: readonly Picked[],
  setting: Setting,
): World | undefined {
  let next = world;
  const told = [...tasks];
  for (const { queue, task } of first) {
    const reply = told[0];
    if (!reply) {
      // The reply ends before the top k do: only where the cache cannot hold what was asked for …
      if (setting.tinyCache && event.call.queues.length > 1) break;
    }
    if (reply && reply.queue === queue && reply.pid === task.pid) {
      told.shift();
      if (!isLeaseOf(reply, task) && !isLeaseOf(reply, replacedMeanwhile(event, reply, task, setting)))
        return undefined;
      next = lease(next, queue, task, reply.token, exactly(reply.until), event.id, setting);
      continue;
    }
    // … or where it was taken away again before the reply left.
    if (!mayHaveGone(world, event, queue, task.pid, setting)) return undefined;
    next = lease(
      next,
      queue,
      task,
      `of #${event.id}`,
      later(exactly(world.time), event.call.leaseMs),
      event.id,
      setting,
    );
  }
  return told.length === 0 ? next : undefined;
}

function isLeaseOf(reply: LeasedReply, task: ModelTask): boolean {
  const grew = typeof task.token === 'string' || reply.token > task.token;
  const same = reply.data === task.data && reply.attempt === task.attempts + 1;
  return grew && same && contains(task.enqueuedAt, reply.enqueuedAt);
}

/** The payload is read when the lease is granted already: it may be the one that somebody put in its place meanwhile. */
function replacedMeanwhile(event: HistoryEvent, reply: LeasedReply, task: ModelTask, setting: Setting): ModelTask {
  const isReplaced = setting.besides(event).some(({ call }) => {
    if (call.kind !== 'update') return false;
    const { queue, pid, data } = reply;
    return call.enqueue.some(
      (item) => item.mode === 'replace' && item.queue === queue && item.pid === pid && item.data === data,
    );
  });
  return isReplaced ? { ...task, data: reply.data } : task;
}

function lease(
  world: World,
  queue: string,
  task: ModelTask,
  token: number | string,
  until: Span,
  leasedBy: number,
  setting: Setting,
): World {
  const leased = { ...task, token, attempts: task.attempts + 1, hidden: { until, leasedBy } };
  return world.put(queue, leased, setting.lingerMs);
}

function mayHaveGone(world: World, event: HistoryEvent, queue: string, pid: string, setting: Setting): boolean {
  const others = setting.besides(event);
  // Whoever looks at a queue moves the dead of it, in place of what is where they go.
  const mayDie = (task: ModelTask, from: string): boolean =>
    isLastAttempt(task) && deadLetterQueueOf(from, task.retry) === queue;
  const sources = world.queueNames.map((from) => ({ from, task: world.task(from, pid) }));
  if (others.length > 0 && sources.some(({ from, task }) => task && mayDie(task, from))) return true;
  return others.some(({ call }) => {
    if (call.kind === 'delete' || call.kind === 'reset') return call.queue === queue;
    return call.kind === 'update' && call.dequeue.some((item) => item.queue === queue && item.pid === pid);
  });
}

/** Leases that nobody was told of: the reply was lost, or the caller hung up. */
function grantsToNobody(
  world: World,
  event: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): { after: World; picked: readonly Picked[] }[] {
  const { call } = event;
  const found: { after: World; picked: readonly Picked[] }[] = [];
  for (const swept of sweeps(world, call.queues, span, setting)) {
    const first = firstTasks(swept, call);
    const shortest = setting.tinyCache && call.queues.length > 1 ? 1 : first.length;
    for (let length = first.length; length >= Math.max(1, shortest); length--) {
      const picked = first.slice(0, length);
      let after = swept.at(span.from, swept.epoch);
      for (const { queue, task } of picked) {
        after = lease(after, queue, task, `of #${event.id}`, later(span, call.leaseMs), event.id, setting);
      }
      found.push({ after, picked });
    }
  }
  return found;
}

/**
 * A lease whose caller hung up: it got nothing, or what it got was given back, as if it had never been leased. `done` is
 * false between the two; a crash may come then.
 */
export function explainCancelled(
  world: World,
  event: HistoryEvent<LeaseCall>,
  span: Span,
  setting: Setting,
): { world: World; done: boolean }[] {
  const owed = world.progress(event.id);
  if (owed === undefined) {
    const given = grantsToNobody(world, event, span, setting).map(({ after, picked }) => {
      const tasks = picked.map(({ queue, task }) => [queue, task.pid]);
      return { world: after.withProgress(event.id, JSON.stringify(tasks)), done: false };
    });
    return event.outcome.kind === 'unknown' ? given : [{ world, done: true }, ...given];
  }
  // Without space nothing can be given back, and the leases end by themselves.
  const kept = setting.mayBeFull ? [{ world: world.withProgress(event.id, undefined), done: true }] : [];
  // Somebody who waits may have shown what was due before it came to that.
  const given = sweeps(world, event.call.queues, span, setting).map((swept) => {
    let next = swept.at(span.from, swept.epoch).withProgress(event.id, undefined);
    for (const [queue = '', pid = ''] of JSON.parse(owed) as string[][]) {
      const task = next.task(queue, pid);
      if (task?.token !== `of #${event.id}` || task.hidden?.leasedBy !== event.id) continue;
      // Too late: the attempt counts.
      if (isOverdue(task, span.from)) continue;
      next = next.put(queue, { ...task, attempts: task.attempts - 1, hidden: undefined }, setting.lingerMs);
    }
    return { world: next, done: true };
  });
  return [...given, ...kept];
}
