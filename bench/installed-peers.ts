import { PeerResults } from './peer-results.ts';
import { installLibraries } from './peers/libraries.ts';
import { measurePeers } from './peers/measure.ts';
import { missingOf, peers } from './peers/peers.ts';
import { OURSELVES, type WorkloadName } from './peers/results.ts';
import type { Bench, PeerSource } from './row.ts';

/** Figures from earlier measurements, which may be empty. */
export function knownPeers(results: PeerResults): PeerSource {
  return { of: () => Promise.resolve(results) };
}

/**
 * Measures the queues that are installed on this machine in the same run. Each workload is measured once, right after the
 * first row that needs it and with the same number of rounds. Installs their client libraries if they are missing.
 */
export function installedPeers(): PeerSource {
  const measured = new Map<WorkloadName, PeerResults>();
  return {
    async of(workload, bench) {
      const results = measured.get(workload) ?? (await measure(workload, bench));
      measured.set(workload, results);
      return results;
    },
  };
}

async function measure(workload: WorkloadName, { scale, processes, progress }: Bench): Promise<PeerResults> {
  const installed = peers.filter((peer) => peer.name !== OURSELVES && missingOf(peer) === undefined);
  if (installed.length === 0) return new PeerResults([]);
  await installLibraries(() => progress('installing the client libraries of other queues'));
  const { results, failures } = await measurePeers(processes, {
    peers: installed,
    workloads: [workload],
    rounds: scale.repetitions,
    runMs: scale.runMs,
    handOvers: scale.handOvers,
    deepTasks: scale.deepTasks,
    progress,
  });
  for (const { peer, error } of failures) process.stderr.write(`${peer}: ${error}\n`);
  return new PeerResults(results);
}
