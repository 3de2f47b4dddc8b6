import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, portOf } from '../../cluster.ts';
import { round } from '../../machine.ts';
import { atMost, type Measurement, type PacedResult } from '../../measurement.ts';
import type { ServerProcess } from '../../processes.ts';
import type { Bench, Row } from '../../row.ts';

const NODES = 3;
const PROXIES = 2;
const GROUPS = 30;
const TASKS_PER_S = 200;
const LONG_MS = 30 * 60_000;

/** Restarts all processes one after the other, under the load of an ordinary client. */
export const rollingRestart: Row = {
  name: 'rolling-restart',
  about: '3 nodes and 2 proxies restarted one after the other under load: calls, repetitions, failures, longest call',
  when: 'all',
  async *run(bench) {
    const { processes, scale } = bench;
    const cluster = await Cluster.start(processes, NODES);
    const proxies: ServerProcess[] = [];
    for (let number = 0; number < PROXIES; number++) proxies.push(await processes.proxy(cluster.endpoints));
    const generator = processes.generator();
    const queues = Array.from({ length: GROUPS }, (_, number) => `g${number}#bench`);
    const endpoint = proxies.map((proxy) => proxy.endpoint).join(',');
    const load = { kind: 'paced', endpoint, via: 'client', queues, batch: 1, tasksPerS: TASKS_PER_S } as const;
    bench.progress('undisturbed');
    await generator.run({ ...load, ms: scale.warmUpMs });
    const still = await generator.run({ ...load, ms: scale.runMs });
    for (let round = 1; round <= scale.repetitions; round++) {
      bench.progress(`restarts, round ${round}`);
      const running = generator.run({ ...load, ms: LONG_MS });
      await delay(scale.warmUpMs);
      await restartAll(cluster, proxies, bench);
      await generator.run({ kind: 'stop-paced' });
      yield line(bench, `round ${round}`, await running, still);
    }
    await generator.stop();
    for (const proxy of proxies) await proxy.stop();
    await cluster.stop();
  },
};

async function restartAll(cluster: Cluster, proxies: ServerProcess[], { processes, scale }: Bench): Promise<void> {
  for (const { name, process } of cluster.running) {
    await process.stop();
    await cluster.restart(name);
    await delay(scale.warmUpMs);
  }
  for (const [index, proxy] of proxies.entries()) {
    await proxy.stop();
    proxies[index] = await processes.proxy(cluster.endpoints, [`--grpc-port=${portOf(proxy.endpoint)}`]);
    await delay(scale.warmUpMs);
  }
}

function line({ load }: Bench, variant: string, restarted: PacedResult, still: PacedResult): Measurement {
  const { p50Ms, p99Ms, maxMs, calls, repeated, failed, reasons, elapsedMs } = restarted;
  return {
    row: rollingRestart.name,
    variant,
    tasksPerS: (restarted.tasks * 1000) / elapsedMs,
    p50Ms,
    p99Ms,
    baseline: 'undisturbed',
    baselinePerS: (still.tasks * 1000) / still.elapsedMs,
    ratio: (p50Ms ?? Number.NaN) / (still.p50Ms ?? Number.NaN),
    target: atMost('failed', failed, 0),
    load,
    more: {
      took_s: round(elapsedMs / 1000, 1),
      calls,
      repeated,
      failed,
      ...(failed > 0 && { reasons: JSON.stringify(reasons) }),
      call_max_ms: round(maxMs, 1),
      baseline_p50_ms: round(still.p50Ms ?? 0, 3),
      baseline_p99_ms: round(still.p99Ms ?? 0, 3),
      baseline_call_max_ms: round(still.maxMs, 1),
    },
  };
}
