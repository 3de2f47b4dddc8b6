import { isDeepStrictEqual } from 'node:util';
import type { CallOf, CountsReply, HistoryEvent, Outcome, ShownTask } from '@taskmaster/cli/testing/history';
import { areEndsOf, withoutCancelled } from './ends.ts';
import { areOfKeys } from './records/keys.ts';
import { haveDeadComing, isCancelled, isOverdue, type Setting, sweeps } from './rules.ts';
import { contains, exactly, isExact, keyLimit, type ModelTask, type Span, type World } from './world.ts';

type Shown = Extract<Outcome, { kind: 'shown' }>;
type Counts = Extract<Outcome, { kind: 'counts' }>;

/** A read of a queue shows all tasks as available that were due when the read began. */
function settled(world: World, queues: readonly string[], event: HistoryEvent, span: Span, setting: Setting): World[] {
  const at = Math.min(event.calledAt, span.from);
  return sweeps(world, queues, span, setting).filter(
    (swept) =>
      !queues.some((queue) => swept.tasks(queue).some((task) => isOverdue(task, at))) &&
      !haveDeadComing(swept, queues, at),
  );
}

export function explainShown(
  world: World,
  event: HistoryEvent<CallOf<'get'> | CallOf<'peek'>>,
  { tasks }: Shown,
  span: Span,
  setting: Setting,
): World[] {
  const { call } = event;
  const isAlone = setting.besides(event).length === 0;
  return settled(world, [call.queue], event, span, setting).flatMap((swept) => {
    if (call.kind === 'peek' && !isPeekOf(swept, call, tasks, isAlone && !setting.tinyCache)) return [];
    if (call.kind === 'get' && !areOfKeys(swept, call.queue, call.keys ?? [], tasks.slice(call.pids.length))) return [];
    let next: World | undefined = swept.at(span.from, swept.epoch);
    for (const shown of tasks) next = next && learn(next, call.queue, shown, isAlone, setting);
    return next ? [next] : [];
  });
}

/** True if the reply is a sample of the right tasks in the right order. It must be complete if no other call was in progress. */
function isPeekOf(
  world: World,
  { queue, what, limit }: CallOf<'peek'>,
  tasks: readonly ShownTask[],
  isComplete: boolean,
): boolean {
  // A sample of delayed tasks has none that wait for others.
  const wanted = world
    .tasks(queue)
    .filter((task) => task.parked === undefined && kindOf(task) === (what === 'head' ? 'available' : what));
  if (isComplete && tasks.length !== Math.min(limit, wanted.length)) return false;
  if (isComplete && what === 'head') return tasks.every(({ pid }, index) => wanted[index]?.pid === pid);
  const order = (a: ShownTask, b: ShownTask): boolean =>
    what === 'head' ? a.pid < b.pid : (a.state?.until ?? 0) <= (b.state?.until ?? 0);
  return tasks.every((task, index) => {
    const before = tasks[index - 1];
    return (before === undefined || order(before, task)) && wanted.some(({ pid }) => pid === task.pid);
  });
}

const kindOf = ({ hidden }: ModelTask): 'available' | 'leased' | 'delayed' =>
  hidden === undefined ? 'available' : hidden.leasedBy === undefined ? 'delayed' : 'leased';

/** The world if the task is as the reply shows, with the instants that the reply tells. Undefined: it is not. */
function learn(world: World, queue: string, shown: ShownTask, isAlone: boolean, setting: Setting): World | undefined {
  const task = world.task(queue, shown.pid);
  const { state } = shown;
  if (!task || !state) return !task && !state ? world : undefined;
  const { hidden } = task;
  const isSame =
    state.kind === kindOf(task) &&
    state.attempts === task.attempts &&
    (typeof task.token === 'string' || state.token === task.token) &&
    contains(task.enqueuedAt, state.enqueuedAt) &&
    isDeepStrictEqual(state.failures, task.failures) &&
    state.origin === task.origin?.queue &&
    state.progress === task.progress &&
    state.isCancelled === task.isCancelled &&
    state.interruptions === task.interruptions &&
    state.timeLimitMs === task.timeLimitMs &&
    isStart(state.startBy, task.startBy) &&
    (hidden === undefined || (state.until !== undefined && contains(hidden.until, state.until)));
  // If the task changes meanwhile, its payload may be the later one or missing.
  if (!isSame || (isAlone && shown.data !== task.data)) return undefined;
  const isKnown = isExact(task.enqueuedAt) && (hidden === undefined || isExact(hidden.until));
  if (isKnown) return world;
  const until = hidden && { ...hidden, until: exactly(state.until ?? 0) };
  const startBy = state.startBy === undefined ? undefined : exactly(state.startBy);
  const known = { ...task, enqueuedAt: exactly(state.enqueuedAt), startBy, hidden: until };
  return world.put(queue, known, setting.retentionMs);
}

const isStart = (told: number | undefined, startBy: Span | undefined): boolean =>
  told === undefined || startBy === undefined ? told === startBy : contains(startBy, told);

export function explainEnds(
  world: World,
  event: HistoryEvent<CallOf<'ends'>>,
  outcome: Extract<Outcome, { kind: 'ended' }>,
  span: Span,
  setting: Setting,
): World[] {
  return settled(world, [event.call.queue], event, span, setting)
    .filter((swept) => areEndsOf(swept, event.call, outcome, span))
    .map((swept) => swept.at(span.from, swept.epoch));
}

export function explainCounts(
  world: World,
  event: HistoryEvent<CallOf<'stats'> | CallOf<'list'>>,
  { queues: counts }: Counts,
  span: Span,
  setting: Setting,
): World[] {
  const { call } = event;
  const names = call.kind === 'stats' ? call.queues : world.queueNames;
  return settled(world, names, event, span, setting)
    .filter((swept) => {
      const expected = call.kind === 'stats' ? call.queues : namesWithTasks(swept);
      return (
        expected.length === counts.length && expected.every((name, i) => isCountOf(swept, name, counts[i], setting))
      );
    })
    .map((swept) => swept.at(span.from, swept.epoch));
}

const namesWithTasks = (world: World): string[] => {
  const names = world.queueNames.filter((name) => world.queue(name).tasks.size > 0);
  const parts = (name: string): [string, string] => {
    const at = name.indexOf('#');
    return at < 0 ? ['', name] : [name.slice(0, at), name.slice(at + 1)];
  };
  // By group, then by name.
  return names.sort((a, b) => {
    const [[groupA, nameA], [groupB, nameB]] = [parts(a), parts(b)];
    return groupA === groupB ? (nameA < nameB ? -1 : 1) : groupA < groupB ? -1 : 1;
  });
};

function isCountOf(world: World, name: string, counts: CountsReply | undefined, setting: Setting): boolean {
  const { tasks, completed } = world.queue(name);
  const of = { available: 0, leased: 0, delayed: 0 };
  for (const task of tasks.values()) of[kindOf(task)]++;
  const forgotten = world.mayBeForgotten(name, setting.retentionMs);
  return (
    counts?.queue === name &&
    counts.available === of.available &&
    counts.leased === of.leased &&
    counts.delayed === of.delayed &&
    (completed === undefined || counts.completed === completed || (forgotten && counts.completed === 0))
  );
}

export function explainDelete(
  world: World,
  { call, outcome }: HistoryEvent<CallOf<'delete'>>,
  span: Span,
  setting: Setting,
): World[] {
  return sweeps(world, [call.queue], span, setting)
    .filter((swept) => outcome.kind === 'unknown' || sizeOf(swept, call.queue) === tasksOf(outcome))
    .map((swept) => swept.at(span.from, swept.epoch).deleteQueue(call.queue));
}

/** A resume tells whether exactly these queues were paused. */
export function explainPause(world: World, { call, outcome }: HistoryEvent<CallOf<'pause'>>, span: Span): World[] {
  const { queues, isResume } = call;
  const wasPaused = world.paused.has(queues);
  if (isResume && outcome.kind === 'number' && tasksOf(outcome) !== (wasPaused ? 1 : 0)) return [];
  return [world.at(span.from, world.epoch).withPause(queues, !isResume)];
}

/** The end of a limit tells whether there was one. */
export function explainLimit(world: World, { call, outcome }: HistoryEvent<CallOf<'limit'>>, span: Span): World[] {
  const { queues, keys, maxLeased } = call;
  const limit = keys === undefined ? queues : keyLimit(queues);
  const isEnd = maxLeased === 0 && outcome.kind === 'number';
  if (isEnd && tasksOf(outcome) !== (world.hasLimit(limit) ? 1 : 0)) return [];
  return [world.at(span.from, world.epoch).withLimit(limit, maxLeased)];
}

const sizeOf = (world: World, queue: string): number => world.queue(queue).tasks.size;
const tasksOf = (outcome: Outcome): number => (outcome.kind === 'number' ? outcome.tasks : 0);

/**
 * A reset ends the leases of a queue a few at a time. At its end every lease from before the call has ended. Leases that were
 * granted meanwhile may have ended. If it is refused, any of them may have ended.
 */
export function explainReset(
  world: World,
  event: HistoryEvent<CallOf<'reset'>>,
  span: Span,
  setting: Setting,
): { world: World; done: boolean }[] {
  const { call, id, outcome } = event;
  const sofar = Number(world.progress(id) ?? 0);
  const found: { world: World; done: boolean }[] = [];
  const besides = new Set(setting.besides(event).map((other) => other.id));
  for (const swept of sweeps(world, [call.queue], span, setting)) {
    // Leases that have expired are not reset.
    const leased = swept
      .tasks(call.queue)
      .filter((task) => task.hidden?.leasedBy !== undefined && !isOverdue(task, span.from));
    for (const chosen of subsets(leased)) {
      let next = swept.at(span.from, swept.epoch);
      for (const task of chosen) {
        const attempts = task.rerun ? 0 : task.attempts;
        const reset = { ...task, attempts, token: `reset by #${id}`, hidden: undefined, isCancelled: false };
        next = isCancelled(task)
          ? withoutCancelled(next, call.queue, task.pid)
          : next.put(call.queue, reset, setting.retentionMs);
      }
      const left = leased.filter((task) => !chosen.includes(task));
      const over = left.every(
        ({ hidden }) => besides.has(hidden?.leasedBy ?? -1) || (hidden && hidden.until.from <= span.to),
      );
      const isAll =
        outcome.kind === 'refused' || (outcome.kind === 'number' && sofar + chosen.length === outcome.tasks && over);
      if (isAll) found.push({ world: next.withProgress(id, undefined), done: true });
      if (chosen.length > 0) found.push({ world: next.withProgress(id, `${sofar + chosen.length}`), done: false });
    }
  }
  return found.sort((a, b) => Number(b.done) - Number(a.done));
}

/** All subsets, the largest first. */
function subsets<T>(items: readonly T[]): T[][] {
  let all: T[][] = [[]];
  for (const item of items) all = all.flatMap((some) => [[...some, item], some]);
  return all;
}
