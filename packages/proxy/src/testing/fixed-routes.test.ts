import { routesContract } from '@taskmaster/server/testing';
import { FixedRoutes } from './fixed-routes.ts';

routesContract('FixedRoutes', async () => {
  const nodes = ['a', 'b'].map((name) => ({ nodeId: `id-${name}`, name, address: `${name}:1`, alive: true }));
  const routes = new FixedRoutes({ nodes, partitions: 4 });
  return {
    routes,
    partitions: 4,
    move: async (partition, to) =>
      routes.set(partition, to === 'a' ? 0 : 1, 1 + (routes.holderOf(partition)?.epoch ?? 0)),
    loseB: async () => routes.change(1, { alive: false }),
  };
});
