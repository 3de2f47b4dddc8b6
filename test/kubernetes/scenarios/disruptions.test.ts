import { setTimeout as delay } from 'node:timers/promises';
import { DATA_FORMAT } from '@taskmaster/proto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { ChartCluster, NAME } from './support/chart-cluster.ts';
import { expectNoFailures } from './support/pod-load.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = await whyNoKubernetes();
const API_AWAY_MS = 60_000;

describe.skipIf(problem !== undefined)(`five nodes under load${skipped(problem)}`, () => {
  let cluster: ChartCluster;

  beforeAll(async () => {
    cluster = await ChartCluster.start();
    await cluster.install('--set=replicaCount=5');
    await cluster.rolledOut();
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  const isReady = (pod: string): Promise<string> =>
    cluster.kubectl('wait', '--for=condition=Ready', `pod/${pod}`, '--timeout=120s');

  test('restart one by one: no call fails', async () => {
    const report = await cluster.underLoad('rolling restart of nodes and proxies', async () => {
      await cluster.kubectl('rollout', 'restart', `statefulset/${NAME}`, `deployment/${NAME}-proxy`);
      await cluster.rolledOut();
    });
    expectNoFailures(report);
  });

  test('get other settings by an upgrade: no call fails', async () => {
    const report = await cluster.underLoad('upgrade with other settings', async () => {
      await cluster.upgrade('--set=replicaCount=5', '--set=node.config.logLevel=debug', '--set=proxy.replicaCount=3');
      await cluster.rolledOut();
    });
    expectNoFailures(report);
  });

  test('are upgraded to a release with another data format, and back: no call fails', async () => {
    const formats = () => Promise.all([0, 1, 2, 3, 4].map((index) => cluster.dataFormatOf(`${NAME}-${index}`)));
    expect(await formats()).toEqual(Array(5).fill(DATA_FORMAT));
    for (const [direction, tag] of [
      ['upgrade', 'later'],
      ['downgrade', ''],
    ] as const) {
      const report = await cluster.underLoad(`rolling ${direction} between data formats`, async () => {
        await cluster.upgrade('--set=replicaCount=5', `--set=image.tag=${tag}`);
        await cluster.rolledOut();
      });
      expectNoFailures(report);
      // A directory keeps the newest format that it ever had.
      expect(await formats()).toEqual(Array(5).fill(DATA_FORMAT + 1));
    }
  });

  test('lose a process by kill -9, and nothing else', async () => {
    await cluster.underLoad('kill -9 of a node', async (load) => {
      await cluster.kubelet.kill(`${NAME}-1`);
      const restarts = '--output=jsonpath={.status.containerStatuses[0].restartCount}';
      await eventually(async () => expect(await cluster.kubectl('get', 'pod', `${NAME}-1`, restarts)).toBe('1'));
      await isReady(`${NAME}-1`);
      await load.goOn();
    });
  });

  test('find a pod that comes back at another address', async () => {
    const address = cluster.kubelet.addressOf(`${NAME}-2`);
    await cluster.underLoad('a node moves to another address', async (load) => {
      // As after the loss of a machine: without a stop in good order.
      await cluster.kubectl('delete', 'pod', `${NAME}-2`, '--grace-period=0', '--force');
      await eventually(() => expect(cluster.kubelet.addressOf(`${NAME}-2`)).not.toBe(address));
      await isReady(`${NAME}-2`);
      await load.goOn();
    });
  });

  test('are evicted one at a time', async () => {
    const evict = (pod: string): Promise<unknown> => cluster.evict(pod);
    const report = await cluster.underLoad('eviction of two nodes', async (load) => {
      await evict(`${NAME}-3`);
      await expect(evict(`${NAME}-4`)).rejects.toThrow('disruption budget');
      await eventually(() => evict(`${NAME}-4`), { withinMs: 120_000, everyMs: 500 });
      await cluster.rolledOut();
      await load.goOn();
    });
    expectNoFailures(report);
  });

  test('go on without the API server, and a node restarts meanwhile', { timeout: 400_000 }, async () => {
    await cluster.underLoad('the API server away for a minute', async (load) => {
      await cluster.plane.stopApiServer();
      await load.goOn();
      await cluster.kubelet.kill(`${NAME}-0`);
      await delay(API_AWAY_MS);
      await load.goOn();
      await cluster.plane.startApiServer();
      await cluster.rolledOut();
      await load.goOn();
    });
    expect(await cluster.members()).toHaveLength(5);
  });
});
