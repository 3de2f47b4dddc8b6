import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { MixedLoad } from './mixed-load.ts';
import { verifyLoad } from './verify-load.ts';

const GROUPS = Array.from({ length: 10 }, (_, number) => `load-${number}`);

test('no call fails while all nodes and proxies restart one after the other', { timeout: 180_000 }, async () => {
  await using cluster = await TestCluster.start();
  const proxies = [await startProxy(cluster.endpoints), await startProxy(cluster.endpoints)];
  await using _proxies = {
    async [Symbol.asyncDispose]() {
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
    },
  };
  const endpoints = proxies.map(({ endpoint }) => endpoint);
  // The first attempt and three more: a call that needs a fifth fails the test.
  const load = await MixedLoad.start({ endpoints, seed: 1, groups: GROUPS, maxAttempts: 4 });
  const goOn = async (): Promise<void> => {
    const enough = load.acknowledged + 100;
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 30_000 });
  };
  await goOn();
  for (const name of ['a', 'b', 'c']) {
    expect((await cluster.node(name).stop()).code).toBe(0);
    await cluster.start(name);
    await goOn();
  }
  for (const [index, proxy] of proxies.entries()) {
    expect((await proxy.process.kill('SIGTERM')).code).toBe(0);
    const port = proxy.endpoint.split(':')[1];
    proxies[index] = await startProxy(cluster.endpoints, [`--grpc-port=${port}`]);
    await goOn();
  }
  await load.stop();
  await using client = await cluster.connect();
  const { summary, problem } = await verifyLoad(client, load.history);
  console.log(`restarts of 3 nodes and 2 proxies: ${summary}; ${load.failed} calls failed`);
  expect(problem).toBe('');
  expect(load.failed).toBe(0);
});
