import { noPostgres, PostgresServer } from '@taskmaster/postgres/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { ChartCluster, NAME } from './support/chart-cluster.ts';
import { expectNoFailures } from './support/pod-load.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = noPostgres ?? (await whyNoKubernetes());
const PASSWORD = 'one with /, @ and :';

describe.skipIf(problem !== undefined)(`nodes that share a database${skipped(problem)}`, () => {
  let server: PostgresServer;
  let cluster: ChartCluster;
  let values: readonly string[];

  beforeAll(async () => {
    server = await PostgresServer.start({ access: ['host queues taskmaster all scram-sha-256'] });
    await server.query(`CREATE ROLE taskmaster LOGIN PASSWORD '${PASSWORD}'`);
    await server.query('CREATE DATABASE queues OWNER taskmaster');
    cluster = await ChartCluster.start();
    const address = await cluster.kubelet.reachOutside(server.port);
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'database' },
      stringData: { password: PASSWORD },
    };
    await cluster.kubectl('apply', '--filename', await cluster.fileOf(secret));
    values = [
      `--set=store.postgres.url=postgres://taskmaster@${address}/queues`,
      '--set=store.postgres.passwordSecret=database',
    ];
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `${NAME}-${index}`);

  test.each([
    ['a Secret that is missing', ['--set=store.postgres.passwordSecret=none'], 'there is no Secret none'],
    ['a Secret without the key', ['--set=store.postgres.passwordKey=none'], 'the Secret database has no none'],
  ])('are refused with %s, before anything is made', async (_what, wrong, message) => {
    await expect(cluster.install(...values, ...wrong)).rejects.toThrow(message);
    expect(await cluster.kubectl('get', 'statefulset,deployment', '--output=name')).toBe('');
  });

  test('begin a cluster without volumes, and show no password', async () => {
    await cluster.install(...values);
    await cluster.rolledOut();
    expect(await cluster.members()).toEqual(names(3));
    expect(await cluster.kubectl('get', 'pvc', '--output=name')).toBe('');
    expect(await cluster.kubectl('get', 'configmap,pod,statefulset', '--output=yaml')).not.toContain(PASSWORD);
    expect(await cluster.helm('test', 'tm', '--timeout=120s')).toContain('Succeeded');
  });

  test('grow from three to five, and shrink to two, without losing anything', async () => {
    const report = await cluster.underLoad('shared database, scale 3 → 5 → 2', async (load) => {
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

  test('lose a pod for good, and nothing else', async () => {
    await cluster.upgrade(...values);
    await cluster.rolledOut();
    await cluster.underLoad('shared database, a pod is gone', async (load) => {
      // As after the loss of a machine: without a stop in good order.
      await cluster.kubectl('delete', 'pod', `${NAME}-1`, '--grace-period=0', '--force');
      await load.goOn();
      await cluster.rolledOut();
      await load.goOn();
    });
    expect(await cluster.members()).toEqual(names(3));
  });

  test('continue after an uninstall, with the same name', async () => {
    {
      await using client = await cluster.connect();
      await client.queue('first').enqueue('a task');
    }
    await cluster.helm('uninstall', 'tm', '--wait', '--timeout=120s');
    await eventually(async () => expect(await cluster.nodePods()).toEqual([]), { withinMs: 120_000 });
    await cluster.install(...values);
    await cluster.rolledOut();
    await using client = await cluster.connect();
    expect((await client.queue('first').stats()).available).toBe(1);
  });
});
