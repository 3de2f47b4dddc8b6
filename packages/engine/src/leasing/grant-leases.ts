import type { AnswerRoom } from '../admission.ts';
import type { LeaseCommand, LeasedSignals, LeasedTask } from '../domain/commands.ts';
import { headerRoom, type Payload } from '../domain/headers.ts';
import type { Instant, LeaseToken, Pid } from '../domain/ids.ts';
import { taskKey } from '../domain/keys.ts';
import type { KindFilter } from '../domain/kind-filter.ts';
import { DEFAULT_SETTINGS } from '../domain/queue-settings.ts';
import { Refusal } from '../domain/refusal.ts';
import { hasSuspects, isTooLate, leasedHistoryBytes, type TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { isToRunAgain, leaseEnd, maxAttemptsOf, timeLimitOf, withoutStart, withRerun } from '../operations/attempts.ts';
import type { PlannedChange } from '../planned-atom.ts';
import { Family } from '../ports/store.ts';
import type { CachedTask } from '../queues/cache/places.ts';
import type { ReadyTask } from '../queues/cache/queue-cache.ts';
import type { KeyUse } from '../queues/lanes/key-uses.ts';
import type { LeaseLimit } from '../queues/lease-limit.ts';
import type { Queue } from '../queues/queue.ts';
import { withTokens } from '../records/token-records.ts';
import { hasSignals, readSignals } from './leased-signals.ts';

/** A task that is about to be leased. */
export interface Pick {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly task: CachedTask;
}

/** The tasks in memory that a lease request gets, or the queues to read first. */
export type Selection = { readonly picks: readonly Pick[]; readonly bytes: number } & (
  | { readonly kind: 'picked' }
  /** Memory has too few tasks of these queues. The first queue is the one that is needed first. */
  | { readonly kind: 'refill'; readonly refills: readonly [Refill, ...Refill[]] }
);

interface Refill {
  readonly queue: Queue;
  readonly wanted: number;
  /** Only tasks in lanes are missing. */
  readonly inLanes: boolean;
}

/** Refills that one request starts at once. More would delay the reads of other requests. */
export const REFILLS_AT_ONCE = 64;

/** Bytes of a leased task in a reply, beside its payload and PID; see `LeaseCommand.maxBytes`. */
const REST_BYTES = 64;
const NONE: readonly never[] = [];

/**
 * Finds the exact first tasks of the queues, in the order in which the request names the queues. Changes nothing.
 * @param mostOf how many tasks to take of a queue. Undefined, for the queue or for all: no limit.
 */
export function select(
  queues: Iterable<Queue>,
  command: LeaseCommand,
  maxBytes: number,
  now: Instant,
  mostOf?: ReadonlyMap<Queue, number>,
): Selection {
  const { maxPid, kinds } = command;
  const picks: Pick[] = [];
  let bytes = 0;
  /** How many of the picks count in a limit. */
  let taken: Map<LeaseLimit<Queue>, number> | undefined;
  let takenOfKeys: Map<KeyUse, number> | undefined;
  /** What was taken of the last queue with limits. It counts when there is another one: most requests need none of this. */
  let last: { readonly limits: readonly LeaseLimit<Queue>[]; readonly taken: number } | undefined;
  for (const queue of queues) {
    queue.claims?.asked(kinds, queue.ledger.kinds, now);
    if (!queue.isOffering) continue;
    const cache = queue.warmCache;
    let left = mostOf?.get(queue) ?? command.maxTasks;
    const { limits } = queue;
    const earlier = picks.length;
    if (limits !== undefined) {
      if (last !== undefined && last.taken > 0) {
        taken ??= new Map();
        for (const limit of last.limits) taken.set(limit, (taken.get(limit) ?? 0) + last.taken);
      }
      last = undefined;
      for (const limit of limits) left = Math.min(left, limit.room - (taken?.get(limit) ?? 0));
      if (left <= 0) continue;
    }
    const isOneEnough = command.maxTasks === 1 && queue.ledger.starting === 0;
    const lanes = queue.ledger.keyedReady > 0 ? queue.lanes : undefined;
    takenOfKeys ??= lanes && new Map();
    const isOpenHead = kinds?.acceptsNone !== false;
    const plainHead = isOneEnough ? cache.first : cache.head();
    const head = lanes?.head(now, maxPid, takenOfKeys ?? new Map(), kinds) ?? (isOpenHead ? plainHead : NONE);
    for (const ready of head) {
      const { pid, state } = ready;
      // A search will end it. Until then it stands in the queue, and nobody gets it.
      if (isTooLate(state, now)) continue;
      if (maxPid !== undefined && pid > maxPid) break;
      const payloadBytes = state.dataBytes + (state.headerBytes === 0 ? 0 : headerRoom(state.headerBytes));
      const taskBytes = payloadBytes + pid.length + leasedHistoryBytes(state.history) + REST_BYTES;
      // The first task is picked even if it is too large; otherwise it could never be leased.
      if (bytes + taskBytes > maxBytes && picks.length > 0) return { kind: 'picked', picks, bytes };
      bytes += taskBytes;
      const pick = { queue, pid, task: taskIn(ready, queue) };
      // Not `picks`: an array that grows has room for 17 (bench row B4).
      if (command.maxTasks === 1) return { kind: 'picked', picks: [pick], bytes };
      picks.push(pick);
      if (picks.length === command.maxTasks) return { kind: 'picked', picks, bytes };
      if (--left === 0) break;
    }
    if (limits !== undefined) last = { limits, taken: picks.length - earlier };
    const passedBound = maxPid !== undefined && cache.knowsReadyUpTo(maxPid);
    const isShort =
      lanes === undefined
        ? cache.firstMissing !== undefined && !passedBound && isOpenHead
        : lanes.missing !== undefined;
    if (isShort && left > 0) {
      const read = lanes === undefined ? queue : queue.lanesToRead;
      const inLanes = lanes !== undefined && !lanes.isPlainMissing;
      const first = { queue: read, wanted: Math.min(left, command.maxTasks - picks.length), inLanes };
      return { kind: 'refill', refills: [first, ...furtherRefills(queues, first, kinds)], picks, bytes };
    }
  }
  return { kind: 'picked', picks, bytes };
}

/** The task, with its payload if memory has it. */
function taskIn({ pid, task }: ReadyTask, queue: Queue): CachedTask {
  if (task.data !== undefined) return task;
  return { state: task.state, data: queue.pendingOf(pid)?.data };
}

/** Further queues that the request will probably need and that are not in memory. They are read at the same time. */
function furtherRefills(queues: Iterable<Queue>, first: Refill, kinds: KindFilter | undefined): Refill[] {
  const refills: Refill[] = [];
  let behind = false;
  let wanted = first.wanted - first.queue.ledger.available;
  for (const queue of queues) {
    if (wanted <= 0 || refills.length === REFILLS_AT_ONCE - 1) break;
    if (behind && queue.offers(kinds)) {
      if (queue.warmCache.firstMissing !== undefined) refills.push({ queue, wanted, inLanes: false });
      wanted -= queue.ledger.available;
    }
    if (queue === first.queue) behind = true;
  }
  return refills;
}

/** Leases the picked tasks in this turn, with one atom for each partition. Payloads may still have to be read. */
export function grant(
  engineState: EngineState,
  picks: readonly Pick[],
  command: LeaseCommand,
  now: Instant,
): LeasedPick[] {
  const [first] = picks;
  if (first === undefined) return [];
  const { starts } = command;
  const begun = { workerAddress: command.workerAddress, worker: command.worker, since: now, suspects: 0 };
  const ahead = starts === undefined ? begun : { ...begun, suspects: starts.together };
  const begins = starts?.now ?? picks.length;
  // Arrays of the right size: one that grows gets room for 17 with its first element (bench row B4).
  const changes = new Array<PlannedChange>(picks.length);
  const granted = picks.map(({ queue, pid, task }, at): LeasedPick => {
    const { state } = task;
    // The token is the ticket: it grows with every lease, and no earlier task with this PID had it.
    const token = engineState.nextTicket(queue.partition) as number as LeaseToken;
    const { settings } = queue;
    const durationMs = command.leaseDurationMs || settings.leaseDurationMs;
    const until = leaseEnd(now, durationMs, timeLimitOf(state, settings), now, now);
    const lease = at < begins ? begun : ahead;
    const visibility = { kind: 'hidden' as const, until, lease };
    // This lease has the data of all enqueues so far.
    const history = isToRunAgain(state) ? withRerun(state.history, false) : withoutStart(state.history);
    const after: TaskState = { ...state, attempts: state.attempts + 1, token, visibility, history };
    const change = {
      kind: 'change' as const,
      queueId: queue.ledger.queueId,
      pid,
      before: state,
      after,
      data: undefined,
    };
    changes[at] = { queue, change, known: task };
    return { queue, pid, state: after, until, isUntold: command.leaseDurationMs === 0, data: task.data };
  });
  // Most requests lease from one partition (bench row B4).
  const { partition } = first.queue;
  if (changes.every(({ queue }) => queue.partition === partition))
    engineState.commit(withTokens(engineState, { partition, at: now, changes }));
  else
    for (const [id, ofIt] of Map.groupBy(changes, ({ queue }) => queue.partition))
      engineState.commit(withTokens(engineState, { partition: id, at: now, changes: ofIt }));
  return granted;
}

/** A granted lease whose payload may still be on disk. */
export interface LeasedPick {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly state: TaskState;
  readonly until: Instant;
  /** True if the request did not say how long the lease lasts. */
  readonly isUntold: boolean;
  readonly data: Uint8Array | undefined;
}

const EMPTY = new Uint8Array(0);
const NO_PICKS: readonly LeasedPick[] = [];

/** True if the payload must be read from the store. */
export const isToBeRead = ({ data, state }: LeasedPick): boolean => data === undefined && state.dataBytes > 0;

/**
 * Resolves when the leases are durable and the payloads are read. Leaves out tasks that were dequeued or replaced meanwhile.
 * Releases `room` at the end.
 * @param signalBytes how many bytes of signals to read. Undefined: none.
 */
export async function deliver(
  engineState: EngineState,
  granted: readonly LeasedPick[],
  room: AnswerRoom,
  signalBytes: number | undefined,
): Promise<LeasedTask[]> {
  try {
    const missing = granted.filter(isToBeRead);
    let payloads: Map<LeasedPick, Payload> | undefined;
    if (missing.length === 0) await engineState.durable();
    else [payloads] = await Promise.all([readPayloads(engineState, missing), engineState.durable()]);
    const waited = signalBytes === undefined ? NO_PICKS : granted.filter(hasSignals);
    const signals = waited.length === 0 ? undefined : await readSignals(engineState, waited, signalBytes ?? 0);
    const leased: LeasedTask[] = [];
    for (const pick of granted) {
      const read = payloads?.get(pick);
      const data = pick.data ?? (pick.state.dataBytes === 0 ? EMPTY : read?.data);
      const came = signals !== undefined && stillLeased(pick) ? signals.get(pick) : undefined;
      if (data) leased.push(asLeased(pick, data, read?.headerBytes ?? pick.state.headerBytes, came));
      else if (stillLeased(pick)) {
        throw new Refusal('CORRUPT_DATA', 'the payload of a task is missing in the store', {
          metadata: { queue: pick.queue.fullName },
        });
      }
    }
    return leased;
  } finally {
    // `using` would cost two objects more for each lease (bench row B4).
    room[Symbol.dispose]();
  }
}

function asLeased(
  { queue, pid, state, until, isUntold }: LeasedPick,
  data: Uint8Array,
  headerBytes: number,
  signals: LeasedSignals | undefined,
): LeasedTask {
  const { settings } = queue;
  return {
    queue: queue.ledger.name,
    pid,
    data,
    headerBytes,
    token: state.token,
    until,
    attempt: state.attempts,
    enqueuedAt: state.enqueuedAt,
    maxAttempts: maxAttemptsOf(state, settings),
    timeLimitMs: timeLimitOf(state, settings),
    unbegun: unbegunOf(state),
    leaseDurationMs: isUntold && settings !== DEFAULT_SETTINGS ? settings.leaseDurationMs : undefined,
    history: state.history,
    signals,
  };
}

const unbegunOf = (state: TaskState): number | undefined =>
  hasSuspects(state) ? (state.history?.suspicion ?? 0) : undefined;

async function readPayloads(
  engineState: EngineState,
  missing: readonly LeasedPick[],
): Promise<Map<LeasedPick, Payload>> {
  engineState.counts.coldReads += missing.length;
  const keys = missing.map(({ queue, pid }) => taskKey(queue.prefix, pid));
  using holds = new DisposableStack();
  for (const queue of new Set(missing.map(({ queue }) => queue))) holds.use(queue.hold());
  const rows = await engineState.store.get(Family.data, keys);
  const payloads = new Map<LeasedPick, Payload>();
  for (const [i, pick] of missing.entries()) {
    const row = rows[i];
    if (!row || isTakenAway(pick)) continue;
    // If the payload was replaced since the lease, the row may be of either one.
    const pending = pick.queue.pendingOf(pick.pid);
    const { headerBytes } = pending?.now ?? pick.state;
    payloads.set(pick, { data: pending?.data ?? row, headerBytes });
  }
  return payloads;
}

/** True if the payload that was read may belong to a later task with the same PID. Needs a hold on the queue since the lease. */
function isTakenAway({ queue, pid, state }: LeasedPick): boolean {
  const pending = queue.pendingOf(pid);
  return pending !== undefined && pending.now?.token !== state.token;
}

function stillLeased({ queue, pid, state }: LeasedPick): boolean {
  if (queue.dropped) return false;
  const knowledge = queue.lookUp(pid);
  return knowledge.kind === 'task' && knowledge.task.state.token === state.token;
}
