import type { FinalTask, HistoryEvent } from '@taskmaster/cli/testing/history';
import type { Engine } from '@taskmaster/engine';
import { dataOf, type LeasedTask } from '@taskmaster/engine/domain';
import type { SimCluster } from '@taskmaster/node/testing';
import {
  encodeToBuffer,
  formatQueueName,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  parseQueueName,
} from '@taskmaster/proto';
import type { Way } from '../calls/client.ts';
import { GROUPS, QUEUES } from '../calls/workload.ts';
import type { FirstLease } from './late-starts.ts';

const EVERYTHING = 100_000;
/** After this time most leases, delays and backoffs of the workload are over. */
const MOST_SHOWN_MS = 8_000;
/** After this time all of them are over, even if travel times of messages were added to them. */
const ALL_SHOWN_MS = 60_000;
const LOOK_MS = 4_000;

export interface FinalState {
  readonly tasks: readonly FinalTask[];
  /** Those that were leased for the first time. */
  readonly first: readonly FirstLease[];
  /** Violations of (f) and (g) in the final state. */
  readonly violations: readonly string[];
}

/** Leases all tasks that are left in a settled cluster, and compares their number with the counts before and after. */
export async function findEverything(cluster: SimCluster, proxy: Way): Promise<FinalState> {
  const violations: string[] = [];
  const expected = new Map<string, number>();
  for (const group of GROUPS) {
    const { available, leased, delayed } = await totalsOf(cluster, group);
    expected.set(group, available + leased + delayed);
  }
  const found = new Map<string, LeasedTask[]>(GROUPS.map((group) => [group, []]));
  const first: FirstLease[] = [];
  await cluster.pass(MOST_SHOWN_MS);
  for (let passed = 0; passed < ALL_SHOWN_MS; passed += LOOK_MS) {
    for (const group of GROUPS) {
      const leased = await cluster.run(leaseAll(engineOf(cluster, group), group));
      violations.push(...outOfOrder(leased));
      found.get(group)?.push(...leased);
      for (const { queue, attempt, ...payload } of leased) {
        const data = textOf(dataOf(payload));
        if (attempt === 1) first.push({ queue: formatQueueName(queue), data, at: cluster.time.now() });
      }
    }
    if (GROUPS.every((group) => (found.get(group)?.length ?? 0) >= (expected.get(group) ?? 0))) break;
    await cluster.pass(LOOK_MS);
  }
  for (const group of GROUPS) {
    const tasks = found.get(group)?.length;
    const { available, leased, delayed } = await totalsOf(cluster, group);
    const counts = `${expected.get(group)} in ${group} before, and ${[available, leased, delayed]} after the leases`;
    if (tasks !== expected.get(group) || leased !== tasks || available + delayed > 0) {
      violations.push(`(f) counted ${counts}, but found ${tasks}`);
    }
  }
  violations.push(...(await countThroughProxy(cluster, proxy)));
  const tasks = [...found.values()].flat();
  return {
    tasks: tasks.map(({ queue, pid, ...payload }) => ({
      queue: formatQueueName(queue),
      pid,
      data: textOf(dataOf(payload)),
    })),
    first,
    violations,
  };
}

const stagesOf = (group: string): string[] => QUEUES.filter((queue) => queue.startsWith(`${group}#`));

async function totalsOf(cluster: SimCluster, group: string) {
  const queues = stagesOf(group).map(parseQueueName);
  const { totals } = await cluster.run(engineOf(cluster, group).queueStats({ kind: 'named', queues }));
  return totals;
}

/** (g) Tasks of a queue are leased in order of their PIDs. */
function outOfOrder(leased: readonly LeasedTask[]): string[] {
  const last = new Map<string, string>();
  return leased.flatMap(({ queue: name, pid }) => {
    const queue = formatQueueName(name);
    const before = last.get(queue);
    last.set(queue, pid);
    return before === undefined || before < pid ? [] : [`(g) ${queue}: ${before} was leased before ${pid}`];
  });
}

/** (f) The counts through a proxy must equal those of the nodes, while nothing changes. */
async function countThroughProxy(cluster: SimCluster, proxy: Way): Promise<string[]> {
  const request = encodeToBuffer(GetQueueStatsRequest, { queues: [...QUEUES], filter: undefined });
  const { queues } = GetQueueStatsResponse.decode(await cluster.run(asking(proxy, request)));
  const violations: string[] = [];
  for (const group of GROUPS) {
    const { leased } = await totalsOf(cluster, group);
    const told = queues.filter(({ queue }) => queue.startsWith(`${group}#`)).reduce((sum, one) => sum + one.leased, 0);
    if (told !== leased)
      violations.push(`(f) a proxy counts ${told} leased tasks in ${group}; its node counts ${leased}`);
  }
  return violations;
}

/** Asks a proxy up to five times, because its answers may still be lost. */
async function asking(proxy: Way, request: Uint8Array): Promise<Uint8Array> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await proxy('GetQueueStats', request);
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

function leaseAll(engine: Engine, group: string): Promise<readonly LeasedTask[]> {
  return engine.leaseTasks({
    queues: stagesOf(group).map(parseQueueName),
    maxTasks: EVERYTHING,
    leaseDurationMs: 10 * ALL_SHOWN_MS,
    maxPid: undefined,
    waitMs: 0,
    worker: 'last',
    workerAddress: '',
    maxBytes: Number.MAX_SAFE_INTEGER,
  });
}

function engineOf(cluster: SimCluster, group: string): Engine {
  const holder = cluster.holderOf(group);
  if (!holder) throw new Error(`no node holds group ${group}`);
  return holder.h.engine;
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');

/** (g) An assigned PID is larger than all PIDs in the queue, so earlier tasks come first. */
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
        .map(
          ({ id, queue }) => `(g) #${id} has a smaller PID than #${first.id} in ${queue}, although it was called later`,
        ),
    );
}
