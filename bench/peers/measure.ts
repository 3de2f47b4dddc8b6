import { setTimeout as delay } from 'node:timers/promises';
import { loadAverage, round } from '../machine.ts';
import { median } from '../measurement.ts';
import type { Processes } from '../processes.ts';
import { memoryOfTrees } from './memory.ts';
import { PeerUnderLoad } from './peer-under-load.ts';
import type { Peer } from './peers.ts';
import type { PeerResult, WorkloadName } from './results.ts';
import type { WorkloadResult } from './workloads.ts';

const MIB = 1024 * 1024;
/** Time without calls before the memory of a server is measured. */
const SETTLE_MS = 3_000;

/**
 * The order on one server: first workloads that need an empty queue, then those that take tasks, then those that leave tasks.
 * Memory is measured on another server.
 */
const ORDER: readonly WorkloadName[] = [
  'enqueue-to-waiting',
  'lease-complete-single',
  'worker',
  'lease-complete-50',
  'enqueue-single',
  'enqueue-50',
];

export interface PeerPlan {
  readonly peers: readonly Peer[];
  readonly workloads: readonly WorkloadName[];
  readonly rounds: number;
  /** Duration of one run, in ms. */
  readonly runMs: number;
  /** Number of tasks for a waiting consumer in one round. */
  readonly handOvers: number;
  /** Number of tasks in the queue whose memory is measured. */
  readonly deepTasks: number;
  progress(doing: string): void;
}

/** A workload that could not be measured. */
interface PeerFailure {
  readonly peer: string;
  /** Undefined: the peer could not be measured at all. */
  readonly workload: WorkloadName | undefined;
  readonly error: string;
}

export interface PeerReport {
  readonly results: readonly PeerResult[];
  readonly failures: readonly PeerFailure[];
}

/** The result of one workload in one round. */
export interface Run extends WorkloadResult {
  readonly peer: string;
  readonly workload: WorkloadName;
  readonly versions: string;
  readonly load: number;
  readonly memoryMib?: number | undefined;
}

/**
 * Measures peers in rounds. In each round every peer runs each workload once, on a new server. So if another process slows the
 * machine for some time, it slows all peers.
 */
export async function measurePeers(processes: Processes, plan: PeerPlan): Promise<PeerReport> {
  const runs: Run[] = [];
  const failures: PeerFailure[] = [];
  const inOrder = ORDER.filter((name) => plan.workloads.includes(name));
  for (let number = 1; number <= plan.rounds; number++) {
    for (const peer of plan.peers) {
      const place = `round ${number} of ${plan.rounds}, ${peer.name}`;
      await measureOne(processes, peer, inOrder, plan, place, runs, failures);
    }
  }
  if (plan.workloads.includes('memory-1m')) {
    for (const peer of plan.peers) await measureOne(processes, peer, ['memory-1m'], plan, peer.name, runs, failures);
  }
  return { results: summarize(runs), failures };
}

/** Adds results to `runs` and `failures`. A workload that fails ends the round of its peer. */
async function measureOne(
  processes: Processes,
  peer: Peer,
  workloads: readonly WorkloadName[],
  plan: PeerPlan,
  place: string,
  runs: Run[],
  failures: PeerFailure[],
): Promise<void> {
  if (workloads.length === 0) return;
  let workload: WorkloadName | undefined;
  let underLoad: PeerUnderLoad | undefined;
  try {
    plan.progress(`${place}: starting`);
    const load = loadAverage();
    underLoad = await PeerUnderLoad.start(processes, peer);
    for (workload of workloads) {
      plan.progress(`${place}: ${workload}`);
      const tasks = workload === 'memory-1m' ? plan.deepTasks : plan.handOvers;
      const result = await underLoad.run({ workload, ms: plan.runMs, tasks });
      if (result === undefined) continue;
      const memoryMib = workload === 'memory-1m' ? await settledMemory(underLoad.serverPids) : undefined;
      runs.push({ ...result, peer: peer.name, workload, versions: underLoad.versions, load, memoryMib });
    }
  } catch (error) {
    failures.push({ peer: peer.name, workload, error: error instanceof Error ? error.message : String(error) });
  } finally {
    await underLoad?.stop();
  }
}

async function settledMemory(pids: readonly number[]): Promise<number | undefined> {
  await delay(SETTLE_MS);
  const bytes = memoryOfTrees(pids);
  return bytes === undefined ? undefined : round(bytes / MIB, 0);
}

/** One result for each peer and workload: medians over its rounds. */
export function summarize(runs: readonly Run[]): PeerResult[] {
  const grouped = Map.groupBy(runs, ({ peer, workload }) => `${peer} ${workload}`);
  return [...grouped.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const { peer, workload, versions, confirmed, how, load, memoryMib, tasks } = first;
    const isLatency = workload === 'enqueue-to-waiting';
    const rates = group.map((run) => round((run.tasks * 1000) / run.elapsedMs, 0));
    const p50s = group.flatMap(({ p50Ms }) => (p50Ms === undefined ? [] : [round(p50Ms, 3)]));
    const p99s = group.flatMap(({ p99Ms }) => (p99Ms === undefined ? [] : [round(p99Ms, 3)]));
    return [
      {
        peer,
        workload,
        durability: 'fsync',
        tasksPerS: isLatency ? undefined : median(rates),
        p50Ms: p50s.length === 0 ? undefined : median(p50s),
        p99Ms: p99s.length === 0 ? undefined : median(p99s),
        confirmed,
        versions,
        all: isLatency ? p50s : rates,
        load,
        how,
        ...(memoryMib !== undefined && { more: { tasks, memory_mib: memoryMib } }),
      } satisfies PeerResult,
    ];
  });
}
