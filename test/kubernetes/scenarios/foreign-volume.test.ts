import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { ChartCluster, NAME, NAMESPACE } from './support/chart-cluster.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = await whyNoKubernetes();
const OTHERS = 'others';
const POD = `${NAME}-0`;
const CLAIM = `data-${POD}`;
const TASKS = 20;
/** The other cluster shows that the chart also works without TLS and rules. */
const PLAIN = ['--set=tls.enabled=false,auth.enabled=false'];

describe.skipIf(problem !== undefined)(`a volume of another cluster${skipped(problem)}`, () => {
  let cluster: ChartCluster;

  beforeAll(async () => {
    cluster = await ChartCluster.start();
    await cluster.install();
    await cluster.installIn(OTHERS, '--set=replicaCount=1,proxy.enabled=false', ...PLAIN);
    await cluster.rolledOut();
    await others('rollout', 'status', `statefulset/${NAME}`, '--timeout=300s');
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  const others = (command: string, ...args: readonly string[]): Promise<string> =>
    cluster.plane.kubectl(command, ...args, `--namespace=${OTHERS}`);

  const recordOf = (namespace: string): Promise<string> =>
    cluster.plane.kubectl('get', 'configmap', `${NAME}-cluster`, '--output=json', `--namespace=${namespace}`);

  const idIn = (record: string): string => (JSON.parse(record) as { data: { clusterId: string } }).data.clusterId;

  const statusOf = (path: string): Promise<string> => cluster.kubectl('get', 'pod', POD, `--output=jsonpath=${path}`);

  test('is refused, named and left as it is, and both clusters go on with their own', async () => {
    {
      await using client = await cluster.connect(OTHERS);
      for (let at = 0; at < TASKS; at++) await client.queue(`group-${at}#theirs`).enqueue('a task');
    }
    await others('scale', `statefulset/${NAME}`, '--replicas=0');
    await others('wait', '--for=delete', `pod/${POD}`, '--timeout=120s');
    const [ours, theirs] = [await recordOf(NAMESPACE), await recordOf(OTHERS)];
    await cluster.underLoad('a volume of another cluster', async (load) => {
      await cluster.kubelet.exchangeVolumes(CLAIM, NAMESPACE, OTHERS);
      await cluster.kubectl('delete', 'pod', POD);
      const message = '{.status.containerStatuses[0].lastState.terminated.message}';
      const refusal = await eventually(
        async () => {
          const text = await statusOf(message);
          expect(text).toContain('the data directory is that of member');
          return text;
        },
        { withinMs: 120_000, everyMs: 500 },
      );
      expect(refusal).toContain(`of cluster ${idIn(theirs)}, but cluster ${idIn(ours)} is recorded for these nodes`);
      expect(await cluster.members()).toEqual([`${NAME}-1`, `${NAME}-2`]);
      await load.goOn();
      await cluster.kubelet.exchangeVolumes(CLAIM, NAMESPACE, OTHERS);
      await cluster.rolledOut();
    });
    await eventually(async () => expect(await cluster.members()).toEqual([0, 1, 2].map((index) => `${NAME}-${index}`)));
    expect([await recordOf(NAMESPACE), await recordOf(OTHERS)].map(idIn)).toEqual([ours, theirs].map(idIn));
    await others('scale', `statefulset/${NAME}`, '--replicas=1');
    await others('rollout', 'status', `statefulset/${NAME}`, '--timeout=300s');
    await using client = await cluster.connect(OTHERS);
    const { members } = await client.cluster.members();
    expect(members.map(({ name }) => name)).toEqual([POD]);
    for (let at = 0; at < TASKS; at++) {
      expect((await client.queue(`group-${at}#theirs`).stats()).available).toBe(1);
    }
  });
});
