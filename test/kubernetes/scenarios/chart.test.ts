import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { ChartCluster, NAME } from './support/chart-cluster.ts';
import { expectNoFailures } from './support/pod-load.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const secretWithoutKey = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'empty' },
  stringData: { 'cluster-keys': '# no key' },
};

const problem = await whyNoKubernetes();

describe.skipIf(problem !== undefined)(`the chart${skipped(problem)}`, () => {
  let cluster: ChartCluster;

  beforeAll(async () => {
    cluster = await ChartCluster.start();
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `${NAME}-${index}`);

  test.each([
    ['a storage class that is missing', ['--set=node.persistence.storageClass=none'], 'there is no StorageClass none'],
    ['a Secret that is missing', ['--set=clusterKey.existingSecret=none'], 'there is no Secret none'],
    ['a Secret without a key', ['--set=clusterKey.existingSecret=empty'], 'has no key of at least 16 characters'],
    ['zero replicas', ['--set=replicaCount=0'], 'replicaCount'],
  ])('refuses %s before anything is made', async (_what, values, message) => {
    await cluster.kubectl('apply', '--filename', await cluster.fileOf(secretWithoutKey));
    await expect(cluster.install(...values)).rejects.toThrow(message);
    expect(await cluster.kubectl('get', 'statefulset,deployment,pvc', '--output=name')).toBe('');
  });

  test('installs a cluster of three nodes and two proxies', async () => {
    const begun = performance.now();
    await cluster.install();
    await eventually(
      async () => {
        await using client = await cluster.connect();
        await client.queue('first').enqueue('a task');
      },
      { withinMs: 180_000 },
    );
    console.log(`helm install to the first task: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    await cluster.rolledOut();
    expect(await cluster.members()).toEqual(names(3));
  });

  test('passes its own test', async () => {
    expect(await cluster.helm('test', 'tm', '--timeout=120s')).toContain('Succeeded');
  });

  test('grows from three to five nodes, and shrinks to two, without losing anything', async () => {
    const report = await cluster.underLoad('scale 3 → 5 → 2', async (load) => {
      await cluster.kubectl('scale', `statefulset/${NAME}`, '--replicas=5');
      await cluster.rolledOut();
      await load.goOn();
      expect(await cluster.members()).toEqual(names(5));
      await cluster.kubectl('scale', `statefulset/${NAME}`, '--replicas=2');
      await eventually(async () => expect(await cluster.nodePods()).toEqual(names(2)), { withinMs: 300_000 });
    });
    expectNoFailures(report);
    expect(await cluster.members()).toEqual(names(2));
  });

  test('makes backups', async () => {
    await cluster.upgrade('--set=replicaCount=2', '--set=backup.enabled=true');
    for (const job of ['first', 'second']) {
      await cluster.kubectl('create', 'job', job, `--from=cronjob/${NAME}-backup`);
      await cluster.kubectl('wait', '--for=condition=Complete', `job/${job}`, '--timeout=180s');
    }
  });

  test('keeps its volumes when it is uninstalled, and continues with them', async () => {
    {
      await using client = await cluster.connect();
      expect((await client.queue('first').stats()).available).toBe(1);
    }
    await cluster.helm('uninstall', 'tm', '--wait', '--timeout=120s');
    await eventually(async () => expect(await cluster.nodePods()).toEqual([]), { withinMs: 120_000 });
    expect(await cluster.kubectl('get', 'pvc', '--output=name')).toContain(`data-${NAME}-0`);
    await cluster.install('--set=replicaCount=2');
    await cluster.rolledOut();
    await using client = await cluster.connect();
    expect((await client.queue('first').stats()).available).toBe(1);
  });
});
