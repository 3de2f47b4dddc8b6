import { TestCluster } from './processes/start-cluster.ts';
import { startProxy } from './processes/start-proxy.ts';

/**
 * Runs a node and a proxy to their ends. Only then Node.js keeps their compiled code (`NODE_COMPILE_CACHE`), and most tests kill
 * their programs.
 */
export async function setup(): Promise<void> {
  await using cluster = await TestCluster.start({ nodes: 1 });
  await using proxy = await startProxy(cluster.endpoints);
  await Promise.all([proxy.process.kill('SIGTERM'), cluster.node('a').stop()]);
}
