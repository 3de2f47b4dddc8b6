import type { Engine, LeasedTask, SimCluster, TaskView } from '@taskmaster/node/testing';
import { encodeToBuffer, GetQueueStatsRequest, GetQueueStatsResponse, parseQueueName } from '@taskmaster/proto';
import type { HistoryEvent } from '../../support/history.ts';
import type { FinalTask } from '../../support/history-checker.ts';
import type { Way } from './client.ts';
import { QUEUES } from './workload.ts';

const EVERYTHING = 100_000;
/** All leases, delays and backoffs are over after so long; the time that a message took may have been added to them. */
const ALL_SHOWN_MS = 60_000;
const LOOK_MS = 2_000;

export interface FinalState {
  readonly tasks: readonly FinalTask[];
  /** (f) and what else is wrong with what was found. */
  readonly violations: readonly string[];
}

/** Looks at every task of a cluster at rest, in several ways that must agree. */
export async function findEverything(cluster: SimCluster): Promise<FinalState> {
  const violations: string[] = [];
  const tasks: FinalTask[] = [];
  for (const queue of QUEUES) {
    const engine = engineOf(cluster, queue);
    const shown = await cluster.run(scan(engine, queue));
    const counted = await cluster.run(countsAt(engine, queue));
    const total = counted.reduce((sum, count) => sum + count, 0);
    if (total !== shown.length) violations.push(`(f) ${queue} counts ${counted}, but has ${shown.length}`);
    for (const { pid, data } of shown) tasks.push({ queue, pid, data: text(data) });
  }
  return { tasks, violations };
}

/** Available, leased, delayed. */
async function countsAt(engine: Engine, queue: string): Promise<readonly number[]> {
  const { totals } = await engine.queueStats({ kind: 'named', queues: [parseQueueName(queue)] });
  return [totals.available, totals.leased, totals.delayed];
}

/** (f) as anybody sees it, while nothing changes. */
export async function countThroughProxy(cluster: SimCluster, proxy: Way): Promise<string[]> {
  const request = encodeToBuffer(GetQueueStatsRequest, { queues: [...QUEUES], filter: undefined });
  const reply = GetQueueStatsResponse.decode(await cluster.run(asking(proxy, request)));
  const violations: string[] = [];
  for (const { queue, available, leased, delayed } of reply.queues) {
    const counted = (await cluster.run(countsAt(engineOf(cluster, queue), queue))).join();
    const told = [available, leased, delayed].join();
    if (told !== counted) violations.push(`(f) a proxy counts ${told} in ${queue}; its node counts ${counted}`);
  }
  return violations;
}

/** An answer of a proxy may be lost even now. */
async function asking(proxy: Way, request: Uint8Array): Promise<Uint8Array> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await proxy('GetQueueStats', request);
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

/** Everything that is left can be leased once all leases and delays are over, in order, and nothing else. */
export async function leaseEverything(cluster: SimCluster, tasks: readonly FinalTask[]): Promise<string[]> {
  const violations: string[] = [];
  const left = new Set(tasks.map(({ data }) => data));
  for (let passed = 0; passed < ALL_SHOWN_MS && (left.size > 0 || passed === 0); passed += LOOK_MS) {
    await cluster.pass(LOOK_MS);
    for (const queue of QUEUES) {
      const leased = await cluster.run(leaseAll(engineOf(cluster, queue), queue));
      const pids = leased.map(({ pid }) => String(pid));
      if (pids.join() !== pids.toSorted().join()) violations.push(`(g) ${queue} was leased out of order: ${pids}`);
      for (const { pid, data } of leased) {
        if (!left.delete(text(data)))
          violations.push(`(f) ${text(data)} (PID ${pid} in ${queue}) was leased, but not there`);
      }
    }
  }
  for (const queue of QUEUES) {
    const [available, , delayed] = await cluster.run(countsAt(engineOf(cluster, queue), queue));
    if (available !== 0 || delayed !== 0)
      violations.push(`(f) ${queue} counts ${available} and ${delayed} after all were leased`);
  }
  for (const data of left) violations.push(`(f) ${data} was there, but could not be leased`);
  return violations;
}

function leaseAll(engine: Engine, queue: string): Promise<readonly LeasedTask[]> {
  return engine.leaseTasks({
    queues: [parseQueueName(queue)],
    maxTasks: EVERYTHING,
    leaseMs: 10 * ALL_SHOWN_MS,
    maxPid: undefined,
    waitMs: 0,
    worker: 'last',
    workerAddress: '',
    maxBytes: Number.MAX_SAFE_INTEGER,
  });
}

/** (g) A PID that was assigned is larger than all in the queue: what came before stands before. */
export function outOfLine(events: readonly HistoryEvent[], found: readonly FinalTask[]): string[] {
  const left = new Map(found.map(({ data, queue }) => [data, queue]));
  const assigned = events.flatMap(({ id, call, outcome, calledSeq, endedSeq }) => {
    if (call.kind !== 'update' || outcome.kind !== 'updated') return [];
    return call.enqueue.flatMap(({ pid, queue, data }, index) => {
      const told = outcome.enqueued[index]?.pid;
      return pid === undefined && told !== undefined ? [{ id, queue, data, pid: told, calledSeq, endedSeq }] : [];
    });
  });
  return assigned
    .filter(({ data, queue }) => left.get(data) === queue)
    .flatMap((first) =>
      assigned
        .filter(({ queue, calledSeq, pid }) => queue === first.queue && calledSeq > first.endedSeq && pid <= first.pid)
        .map(({ id, queue }) => `(g) #${id} was placed before #${first.id} in ${queue}, though it came later`),
    );
}

function engineOf(cluster: SimCluster, queue: string): Engine {
  const { group } = parseQueueName(queue);
  const holder = cluster.holderOf(group);
  if (!holder) throw new Error(`nobody holds ${queue}`);
  return holder.h.engine;
}

/** Tasks may show between one look and the next, but never hide. */
async function scan(engine: Engine, queue: string): Promise<readonly TaskView[]> {
  const shown = new Map<string, TaskView>();
  for (const kind of ['leased', 'delayed', 'head'] as const) {
    const command = { queue: parseQueueName(queue), kind, limit: EVERYTHING, includeData: true };
    for (const task of await engine.peekTasks(command)) shown.set(task.pid, task);
  }
  return [...shown.values()];
}

const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('latin1');
