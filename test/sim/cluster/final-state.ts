import type { Engine, SimCluster } from '@taskmaster/node/testing';
import {
  encodeToBuffer,
  formatQueueName,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  parseQueueName,
} from '@taskmaster/proto';
import type { LeasedTask } from '@taskmaster/server/domain';
import type { HistoryEvent } from '../../support/history.ts';
import type { FinalTask } from '../../support/history-checker.ts';
import type { Way } from './client.ts';
import { GROUPS, QUEUES } from './workload.ts';

const EVERYTHING = 100_000;
/** Most leases, delays and backoffs of the workload are over after so long. */
const MOST_SHOWN_MS = 8_000;
/** All of them are; the time that messages took may have been added to them. */
const ALL_SHOWN_MS = 60_000;
const LOOK_MS = 4_000;

export interface FinalState {
  readonly tasks: readonly FinalTask[];
  /** (f) and (g), as far as what is there now tells. */
  readonly violations: readonly string[];
}

/** Leases everything that is left in a cluster at rest, and compares it with what is counted before and after. */
export async function findEverything(cluster: SimCluster, proxy: Way): Promise<FinalState> {
  const violations: string[] = [];
  const expected = new Map<string, number>();
  for (const group of GROUPS) {
    const { available, leased, delayed } = await totalsOf(cluster, group);
    expected.set(group, available + leased + delayed);
  }
  const found = new Map<string, LeasedTask[]>(GROUPS.map((group) => [group, []]));
  await cluster.pass(MOST_SHOWN_MS);
  for (let passed = 0; passed < ALL_SHOWN_MS; passed += LOOK_MS) {
    for (const group of GROUPS) {
      const leased = await cluster.run(leaseAll(engineOf(cluster, group), group));
      violations.push(...outOfOrder(leased));
      found.get(group)?.push(...leased);
    }
    if (GROUPS.every((group) => (found.get(group)?.length ?? 0) >= (expected.get(group) ?? 0))) break;
    await cluster.pass(LOOK_MS);
  }
  for (const group of GROUPS) {
    const tasks = found.get(group)?.length;
    const { available, leased, delayed } = await totalsOf(cluster, group);
    const counts = `${expected.get(group)} in ${group} before, and ${[available, leased, delayed]} after all were leased`;
    if (tasks !== expected.get(group) || leased !== tasks || available + delayed > 0) {
      violations.push(`(f) counted ${counts}, but found ${tasks}`);
    }
  }
  violations.push(...(await countThroughProxy(cluster, proxy)));
  const tasks = [...found.values()].flat();
  return {
    tasks: tasks.map(({ queue, pid, data }) => ({ queue: formatQueueName(queue), pid, data: textOf(data) })),
    violations,
  };
}

const stagesOf = (group: string): string[] => QUEUES.filter((queue) => queue.startsWith(`${group}#`));

async function totalsOf(cluster: SimCluster, group: string) {
  const queues = stagesOf(group).map(parseQueueName);
  const { totals } = await cluster.run(engineOf(cluster, group).queueStats({ kind: 'named', queues }));
  return totals;
}

/** (g) The lowest PIDs of a queue come first. */
function outOfOrder(leased: readonly LeasedTask[]): string[] {
  const last = new Map<string, string>();
  return leased.flatMap(({ queue: name, pid }) => {
    const queue = formatQueueName(name);
    const before = last.get(queue);
    last.set(queue, pid);
    return before === undefined || before < pid ? [] : [`(g) ${queue} gave ${before} before ${pid}`];
  });
}

/** (f) as anybody sees it, while nothing changes. */
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

function leaseAll(engine: Engine, group: string): Promise<readonly LeasedTask[]> {
  return engine.leaseTasks({
    queues: stagesOf(group).map(parseQueueName),
    maxTasks: EVERYTHING,
    leaseMs: 10 * ALL_SHOWN_MS,
    maxPid: undefined,
    waitMs: 0,
    worker: 'last',
    workerAddress: '',
    maxBytes: Number.MAX_SAFE_INTEGER,
  });
}

function engineOf(cluster: SimCluster, group: string): Engine {
  const holder = cluster.holderOf(group);
  if (!holder) throw new Error(`nobody holds group ${group}`);
  return holder.h.engine;
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');

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
