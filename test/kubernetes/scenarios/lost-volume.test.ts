import type { TaskMasterClient } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { ChartCluster, NAME, NAMESPACE } from './support/chart-cluster.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = await whyNoKubernetes();
const GROUPS = Array.from({ length: 40 }, (_, index) => `group-${index}`);

describe.skipIf(problem !== undefined)(`a lost volume${skipped(problem)}`, () => {
  let cluster: ChartCluster;

  beforeAll(async () => {
    cluster = await ChartCluster.start();
    await cluster.install();
    await cluster.rolledOut();
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  /** Stops all pods of nodes, empties a volume, and starts the pods again. */
  async function loseVolumeOf(pod: string): Promise<void> {
    await cluster.kubectl('scale', `statefulset/${NAME}`, '--replicas=0');
    await eventually(async () => expect(await cluster.nodePods()).toEqual([]), { withinMs: 120_000 });
    await cluster.kubelet.loseVolume(`data-${pod}`, NAMESPACE);
    await cluster.kubectl('scale', `statefulset/${NAME}`, '--replicas=3');
  }

  const tasksIn = async (client: TaskMasterClient): Promise<string[]> => {
    const found: string[] = [];
    for (const group of GROUPS) if ((await client.queue(`${group}#q`).stats()).available === 1) found.push(group);
    return found;
  };

  test('of the first node begins no second cluster. Only its tasks are lost, once an operator accepts it', async () => {
    const lost = `${NAME}-0`;
    const kept = new Set<string>();
    {
      await using client = await cluster.connect();
      for (const group of GROUPS) await client.queue(`${group}#q`).enqueue('a task');
      const { partitions } = await client.cluster.partitions();
      const held = new Map(partitions.map(({ id, holder }) => [id, holder?.name]));
      for (const group of GROUPS) if (held.get(cluster.partitionOf(group)) !== lost) kept.add(group);
    }
    expect(kept.size).toBeGreaterThan(0);
    expect(kept.size).toBeLessThan(GROUPS.length);
    await loseVolumeOf(lost);
    for (const pod of [`${NAME}-1`, `${NAME}-2`]) {
      await cluster.kubectl('wait', '--for=condition=Ready', `pod/${pod}`, '--timeout=120s');
    }
    // The name is still that of a member: the pod waits, and serves nothing.
    expect(await cluster.members()).not.toContain(lost);
    const begun = performance.now();
    const remove = ['members', 'remove', lost, '--accept-loss', '--yes'];
    await eventually(() => cluster.kubelet.exec(`${NAME}-1`, ['taskmaster', ...remove]), { withinMs: 60_000 });
    await cluster.rolledOut();
    console.log(`from the acceptance to the last ready node: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    await eventually(async () => expect(await cluster.members()).toEqual([0, 1, 2].map((index) => `${NAME}-${index}`)));
    await using client = await cluster.connect();
    expect(await tasksIn(client)).toEqual([...kept]);
  });
});
