import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, portOf } from '../../cluster.ts';
import { type Measurement, percentile } from '../../measurement.ts';
import type { ServerProcess } from '../../processes.ts';
import type { Bench, Row } from '../../row.ts';
import { Caller } from './caller.ts';

const NODES = 3;
/** Number of kills in each repetition. */
const KILLS = 4;

/** Times from the kill of a node until its group is served again, by the clock of this process, in ms. */
interface Outage {
  /** Until the process of the node reports that it serves. */
  readonly readyMs: number;
  /** Until the node answers a call to itself. */
  readonly nodeMs: number;
  /** Until a call through another node is answered. */
  readonly routedMs: number;
}

/** The outage that a kill causes: a node is killed and restarted at once, while callers call its group. */
export const kill: Row = {
  name: 'kill',
  about: 'a node of 3 is killed and started again at once: until it answers itself, and through the router of another',
  when: 'all',
  async *run(bench) {
    const cluster = await Cluster.start(bench.processes, NODES, ['--engine-partitions=64']);
    const outages: Outage[] = [];
    const [through, ...victims] = cluster.running.map(({ name }) => name);
    for (let number = 0; number < KILLS * bench.scale.repetitions; number++) {
      bench.progress(`kill ${number + 1}`);
      const victim = victims[number % victims.length] ?? '';
      outages.push(await killOnce(cluster, victim, cluster.node(through ?? '')));
      await cluster.settled();
      await delay(bench.scale.warmUpMs);
    }
    await cluster.stop();
    yield line(bench, outages);
  },
};

async function killOnce(cluster: Cluster, victim: string, through: ServerProcess): Promise<Outage> {
  const [group = ''] = await cluster.groupsOf(victim, 1);
  const { endpoint } = cluster.node(victim);
  using routed = new Caller(through.endpoint, group, false);
  using direct = new Caller(endpoint, group, true);
  await Promise.all([routed.answer(), direct.answer()]);
  await cluster.node(victim).kill();
  const died = performance.now();
  const since = (): number => performance.now() - died;
  const [readyMs, nodeMs, routedMs] = await Promise.all([
    cluster.restart(victim).then(since),
    direct.answer().then(since),
    routed.answer().then(since),
  ]);
  if (portOf(cluster.node(victim).endpoint) !== portOf(endpoint))
    throw new Error(`${victim} restarted at another address`);
  return { readyMs, nodeMs, routedMs };
}

function line({ load }: Bench, outages: readonly Outage[]): Measurement {
  const of = (what: keyof Outage): number[] => outages.map((outage) => Math.round(outage[what]));
  const routing = outages.map(({ nodeMs, routedMs }) => Math.round(routedMs - nodeMs));
  const [ready, node, routed] = [of('readyMs'), of('nodeMs'), of('routedMs')];
  return {
    row: kill.name,
    variant: `${NODES} nodes`,
    baseline: 'node itself',
    ratio: percentile(routed, 50) / percentile(node, 50),
    load,
    more: {
      kills: outages.length,
      ready_p50_ms: percentile(ready, 50),
      ready_max_ms: Math.max(...ready),
      node_p50_ms: percentile(node, 50),
      node_max_ms: Math.max(...node),
      routed_p50_ms: percentile(routed, 50),
      routed_max_ms: Math.max(...routed),
      routing_p50_ms: percentile(routing, 50),
      routing_max_ms: Math.max(...routing),
    },
  };
}
