import { keptLog } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { FixedRoutes } from '../../testing/fixed-routes.ts';
import { Reachability } from './reachability.ts';
import type { RoutedNode } from './routes.ts';

const node = (name: string): RoutedNode => ({ nodeId: `id-${name}`, name, address: `${name}:7400`, alive: true });

/** A cluster of which some nodes can be reached. */
function setUp(nodes: RoutedNode[]) {
  const up = new Set<string>();
  const log = keptLog();
  const routes = new FixedRoutes({ nodes, partitions: 8, holder: () => undefined });
  const reachability = new Reachability({ routes, isReachable: async (address) => up.has(address), log });
  return {
    reachability,
    nodes,
    up,
    log,
    said: () => log.lines.map(({ level, message, details }) => ({ level, message, details })),
    [Symbol.dispose]: () => reachability[Symbol.dispose](),
  };
}

test('nothing is logged while no node is known: the observer logs that', async () => {
  using proxy = setUp([]);
  await proxy.reachability.look();
  expect(proxy.said()).toEqual([]);
  expect(proxy.reachability.isReachable).toBe(false);
});

test('each change is logged once, with the nodes that can be reached', async () => {
  using proxy = setUp([node('a'), node('b')]);
  const { reachability, up } = proxy;
  up.add('b:7400');
  for (let look = 0; look < 3; look++) await reachability.look();
  await reachability.reached;
  expect(reachability.nodes.map(({ name }) => name)).toEqual(['b']);
  up.clear();
  for (let look = 0; look < 3; look++) await reachability.look();
  expect(reachability.isReachable).toBe(false);
  up.add('a:7400');
  await reachability.look();
  expect(proxy.said()).toEqual([
    { level: 'info', message: 'the cluster can be reached', details: { nodes: ['b b:7400'] } },
    {
      level: 'warn',
      message:
        'no node of the cluster can be reached; calls are refused until one can. If these nodes are gone for good, restart the proxy with --join and the address of a running node',
      details: { nodes: ['a a:7400', 'b b:7400'] },
    },
    { level: 'info', message: 'the cluster can be reached again', details: { nodes: ['a a:7400'] } },
  ]);
});
