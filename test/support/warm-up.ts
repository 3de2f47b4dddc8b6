import { bundlePrograms } from './processes/bundle-programs.ts';

/**
 * Bundles the programs, and runs a node and a proxy to their ends. Only then Node.js keeps their compiled code
 * (`NODE_COMPILE_CACHE`), and most tests kill their programs.
 */
export async function setup(): Promise<void> {
  await bundlePrograms();
  // Loaded only now, because they look for the bundles.
  const { TestCluster } = await import('./processes/start-cluster.ts');
  const { startProxy } = await import('./processes/start-proxy.ts');
  await using cluster = await TestCluster.start({ nodes: 1 });
  await using proxy = await startProxy(cluster.endpoints);
  await Promise.all([proxy.process.kill('SIGTERM'), cluster.node('a').stop()]);
}
