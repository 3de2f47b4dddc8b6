import type { CallOf, HistoryEvent, LeasedReply, Outcome, UpdateCall } from './history.ts';

/*
 * Judges what callers of a node or a cluster saw against the contract, whatever crashed in between:
 *
 *  (a) every acknowledged enqueue is there at the end, or somebody may have dequeued it;
 *  (b) every acknowledged dequeue stays gone, and happened once;
 *  (c) no two valid leases on one task overlap; lease tokens grow;
 *  (d) every update is all or nothing, also those of which nobody knows the outcome.
 *
 * It decides only what follows for certain from calls and replies, each of which took effect at some time between the two:
 * what it reports is wrong in every possible order. That every enqueue has data of its own tells tasks apart. Histories
 * may not replace data, dequeue without a token, delete queues or reset leases: then it refuses to judge.
 */

/** A task found after the end of the history. */
export interface FinalTask {
  readonly queue: string;
  readonly pid: string;
  readonly data: string;
}

export interface CheckOptions {
  /** How far the caller's clock and the node's may be apart, in ms. Default 20: both read the clock of one machine. */
  readonly clockSlackMs?: number;
}

type UpdateEvent = HistoryEvent<UpdateCall>;
type LeaseEvent = HistoryEvent<CallOf<'lease'>>;

interface Lease extends LeasedReply {
  readonly event: LeaseEvent;
}

/** What is known of the task that one enqueue made, or would have made. */
interface Life {
  readonly data: string;
  readonly event: UpdateEvent;
  /** `never`: refused or collapsed. `maybe`: nobody knows. */
  readonly born: 'yes' | 'maybe' | 'never';
  /** In the order of their tokens. */
  readonly leases: Lease[];
  /** Updates that dequeued it, or would have. */
  readonly dequeues: UpdateEvent[];
  readonly releases: UpdateEvent[];
  readonly renewals: { readonly event: UpdateEvent; readonly token: number; readonly until: number }[];
}

/** Everything that is wrong; empty when the history keeps the contract. */
export function violationsOf(
  events: readonly HistoryEvent[],
  found: readonly FinalTask[],
  { clockSlackMs = 20 }: CheckOptions = {},
): string[] {
  const lives = readLives(events);
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

function isUpdate(event: HistoryEvent): event is UpdateEvent {
  return event.call.kind === 'update';
}

function isLease(event: HistoryEvent): event is LeaseEvent {
  return event.call.kind === 'lease';
}

function readLives(events: readonly HistoryEvent[]): Map<string, Life> {
  const lives = new Map<string, Life>();
  const byToken = new Map<string, Life>();
  for (const event of events.filter(isUpdate)) {
    for (const [index, { data, mode }] of event.call.enqueue.entries()) {
      if (mode === 'replace') throw new TypeError('histories that replace data cannot be judged');
      if (lives.has(data)) throw new TypeError(`two enqueues have the data ${data}`);
      const born = bornOf(event.outcome, index);
      lives.set(data, { data, event, born, leases: [], dequeues: [], releases: [], renewals: [] });
    }
  }
  for (const event of events.filter(isLease)) {
    if (event.outcome.kind !== 'leased') continue;
    for (const task of event.outcome.tasks) {
      const life = lives.get(task.data);
      if (life === undefined) throw new TypeError(`a task was leased whose data nobody enqueued: ${task.data}`);
      life.leases.push({ ...task, event });
      byToken.set(tokenKey(task), life);
    }
  }
  for (const life of lives.values()) life.leases.sort((a, b) => a.token - b.token);
  for (const event of events.filter(isUpdate)) {
    const { dequeue, release, renew } = event.call;
    if (event.outcome.kind === 'refused') continue;
    for (const item of dequeue) byToken.get(tokenKey(item))?.dequeues.push(event);
    for (const item of release) byToken.get(tokenKey(item))?.releases.push(event);
    for (const [index, item] of renew.entries()) {
      const until = event.outcome.kind === 'updated' ? event.outcome.renewed[index]?.until : undefined;
      if (until !== undefined) byToken.get(tokenKey(item))?.renewals.push({ event, token: item.token ?? 0, until });
    }
  }
  return lives;
}

/** Names one lease of one task. */
function tokenKey({ queue, pid, token }: { queue: string; pid: string; token: number | undefined }): string {
  if (token === undefined) throw new TypeError('histories with changes that name no lease token cannot be judged');
  return `${token} ${queue} ${pid}`;
}

function bornOf(outcome: Outcome, index: number): Life['born'] {
  if (outcome.kind === 'unknown') return 'maybe';
  return outcome.kind === 'updated' && outcome.enqueued[index]?.result === 'created' ? 'yes' : 'never';
}

/** What was found must have been enqueued, and is there once. */
function misplaced(lives: ReadonlyMap<string, Life>, found: readonly FinalTask[]): string[] {
  const seen = new Set<string>();
  return found.flatMap(({ queue, pid, data }) => {
    const twice = seen.has(data);
    seen.add(data);
    if (!lives.has(data)) return [`found in ${queue} at the end, but never enqueued: ${data} (PID ${pid})`];
    return twice ? [`found twice at the end: ${data}`] : [];
  });
}

/** (a) */
function lost({ data, born, dequeues, event }: Life, present: ReadonlySet<string>): string[] {
  if (born !== 'yes' || present.has(data) || dequeues.length > 0) return [];
  return [`(a) lost: ${data}, acknowledged by #${event.id}, is gone and nobody dequeued it`];
}

/** (b) */
function risen({ data, born, leases, dequeues }: Life, present: ReadonlySet<string>): string[] {
  const wrong: string[] = [];
  if (born === 'never' && (present.has(data) || leases.length > 0)) {
    wrong.push(`(b) refused or collapsed, but there: ${data}`);
  }
  const [done, again] = dequeues.filter(({ outcome }) => outcome.kind === 'updated');
  if (done === undefined) return wrong;
  if (again !== undefined) wrong.push(`(b) dequeued twice: ${data}, by #${done.id} and #${again.id}`);
  if (present.has(data)) wrong.push(`(b) dequeued by #${done.id}, but there at the end: ${data}`);
  for (const { event } of leases) {
    if (event.calledSeq > done.endedSeq) wrong.push(`(b) dequeued by #${done.id}, but leased by #${event.id}: ${data}`);
  }
  return wrong;
}

/** (c) */
function overlapping(life: Life, clockSlackMs: number): string[] {
  const { data, leases } = life;
  return leases.flatMap((next, index) => {
    const wrong: string[] = [];
    for (const lease of leases.slice(0, index)) {
      const pair = `${data}, token ${lease.token} by #${lease.event.id} and ${next.token} by #${next.event.id}`;
      if (lease.token === next.token) wrong.push(`(c) one token for two leases: ${pair}`);
      if (next.event.endedSeq < lease.event.calledSeq) wrong.push(`(c) the token went back: ${pair}`);
      else if (next.event.endedAt + clockSlackMs < validUntil(life, lease, next)) {
        wrong.push(`(c) leased while it was leased: ${pair}`);
      }
    }
    return wrong;
  });
}

/** How long a lease was surely valid, as far as that was known before the next one was told. */
function validUntil({ releases, dequeues, renewals }: Life, { token, until, queue, pid }: Lease, next: Lease): number {
  const isOfIt = (item: { queue: string; pid: string; token: number | undefined }): boolean =>
    item.token === token && item.queue === queue && item.pid === pid;
  const ended = [...releases, ...dequeues].some(
    ({ call, calledSeq }) => [...call.release, ...call.dequeue].some(isOfIt) && calledSeq < next.event.endedSeq,
  );
  if (ended) return Number.NEGATIVE_INFINITY;
  // Only renewals that were over before the next lease was asked for came surely before it.
  const renewed = renewals.filter(
    (renewal) => renewal.token === token && renewal.event.endedSeq < next.event.calledSeq,
  );
  return Math.max(until, ...renewed.map((renewal) => renewal.until));
}

/** (d) */
function torn(event: UpdateEvent, lives: ReadonlyMap<string, Life>, present: ReadonlySet<string>): string[] {
  if (event.outcome.kind !== 'unknown') return []; // (a) and (b) see to it
  const made = event.call.enqueue.flatMap(({ data }) => lives.get(data) ?? []);
  const taken = [...lives.values()].filter(({ dequeues }) => dequeues.includes(event));
  const happened = made.find(({ data, leases }) => present.has(data) || leases.length > 0);
  // Afterwards, that is when nothing of the update could still be under way, the task was still there.
  const missing = taken.find(
    ({ data, leases }) => present.has(data) || leases.some((lease) => lease.event.calledSeq > event.endedSeq),
  );
  const wrong: string[] = [];
  if (happened !== undefined && missing !== undefined) {
    wrong.push(`(d) torn: #${event.id} enqueued ${happened.data}, but did not dequeue ${missing.data}`);
  }
  // A PID of its own cannot have collapsed into another task.
  const gone = made.find(
    ({ data, dequeues }, index) =>
      event.call.enqueue[index]?.pid === undefined && !present.has(data) && dequeues.length === 0,
  );
  const done = happened ?? taken.find(({ dequeues, data }) => dequeues.length === 1 && !present.has(data));
  if (done !== undefined && gone !== undefined) {
    wrong.push(`(d) torn: #${event.id} was applied, as ${done.data} shows, but ${gone.data} is gone`);
  }
  return wrong;
}
