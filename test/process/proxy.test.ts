import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { runProxy, startProxy } from '../support/processes/start-proxy.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { watchAll } from '../support/watch-all.ts';

const readyz = async (http: string): Promise<number> => (await fetch(`http://${http}/readyz`)).status;

describe('a proxy of a running cluster', { timeout: 60_000 }, () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await TestCluster.start({ nodes: 2 });
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  test('serves until it is stopped; long polls then end without tasks', async () => {
    await using proxy = await startProxy(cluster.endpoints);
    await eventually(async () => expect(await readyz(proxy.http)).toBe(200));
    await eventually(async () => {
      const metrics = await (await fetch(`http://${proxy.http}/metrics`)).text();
      expect(metrics).toContain('taskmaster_proxy_nodes{alive="true"} 2');
    });

    await using client = await connect({ endpoints: proxy.endpoint, retry: { maxAttempts: 1 } });
    await client.queue('shop#mail').enqueue('x');
    expect(await (await fetch(`http://${proxy.http}/api/queues`)).json()).toMatchObject({
      queues: [{ queue: 'shop#mail', available: 1 }],
    });
    await client.schedules.put('shop#nightly', { queue: 'shop#mail', data: 1, cron: '0 3 * * *' });
    expect(await (await fetch(`http://${proxy.http}/api/schedules`)).json()).toMatchObject({
      schedules: [{ schedule: 'shop#nightly', cron: '0 3 * * *', timeZone: 'UTC' }],
    });
    const poll = client.queue('shop#empty').lease({ wait: '60s' });
    await eventually(async () => {
      const waiting = await Promise.all(cluster.running.map(({ httpPort }) => waitingLeases(httpPort)));
      expect(waiting.reduce((sum, count) => sum + count, 0)).toBe(1);
    });
    proxy.process.process.kill('SIGTERM');
    expect(await poll).toEqual([]);
    expect((await proxy.process.ended).code).toBe(0);
  });

  test('tells clients that watch its health of the stop, and ends at once', async () => {
    await using proxy = await startProxy(cluster.endpoints, ['--shutdown-timeout-ms=60000']);
    await eventually(async () => expect(await readyz(proxy.http)).toBe(200));
    const watching = await watchAll(Number(proxy.endpoint.split(':')[1]));
    const told = performance.now();
    expect((await proxy.process.kill('SIGTERM')).code).toBe(0);
    // Earlier than its shutdown timeout.
    expect(performance.now() - told).toBeLessThan(30_000);
    await watching.toldToEnd();
  });

  test('is shown among the members without partitions, and answers operators', async () => {
    await using proxy = await startProxy(cluster.endpoints.slice(0, 1), ['--name=edge']);
    await using client = await connect(proxy.endpoint);
    await eventually(async () => {
      const { members } = await client.cluster.members();
      expect(members.map(({ name, role, alive }) => [name, role, alive])).toEqual([
        ['a', 'node', true],
        ['b', 'node', true],
        ['edge', 'proxy', true],
      ]);
    });
    await proxy.process.kill('SIGTERM');
    await using direct = await cluster.connect();
    await eventually(async () => expect((await direct.cluster.members()).members).toHaveLength(2));
  });
});

describe('a proxy', { timeout: 60_000 }, () => {
  test('starts without a node, says so, and is ready when a node is up', async () => {
    await using cluster = await TestCluster.start({ nodes: 1 });
    const { endpoint } = cluster.node('a');
    await cluster.node('a').kill();
    await using proxy = await startProxy([endpoint]);
    expect(await readyz(proxy.http)).toBe(503);
    await using client = await connect({ endpoints: proxy.endpoint, retry: { maxAttempts: 1 } });
    await expect(client.queue('shop#mail').enqueue('x')).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
    await cluster.start('a');
    await eventually(async () => expect(await readyz(proxy.http)).toBe(200), { withinMs: 10_000 });
    await client.queue('shop#mail').enqueue('x');
    const { code, stdout, stderr } = await proxy.process.kill('SIGTERM');
    expect(code).toBe(0);
    const told = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(told).toMatchObject([{ ready: false, grpc: proxy.endpoint }, { ready: true }]);
    expect(stderr.match(/no node of the cluster answers/g)).toHaveLength(1);
    expect(stderr).not.toMatch(/can be reached:|\\n +at /);
  });

  test('ends without a key of the cluster, and names the node that refused it', async () => {
    await using dir = await temporaryDirectory();
    const keyFile = join(dir.path, 'keys');
    await writeFile(keyFile, 'seventeen letters\n', { mode: 0o600 });
    await using cluster = await TestCluster.start({ nodes: 1, flags: [`--cluster-key-file=${keyFile}`] });
    const { endpoint } = cluster.node('a');
    const { code, stdout, stderr } = await runProxy([endpoint]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(
      `taskmaster-proxy: ${endpoint} refuses the cluster key of this proxy: the proxy has none (--cluster-key-file)`,
    );
    await using proxy = await startProxy([endpoint], [`--cluster-key-file=${keyFile}`]);
    await eventually(async () => expect(await readyz(proxy.http)).toBe(200));
    const { stderr: log } = await proxy.process.kill('SIGTERM');
    expect(log).not.toContain('no node');
  });

  test('ends if its key file is missing', async () => {
    const { code, stderr } = await runProxy(['127.0.0.1:1'], ['--cluster-key-file=/nowhere/keys']);
    expect(code).toBe(1);
    expect(stderr).toContain('cluster.keyFile');
  });
});

async function waitingLeases(httpPort: number): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  return Number(/^taskmaster_waiting_leases (\d+)$/m.exec(metrics)?.[1] ?? 0);
}
