import type { Pid } from '../../domain/ids.ts';
import { afterPrefix, pidAfter, pidOfTaskKey, taskKey } from '../../domain/keys.ts';
import { isInHead, type TaskState } from '../../domain/task.ts';
import type { EngineState } from '../../engine-state.ts';
import { decodeTaskRow } from '../../log/atom-rows.ts';
import { Family } from '../../ports/store.ts';
import { readLanes } from '../lanes/read-lanes.ts';
import type { Queue } from '../queue.ts';
import { readPayloads } from './read-payloads.ts';

/** Largest size of the state rows that one refill reads. */
const STATE_BYTES = 16 * 1024 * 1024;
/** A refill reads the tasks that workers lease in about this many seconds. */
const AHEAD_SECONDS = 1;

/** Number of tasks that one refill reads: what recent throughput suggests, within bounds, but at least `wanted` (5.4.1). */
function prefetchTasks(wanted: number, leasesPerSecond: number, bounds: { min: number; max: number }): number {
  const ahead = Math.min(bounds.max, Math.max(bounds.min, Math.ceil(leasesPerSecond * AHEAD_SECONDS)));
  return Math.max(wanted, ahead);
}

/** Number of tasks that the next refill of a queue would read. */
export function prefetchSize(engineState: EngineState, queue: Queue, wanted: number): number {
  const rate = queue.rates?.leaseRate(engineState.clock.now()) ?? 0;
  const { minRefillTasks, maxRefillTasks } = engineState.config;
  return prefetchTasks(wanted, rate, { min: minRefillTasks, max: maxRefillTasks });
}

/**
 * Extends the cached head of a queue beyond its first missing PID (the paper, 5.4.2). Concurrent calls for a queue share one
 * refill. The listener is called before the cache may evict the tasks. `inLanes`: only tasks in lanes are missing.
 */
export function refill(engineState: EngineState, queue: Queue, wanted: number, inLanes = false): Promise<void> {
  queue.refilling ??= readHead(engineState, queue, prefetchSize(engineState, queue, wanted), inLanes);
  return queue.refilling;
}

async function readHead(engineState: EngineState, queue: Queue, tasks: number, inLanes: boolean): Promise<void> {
  engineState.counts.refills++;
  const hold = queue.hold();
  try {
    if (queue.ledger.keyed > 0) await readLanes(engineState, queue);
    const from = inLanes ? undefined : queue.warmCache.firstMissing;
    if (from !== undefined) {
      const { states, ended } = await readStates(engineState, queue, from, tasks);
      const head = withPending(queue, from, states, ended);
      // Tasks without rows count, too: more than the payloads that are read would wait for the store later.
      const last = head.length > tasks ? head[tasks - 1] : ended ? undefined : states.at(-1);
      const payloads = await readPayloads(engineState, queue, head.slice(0, tasks));
      merge(queue, from, states, payloads, last && pidAfter(last[0]));
    }
  } catch (error) {
    endRefill(queue, hold);
    engineState.listener.read(queue, error);
    throw error;
  }
  endRefill(queue, hold);
  engineState.listener.read(queue, undefined);
  if (!queue.dropped) engineState.cache.touch(queue);
}

function endRefill(queue: Queue, hold: Disposable): void {
  hold[Symbol.dispose]();
  queue.refilling = undefined;
}

type States = readonly (readonly [Pid, TaskState])[];

async function readStates(
  engineState: EngineState,
  { prefix }: Queue,
  from: Pid,
  tasks: number,
): Promise<{ states: States; ended: boolean }> {
  const range = { gte: taskKey(prefix, from), lt: afterPrefix(prefix) };
  const rows = await engineState.store.scan(Family.ready, range, { rows: tasks, bytes: STATE_BYTES });
  const bytes = rows.reduce((sum, { key, value }) => sum + key.length + value.byteLength, 0);
  const states = rows.map(({ key, value }) => [pidOfTaskKey(key), decodeTaskRow(value)] as const);
  return { states, ended: rows.length < tasks && bytes < STATE_BYTES };
}

/** The tasks that are about to be cached and whose payloads are in the store only, in order. */
function withPending(queue: Queue, from: Pid, states: States, ended: boolean): States {
  const stored = states.filter(([pid]) => queue.pendingOf(pid) === undefined);
  const last = states.at(-1)?.[0];
  const pending: (readonly [Pid, TaskState])[] = [];
  for (const { pid, now, data } of queue.pendingChanges()) {
    if (now === undefined || !isInHead(now) || data !== undefined || pid < from) continue;
    if (ended || (last !== undefined && pid <= last)) pending.push([pid, now]);
  }
  return pending.length === 0 ? stored : [...stored, ...pending].sort(([a], [b]) => (a < b ? -1 : 1));
}

const EMPTY = new Uint8Array(0);

/** Merges the rows from the store with the changes since the read began, which are newer (Q2). `to`: the next `firstMissing`. */
function merge(queue: Queue, from: Pid, states: States, payloads: Map<Pid, Uint8Array>, to: Pid | undefined): void {
  const cache = queue.warmCache;
  // The last tasks may have been taken meanwhile: then the cache is already complete.
  if (queue.dropped || cache.firstMissing === undefined) return;
  cache.extendTo(to);
  for (const [pid, state] of states) {
    if (queue.pendingOf(pid)) continue;
    cache.putReady(pid, { state, data: state.dataBytes === 0 ? EMPTY : payloads.get(pid) });
  }
  for (const { pid, now, data } of queue.pendingChanges()) {
    // A payload that was replaced during the read is in memory (Q3).
    if (now !== undefined && isInHead(now) && pid >= from)
      cache.putReady(pid, { state: now, data: data ?? payloads.get(pid) });
  }
}
