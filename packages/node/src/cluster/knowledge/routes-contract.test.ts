import type { PartitionId } from '@taskmaster/engine/domain';
import { VirtualClock } from '@taskmaster/engine/testing';
import { LateRoutes } from '@taskmaster/server/cluster-view';
import type { Routes } from '@taskmaster/server/ports';
import { type RoutesWorld, routesContract } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { clusterOf, DEATH_MS } from '../../testing/cluster-fixtures.ts';
import type { SimCluster } from '../../testing/sim-cluster.ts';
import { MemberRoutes } from '../member-routes.ts';

/** The routes of node `a`. */
const memberRoutes = (cluster: SimCluster): Routes => {
  const { agent, membership } = cluster.node('a');
  return new MemberRoutes(agent, membership);
};

const observe = (cluster: SimCluster): Routes =>
  cluster.observe('p', new VirtualClock({ time: cluster.time, machine: 'p' }), { contacts: ['a'], seeds: ['a', 'b'] });

function lateRoutes(cluster: SimCluster): Routes {
  const routes = new LateRoutes();
  routes.become(memberRoutes(cluster));
  return routes;
}

const onCluster = (routesOf: (cluster: SimCluster) => Routes) => async (): Promise<RoutesWorld> => {
  const cluster = await clusterOf(['a', 'b']);
  const routes = routesOf(cluster);
  await cluster.pass(10_000);
  return {
    routes,
    partitions: cluster.partitions,
    move: async (partition, to) => {
      const [from = expect.unreachable('it has no holder')] = cluster.serving(partition as PartitionId);
      await cluster.run(cluster.node(from).send(partition as PartitionId, cluster.node(to)));
      // Before the ring moves it back.
      await cluster.pass(30);
    },
    loseB: async () => {
      await cluster.run(cluster.node('b').lose());
      await cluster.pass(DEATH_MS);
    },
  };
};

routesContract('MemberRoutes', onCluster(memberRoutes));
routesContract('Observer', onCluster(observe));
routesContract('LateRoutes', onCluster(lateRoutes));

test('routes that become known later tell the listeners that are still there', async () => {
  const cluster = await clusterOf(['a', 'b']);
  const late = new LateRoutes();
  const called: string[] = [];
  const ends = ['first', 'second', 'third'].map((name) => late.onChange(() => called.push(name)));
  ends[0]?.();
  expect([late.partitions, late.nodes(), late.holderOf(0)]).toEqual([0, [], undefined]);
  late.become(memberRoutes(cluster));
  expect(called).toEqual(['second', 'third']);
  ends[1]?.();
  late.learn(0, { nodeId: 'id-new', address: 'new:1', epoch: 99 });
  expect(called).toEqual(['second', 'third', 'third']);
});
