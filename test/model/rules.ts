import type { HistoryEvent, Outcome, RetryCall } from '../support/history.ts';
import { later, type ModelTask, type Span, type World } from './world.ts';

/** What the model must be told of a run beside its history. */
export interface Setting {
  /** What the engine's randomness always says, so that backoffs can be foretold. */
  readonly jitter: number;
  readonly lingerMs: number;
  readonly requestWindowMs: number;
  /** A cache too small for a request over several queues: it may get fewer tasks than there are. */
  readonly tinyCache: boolean;
  /** The disk had no space for a while. */
  readonly mayBeFull: boolean;
  /** What the disk may take to answer a request that has to go there several times, in ms. */
  readonly slackMs: number;
  /** The PID that a task without one must have got behind this one, as other replies tell. */
  readonly pidBehind: (data: string, largest: string) => string | undefined;
  /** What another call with the same request id was told. */
  readonly toldFor: (requestId: string) => Extract<Outcome, { kind: 'updated' }> | undefined;
  /** When the task that came with this payload was enqueued, as other replies tell. */
  readonly enqueuedAt: (data: string) => number | undefined;
  /** Calls under way at the same time. */
  readonly besides: (event: HistoryEvent) => readonly HistoryEvent[];
  /** How often the clock may have gone back before this point of the history. */
  readonly epochAt: (seq: number) => number;
  /** When the clock was last read before it may have gone back to begin this epoch. */
  readonly endBefore: (epoch: number) => number;
}

/** When an event took effect, where replies tell. */
export function instantOf({ call, outcome }: HistoryEvent, setting: Setting): number | undefined {
  if (call.kind === 'lease' && outcome.kind === 'leased') {
    const [first] = outcome.tasks;
    return first && first.until - call.leaseMs;
  }
  if (call.kind !== 'update' || outcome.kind === 'refused') return undefined;
  const [renewal] = call.renew;
  const [renewed] = outcome.kind === 'updated' ? outcome.renewed : [];
  if (renewal && renewed) return renewed.until - renewal.leaseMs;
  for (const [index, { data }] of call.enqueue.entries()) {
    const isNew = outcome.kind !== 'updated' || outcome.enqueued[index]?.result === 'created';
    const at = setting.enqueuedAt(data);
    if (isNew && at !== undefined) return at;
  }
  return undefined;
}

const groupOf = (queue: string): string => (queue.includes('#') ? queue.slice(0, queue.indexOf('#')) : '');
const fullName = (group: string, name: string): string => (group === '' ? name : `${group}#${name}`);

export function deadLetterQueueOf(queue: string, retry: RetryCall | undefined): string {
  return retry?.deadLetterQueue ? fullName(groupOf(queue), retry.deadLetterQueue) : `${queue}.dead`;
}

export const isLastAttempt = ({ attempts, retry }: ModelTask): boolean =>
  retry !== undefined && retry.maxAttempts > 0 && attempts >= retry.maxAttempts;

/** Doubles with every attempt, up to its bound, with full jitter. */
export function backoffMs({ attempts, retry }: ModelTask, jitter: number): number {
  if (!retry || retry.backoffInitialMs === 0) return 0;
  return Math.ceil(jitter * Math.min(retry.backoffMaxMs, retry.backoffInitialMs * 2 ** Math.max(0, attempts - 1)));
}

/** A task after its last attempt: in its dead-letter queue, in place of one of the same PID. */
export function buryIn(world: World, target: string, task: ModelTask, setting: Setting): World {
  return world.put(target, { ...task, token: 0, retry: undefined, hidden: undefined }, setting.lingerMs);
}

/** Tasks that may show by `at`, though nobody has looked yet. */
const dueTasks = (world: World, queue: string, at: number): ModelTask[] =>
  world.tasks(queue).filter(({ hidden }) => hidden !== undefined && hidden.until.from <= at);

/** Whether a task whose last attempt must be over by `at` goes to one of these queues. */
export function haveDeadComing(world: World, queues: readonly string[], at: number, maxPid?: string): boolean {
  return world.queueNames.some((from) =>
    world.tasks(from).some((task) => {
      const isWanted = maxPid === undefined || task.pid <= maxPid;
      return isWanted && isDead(task, at) && queues.includes(deadLetterQueueOf(from, task.retry));
    }),
  );
}

/** Whether the task's last attempt must be over by `at`: it belongs to its dead-letter queue, whoever has looked. */
export const isDead = (task: ModelTask, at: number): boolean =>
  task.hidden?.leasedBy !== undefined && isLastAttempt(task) && isOverdue(task, at);

/** Whether a task must have shown by `at`, so that whoever looks sees it available. */
export const isOverdue = (task: ModelTask, at: number): boolean =>
  task.hidden !== undefined && task.hidden.until.to <= at;

/**
 * What lazy expiry may have done to these queues by the end of `span`: nothing yet, or shown what was due at some instant,
 * queue by queue. The world as it is comes first. Of other queues it is asked when somebody looks at them.
 */
export function sweeps(world: World, queues: readonly string[], span: Span, setting: Setting): World[] {
  const found: World[] = [];
  if (span.to < span.from) return [world];
  for (const order of orders(world, touching(world, queues, span.to), span.to)) {
    let worlds = [world];
    for (const queue of order) {
      worlds = worlds.flatMap((before) => [before, ...sweepsOf(before, queue, span.to, setting)]);
      if (worlds.length > MAX_WORLDS) throw new TooManyWorldsError();
    }
    for (const swept of worlds) if (!found.some((other) => other.isLike(swept))) found.push(swept);
  }
  return found;
}

/** There is no telling within reason what may have happened. */
export class TooManyWorldsError extends Error {}
const MAX_WORLDS = 500;

/** Which queue is looked through first matters where one's dead tasks go to another. */
function orders(world: World, due: readonly string[], at: number): readonly (readonly string[])[] {
  const meet = due.some((queue) =>
    dueTasks(world, queue, at).some(
      (task) =>
        task.hidden?.leasedBy !== undefined &&
        isLastAttempt(task) &&
        due.includes(deadLetterQueueOf(queue, task.retry)),
    ),
  );
  return meet ? permutations(due) : [due];
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((first, i) => permutations(items.toSpliced(i, 1)).map((rest) => [first, ...rest]));
}

/** Of all queues with due tasks, these and those whose dead tasks go to them. */
function touching(world: World, queues: readonly string[], at: number): string[] {
  const due = world.queueNames.filter((queue) => dueTasks(world, queue, at).length > 0);
  const wanted = new Set(queues);
  // A dead-letter queue may have one of its own: twice reaches as far as two tasks can go in one look.
  for (let depth = 0; depth < 2; depth++) {
    for (const queue of due) {
      const dying = dueTasks(world, queue, at).filter(
        (task) => task.hidden?.leasedBy !== undefined && isLastAttempt(task),
      );
      if (dying.some(({ retry }) => wanted.has(deadLetterQueueOf(queue, retry)))) wanted.add(queue);
    }
  }
  return due.filter((queue) => wanted.has(queue));
}

function sweepsOf(world: World, queue: string, latest: number, setting: Setting): World[] {
  const due = dueTasks(world, queue, latest);
  const found: World[] = [];
  for (const cutOff of instantsOf(due, latest, setting)) {
    let worlds = [world];
    for (const task of due) worlds = worlds.flatMap((before) => shown(before, queue, task, cutOff, setting));
    // Two instants between which nothing shows are one.
    for (const swept of worlds) {
      if (swept !== world && !found.some((other) => other.isLike(swept))) found.push(swept);
    }
  }
  return found;
}

/** Latest first: most often everything due was shown at once. */
function instantsOf(due: readonly ModelTask[], latest: number, setting: Setting): number[] {
  const instants = new Set<number>();
  for (const task of due) {
    const until = task.hidden?.until ?? { from: latest, to: latest };
    const again = later(until, backoffMs(task, setting.jitter));
    for (const { from, to } of [until, again]) for (const at of [from, to]) instants.add(Math.min(at, latest));
  }
  return [...instants].sort((a, b) => b - a);
}

/** The task as a look at `now` leaves it; both ways where it is not known whether it was due. */
function shown(world: World, queue: string, task: ModelTask, now: number, setting: Setting): World[] {
  const { hidden } = task;
  if (!hidden || hidden.until.from > now) return [world];
  const stays = hidden.until.to > now ? [world] : [];
  if (hidden.leasedBy === undefined)
    return [...stays, world.put(queue, { ...task, hidden: undefined }, setting.lingerMs)];
  if (isLastAttempt(task)) {
    const gone = world.remove(queue, task.pid, false);
    return [...stays, buryIn(gone, deadLetterQueueOf(queue, task.retry), task, setting)];
  }
  const until = later(hidden.until, backoffMs(task, setting.jitter));
  const after: World[] = [];
  if (until.from <= now) after.push(world.put(queue, { ...task, hidden: undefined }, setting.lingerMs));
  if (until.to > now)
    after.push(world.put(queue, { ...task, hidden: { until, leasedBy: undefined } }, setting.lingerMs));
  return [...stays, ...after];
}
