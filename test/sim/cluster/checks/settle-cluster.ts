import type { PartitionId } from '@taskmaster/engine/domain';
import type { SimCluster, SimNode } from '@taskmaster/node/testing';
import type { Observer } from '@taskmaster/server/cluster-view';
import type { Faults } from '../faults/faults.ts';
import { leftoversOf } from './leftovers.ts';

/** Without faults, every partition must be at the node that the ring assigns within this time. */
const SETTLE_MS = 90_000;
const LOOK_MS = 250;

/** Waits until the cluster and its observers have settled. Returns the problems that are left at the end of the limit. */
export async function settleCluster(
  cluster: SimCluster,
  faults: Faults,
  observers: ReadonlyMap<string, Observer>,
): Promise<string[]> {
  // Late messages still arrive.
  await cluster.pass(cluster.network.weather.lateMs);
  let wrong: string[] = [];
  for (let passed = 0; passed < SETTLE_MS; passed += LOOK_MS) {
    await cluster.pass(LOOK_MS);
    for (const node of faults.staying) faults.revive(node);
    faults.relieve();
    wrong = unsettled(cluster, faults, observers);
    if (wrong.length === 0) return [];
  }
  return wrong.map((problem) => `not settled after ${SETTLE_MS} ms without faults: ${problem}`);
}

function shown(holding: ReturnType<SimNode['partitions']['holding']>): string {
  if (!holding) return 'never';
  return `${holding.kind} at epoch ${holding.epoch}${'to' in holding && holding.to ? ` to ${holding.to}` : ''}`;
}

function unsettled(cluster: SimCluster, faults: Faults, observers: ReadonlyMap<string, Observer>): string[] {
  const nodes = faults.staying;
  const away = nodes.filter(({ isUp, isStarting }) => !isUp || isStarting);
  if (away.length > 0) return away.map(({ name }) => `${name} is not up`);
  const leaving = nodes.filter(({ agent }) => agent.self?.state !== 'active');
  if (leaving.length > 0) return leaving.map(({ name, agent }) => `${name} is ${agent.self?.state}`);
  const [first] = nodes;
  const wrong: string[] = [];
  // A transfer that began long ago may still be in progress.
  for (const { name, agent } of nodes) {
    if (!agent.mayCommit) wrong.push(`${name} serves nothing: ${agent.problem}`);
    for (const { id, to } of agent.inventory()) if (to !== '') wrong.push(`${name} sends partition ${id} to ${to}`);
  }
  for (let id = 0; id < cluster.partitions; id++) {
    const wanted = first?.agent.desired[id];
    const serving = cluster.serving(id as PartitionId).map((name) => `id-${name}`);
    if (serving.length !== 1 || serving[0] !== wanted) {
      const all = nodes.map(({ name, partitions }) => `${name}: ${shown(partitions.holding(id as PartitionId))}`);
      wrong.push(`${wanted} should serve partition ${id}, ${serving.join() || 'no node'} does (${all.join('; ')})`);
    }
    for (const [name, observer] of observers) {
      const known = observer.holderOf(id)?.nodeId;
      if (known !== serving[0]) wrong.push(`${name} sends partition ${id} to ${known}`);
    }
    for (const { name, agent } of nodes) {
      const known = agent.view.get(id as PartitionId)?.nodeId;
      if (known !== serving[0]) wrong.push(`${name} thinks that ${known} holds partition ${id}`);
      const thought = agent.desired[id];
      if (thought !== wanted) wrong.push(`${name} thinks that ${thought} should serve partition ${id}, not ${wanted}`);
    }
  }
  wrong.push(...nodes.flatMap(leftoversOf));
  return wrong;
}
