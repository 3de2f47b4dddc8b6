import { join } from 'node:path';
import { root } from './paths.ts';
import { bundlePrograms } from './processes/bundle-programs.ts';
import { runProcess } from './processes/child-process.ts';

/**
 * Bundles the programs, builds the console, and runs a node and a proxy to their ends. Only then Node.js keeps their compiled
 * code (`NODE_COMPILE_CACHE`), and most tests kill their programs.
 */
export async function setup(): Promise<void> {
  await Promise.all([bundlePrograms(), buildConsole()]);
  // Loaded only now, because they look for the bundles.
  const { TestCluster } = await import('./processes/start-cluster.ts');
  const { startProxy } = await import('./processes/start-proxy.ts');
  await using cluster = await TestCluster.start({ nodes: 1 });
  await using proxy = await startProxy(cluster.endpoints);
  await Promise.all([proxy.process.kill('SIGTERM'), cluster.node('a').stop()]);
}

/** Does nothing if the console is built already. */
async function buildConsole(): Promise<void> {
  const script = join(root, 'packages', 'console', 'scripts', 'build.ts');
  const { code, stderr } = await runProcess(process.execPath, [script]);
  if (code !== 0) throw new Error(`the console could not be built: ${stderr}`);
}
