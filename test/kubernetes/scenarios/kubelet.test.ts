import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { ControlPlane } from '../control-plane/control-plane.ts';
import { presentImage } from '../kubelet/containers/image.ts';
import { Kubelet } from '../kubelet/kubelet.ts';
import { plainNodes } from './support/plain-nodes.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = await whyNoKubernetes();
const READY = ['rollout', 'status', 'statefulset/plain', '--timeout=120s'];

describe.skipIf(problem !== undefined)(`a StatefulSet of nodes${skipped(problem)}`, () => {
  let opened: AsyncDisposableStack;
  let plane: ControlPlane;
  let kubelet: Kubelet;

  beforeAll(async () => {
    opened = new AsyncDisposableStack();
    plane = opened.use(await ControlPlane.start());
    kubelet = opened.use(await Kubelet.start(plane, { imageOf: () => presentImage, log: (line) => console.log(line) }));
    const directory = opened.use(await temporaryDirectory());
    const file = join(directory.path, 'plain.json');
    await writeFile(file, plainNodes);
    await plane.kubectl('apply', '--filename', file);
    await plane.kubectl(...READY);
  });
  afterAll(async () => {
    await opened.disposeAsync();
    expect(kubelet.problems).toEqual([]);
  });

  test('becomes a cluster that clients reach through a Service', async () => {
    await using client = await connect(await kubelet.reachService('queues', 7400));
    const { members } = await client.cluster.members();
    expect(members.map(({ name, alive }) => [name, alive]).toSorted()).toEqual(
      ['plain-0', 'plain-1', 'plain-2'].map((name) => [name, true]),
    );
    await client.queue('jobs').enqueue('a task');
  });

  test('restarts a killed container in its pod, at the same address', async () => {
    const address = kubelet.addressOf('plain-1');
    await kubelet.kill('plain-1');
    await eventually(async () => expect(await statusOf('{.status.containerStatuses[0].restartCount}')).toBe('1'));
    await plane.kubectl('wait', '--for=condition=Ready', 'pod/plain-1', '--timeout=60s');
    expect(kubelet.addressOf('plain-1')).toBe(address);
    expect(await statusOf('{.status.containerStatuses[0].lastState.terminated.exitCode}')).toBe('137');
  });

  test('gets a deleted pod back, at another address and with its volume', async () => {
    const address = kubelet.addressOf('plain-1');
    await plane.kubectl('delete', 'pod', 'plain-1');
    await eventually(() => expect(kubelet.addressOf('plain-1')).not.toBe(address));
    await plane.kubectl(...READY);
    await using client = await connect(await kubelet.reachService('queues', 7400));
    const { members } = await client.cluster.members();
    expect(members.map(({ name }) => name).toSorted()).toEqual(['plain-0', 'plain-1', 'plain-2']);
    expect((await client.queue('jobs').stats()).available).toBe(1);
  });

  const statusOf = (path: string): Promise<string> =>
    plane.kubectl('get', 'pod', 'plain-1', `--output=jsonpath=${path}`);
});
