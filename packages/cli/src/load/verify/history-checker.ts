import type { CallOf, HistoryEvent, LeasedReply, Outcome, TaskCall, UpdateCall } from './history.ts';

/*
 * Checks the calls and replies of a node or a cluster against the contract, with any crashes in between:
 *
 *  (a) the task of every acknowledged enqueue exists at the end, unless an update may have dequeued it;
 *  (b) the task of every acknowledged dequeue does not exist any more, and was dequeued once;
 *  (c) no two valid leases of one task overlap; lease tokens grow;
 *  (d) every update is applied entirely or not at all, even if its outcome is unknown.
 *
 * A call takes effect at an unknown time before its reply. So the checker reports only violations in every possible order.
 * Every enqueue must have its own data, which identifies its task. The checker throws for histories that replace data,
 * dequeue without a token, delete queues or reset leases.
 */

/** A task found after the end of the history. */
export interface FinalTask {
  readonly queue: string;
  readonly pid: string;
  readonly data: string;
}

export interface CheckOptions {
  /** Largest difference between the clocks of caller and node, in ms. Default 20: both use the clock of one machine. */
  readonly clockSlackMs?: number;
  /**
   * For tasks that were found in a restored backup: true for leases that the backup need not have. They tell which task a token
   * names, but not whether the task was in the backup. Default: false.
   */
  readonly isLater?: (lease: HistoryEvent) => boolean;
}

type UpdateEvent = HistoryEvent<UpdateCall>;
type LeaseEvent = HistoryEvent<CallOf<'lease'>>;

interface Lease extends LeasedReply {
  readonly event: LeaseEvent;
}

/** The facts about the task that one enqueue created or may have created. */
interface Life {
  readonly data: string;
  readonly event: UpdateEvent;
  /** `never`: the enqueue was refused or collapsed. `maybe`: its outcome is unknown. */
  readonly born: 'yes' | 'maybe' | 'never';
  /** In order of their tokens. */
  readonly leases: Lease[];
  /** Updates that have dequeued it or may have. */
  readonly dequeues: UpdateEvent[];
  /** Updates that have dequeued, renewed or released it, or may have. */
  readonly changes: UpdateEvent[];
}

/** All violations; empty if the history keeps the contract. */
export function violationsOf(
  events: readonly HistoryEvent[],
  found: readonly FinalTask[],
  { clockSlackMs = 20, isLater = () => false }: CheckOptions = {},
): string[] {
  const lives = readLives(events, isLater);
  const present = new Set(found.map(({ data }) => data));
  return [
    ...misplaced(lives, found),
    ...[...lives.values()].flatMap((life) => [
      ...lost(life, present),
      ...risen(life, present),
      ...overlapping(life, clockSlackMs),
    ]),
    ...events.filter(isUpdate).flatMap((event) => torn(event, lives, present)),
  ];
}

/**
 * The part of a history that explains a violation: the calls that it names, and all calls for the same PIDs.
 */
export function eventsBehind(violation: string, events: readonly HistoryEvent[]): readonly HistoryEvent[] {
  const ids = new Set([...violation.matchAll(/#(\d+)/g)].map(([, id]) => Number(id)));
  const named = events.filter(({ id }) => ids.has(id)).map(pidsOf);
  const shared = new Set(named[0]?.filter((pid) => named.every((pids) => pids.includes(pid))));
  return events.filter((event) => ids.has(event.id) || pidsOf(event).some((pid) => shared.has(pid)));
}

function pidsOf({ call, outcome }: HistoryEvent): string[] {
  const asked = call.kind === 'update' ? [...call.dequeue, ...call.renew, ...call.release, ...call.enqueue] : [];
  const told = outcome.kind === 'leased' ? outcome.tasks : outcome.kind === 'updated' ? outcome.enqueued : [];
  return [...asked, ...told].flatMap(({ pid }) => pid ?? []);
}

/** The beginning of the data: enough to find it in the history. */
const brief = (data: string): string => (data.length > 40 ? `${data.slice(0, 40)}…` : data);

function isUpdate(event: HistoryEvent): event is UpdateEvent {
  return event.call.kind === 'update';
}

function isLease(event: HistoryEvent): event is LeaseEvent {
  return event.call.kind === 'lease';
}

function readLives(events: readonly HistoryEvent[], isLater: (lease: HistoryEvent) => boolean): Map<string, Life> {
  const lives = new Map<string, Life>();
  const byToken = new Map<string, Life>();
  for (const event of events.filter(isUpdate)) {
    for (const [index, { data, mode }] of event.call.enqueue.entries()) {
      if (mode !== 'collapse' && mode !== 'fail') throw new TypeError('histories that replace data cannot be judged');
      if (lives.has(data)) throw new TypeError(`two enqueues have the data ${brief(data)}`);
      const born = bornOf(event.outcome, index);
      lives.set(data, { data, event, born, leases: [], dequeues: [], changes: [] });
    }
  }
  for (const event of events.filter(isLease)) {
    if (event.outcome.kind !== 'leased') continue;
    for (const task of event.outcome.tasks) {
      const life = lives.get(task.data);
      if (life === undefined)
        throw new TypeError(`a task was leased whose data was never enqueued: ${brief(task.data)}`);
      if (!isLater(event)) life.leases.push({ ...task, event });
      byToken.set(tokenKey(task), life);
    }
  }
  for (const life of lives.values()) life.leases.sort((a, b) => a.token - b.token);
  for (const event of events.filter(isUpdate)) {
    const { dequeue, release, renew } = event.call;
    if (event.outcome.kind === 'refused') continue;
    for (const item of dequeue) byToken.get(tokenKey(item))?.dequeues.push(event);
    for (const item of [...dequeue, ...release, ...renew]) byToken.get(tokenKey(item))?.changes.push(event);
  }
  return lives;
}

/** Names one lease of one task. */
function tokenKey({ queue, pid, token }: TaskCall): string {
  if (token === undefined) throw new TypeError('histories with changes that name no lease token cannot be judged');
  return `${token} ${queue} ${pid}`;
}

function bornOf(outcome: Outcome, index: number): Life['born'] {
  if (outcome.kind === 'unknown') return 'maybe';
  return outcome.kind === 'updated' && outcome.enqueued[index]?.result === 'created' ? 'yes' : 'never';
}

/** Every task that was found must have been enqueued, and must exist once. */
function misplaced(lives: ReadonlyMap<string, Life>, found: readonly FinalTask[]): string[] {
  const seen = new Set<string>();
  return found.flatMap(({ queue, pid, data }) => {
    const twice = seen.has(data);
    seen.add(data);
    if (!lives.has(data)) return [`found in ${queue} at the end, but never enqueued: ${brief(data)} (PID ${pid})`];
    return twice ? [`found twice at the end: ${brief(data)}`] : [];
  });
}

/** (a) */
function lost({ data, born, dequeues, event }: Life, present: ReadonlySet<string>): string[] {
  if (born !== 'yes' || present.has(data) || dequeues.length > 0) return [];
  return [`(a) lost: ${brief(data)}, acknowledged by #${event.id}, is gone, but no update dequeued it`];
}

/** (b) */
function risen({ data, born, leases, dequeues }: Life, present: ReadonlySet<string>): string[] {
  const wrong: string[] = [];
  if (born === 'never' && (present.has(data) || leases.length > 0)) {
    wrong.push(`(b) refused or collapsed, but it exists: ${brief(data)}`);
  }
  const [done, again] = dequeues.filter(({ outcome }) => outcome.kind === 'updated');
  if (done === undefined) return wrong;
  if (again !== undefined) wrong.push(`(b) dequeued twice: ${brief(data)}, by #${done.id} and #${again.id}`);
  if (present.has(data)) wrong.push(`(b) dequeued by #${done.id}, but it exists at the end: ${brief(data)}`);
  for (const { event } of leases) {
    if (event.calledSeq > done.endedSeq)
      wrong.push(`(b) dequeued by #${done.id}, but leased by #${event.id}: ${brief(data)}`);
  }
  return wrong;
}

/** (c) */
function overlapping(life: Life, clockSlackMs: number): string[] {
  const { data, leases } = life;
  return leases.flatMap((next, index) => {
    const wrong: string[] = [];
    for (const lease of leases.slice(0, index)) {
      const pair = `${brief(data)}, token ${lease.token} by #${lease.event.id} and ${next.token} by #${next.event.id}`;
      if (lease.token === next.token) wrong.push(`(c) one token for two leases: ${pair}`);
      if (next.event.endedSeq < lease.event.calledSeq) wrong.push(`(c) the token became smaller: ${pair}`);
      else {
        const early = validUntil(life, lease, next) - next.event.endedAt;
        if (early > clockSlackMs) wrong.push(`(c) leased while it was leased, ${early} ms too early: ${pair}`);
      }
    }
    return wrong;
  });
}

/**
 * The instant up to which a lease was surely valid when the next lease was granted. A renewal makes a lease longer or shorter.
 * Which renewal was the last one is known only if they did not run at the same time.
 */
function validUntil(life: Life, lease: Lease, next: Lease): number {
  const isOfLease = ({ queue, pid, token }: TaskCall): boolean =>
    token === lease.token && queue === lease.queue && pid === lease.pid;
  const before = life.changes.filter(({ calledSeq }) => calledSeq < next.event.endedSeq);
  if (before.some(({ call }) => call.release.some(isOfLease) || call.dequeue.some(isOfLease))) {
    return Number.NEGATIVE_INFINITY;
  }
  const ends = [{ until: lease.until, endedSeq: lease.event.endedSeq }];
  let lastForSure = Number.NEGATIVE_INFINITY;
  for (const { call, outcome, calledAt, calledSeq, endedSeq } of before) {
    const index = call.renew.findIndex(isOfLease);
    const { leaseDurationMs } = call.renew[index] ?? {};
    if (leaseDurationMs === undefined) continue;
    const told = outcome.kind === 'updated' ? outcome.renewed[index]?.until : undefined;
    ends.push({ until: told ?? calledAt + leaseDurationMs, endedSeq });
    if (told !== undefined && endedSeq < next.event.calledSeq) lastForSure = Math.max(lastForSure, calledSeq);
  }
  return Math.min(...ends.filter(({ endedSeq }) => endedSeq > lastForSure).map(({ until }) => until));
}

/** (d) */
function torn(event: UpdateEvent, lives: ReadonlyMap<string, Life>, present: ReadonlySet<string>): string[] {
  if (event.outcome.kind !== 'unknown') return []; // checked by (a) and (b)
  const made = event.call.enqueue.flatMap(({ data }) => lives.get(data) ?? []);
  const taken = [...lives.values()].filter(({ dequeues }) => dequeues.includes(event));
  const happened = made.find(({ data, leases }) => present.has(data) || leases.length > 0);
  // The task still existed after the update had surely ended.
  const missing = taken.find(
    ({ data, leases }) => present.has(data) || leases.some((lease) => lease.event.calledSeq > event.endedSeq),
  );
  const wrong: string[] = [];
  if (happened !== undefined && missing !== undefined) {
    wrong.push(`(d) torn: #${event.id} enqueued ${brief(happened.data)}, but did not dequeue ${brief(missing.data)}`);
  }
  // Without a PID in the request, the enqueue cannot have collapsed into another task.
  const gone = made.find(
    ({ data, dequeues }, index) =>
      event.call.enqueue[index]?.pid === undefined && !present.has(data) && dequeues.length === 0,
  );
  // A task that was leased existed. Only a later lease leaves open whether the task was in the backup.
  const existed = taken.filter(({ born, leases }) => born === 'yes' || leases.length > 0);
  const done = happened ?? existed.find(({ dequeues, data }) => dequeues.length === 1 && !present.has(data));
  if (done !== undefined && gone !== undefined) {
    wrong.push(`(d) torn: #${event.id} was applied, as ${brief(done.data)} shows, but ${brief(gone.data)} is gone`);
  }
  return wrong;
}
