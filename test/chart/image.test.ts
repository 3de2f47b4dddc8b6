import type { V1Container, V1PodSpec } from '@kubernetes/client-node';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { dataDirectoryOf, imageConfig, programNames } from '../image/dockerfile.ts';
import { type KubernetesObject, render, whyNoHelm } from './helm.ts';

const skipped = whyNoHelm === undefined ? '' : ` (skipped: ${whyNoHelm})`;
const EVERYTHING = ['--set=backup.enabled=true,load.enabled=true'];
const image = imageConfig();

interface PodOfChart {
  readonly name: string;
  readonly spec: V1PodSpec;
}

interface Template {
  readonly template?: { readonly spec: V1PodSpec };
  readonly jobTemplate?: { readonly spec: Template };
}

/** The pod of an object that makes pods, or that is one. */
function podOf({ kind, metadata, spec }: KubernetesObject): PodOfChart[] {
  const made = spec as (Template & V1PodSpec) | undefined;
  const template = made?.jobTemplate?.spec.template ?? made?.template;
  const pod = kind === 'Pod' ? made : template?.spec;
  return pod === undefined ? [] : [{ name: `${kind}/${metadata.name}`, spec: pod }];
}

const objects = whyNoHelm === undefined ? (await render(EVERYTHING)).objects : [];
const pods = objects.flatMap(podOf);
const containers = pods.flatMap(({ name, spec }) => spec.containers.map((container) => ({ name, container })));

/** The settings that a program gets in its configuration file. */
function settingsOf(program: string): Readonly<Record<string, unknown>> {
  const name = program === 'taskmaster-node' ? 'tm-taskmaster-nodes' : 'tm-taskmaster-proxy';
  const config = objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name);
  return parse(config?.data?.['config.yaml'] ?? '');
}

const servers = containers.filter(({ container }) => container.ports !== undefined);
const mountPaths = ({ volumeMounts = [] }: V1Container): string[] => volumeMounts.map(({ mountPath }) => mountPath);

describe.skipIf(whyNoHelm !== undefined)(`the chart fits the image${skipped}`, () => {
  test('in all of its pods', () => {
    const kinds = pods.map(({ name }) => name.split('/')[0]);
    expect(kinds.toSorted()).toEqual(['CronJob', 'Deployment', 'Job', 'Pod', 'StatefulSet']);
  });

  test('in the user, which may read and write the volume', () => {
    const [uid, gid] = image.user.split(':').map(Number);
    for (const { name, spec } of pods) {
      const expected = { runAsNonRoot: true, runAsUser: uid, runAsGroup: gid, fsGroup: gid };
      expect(spec.securityContext, name).toMatchObject(expected);
    }
  });

  test('in the programs: containers run them, and scripts a shell', () => {
    expect(image.entryPoint).toEqual([]);
    for (const { name, container } of containers)
      expect([...programNames, 'sh'], name).toContain(container.command?.[0]);
  });

  test('in the ports', () => {
    const fromImage = image.ports.map((port) => port.split('/'));
    const expected = fromImage.map(([port, protocol = 'tcp']) => [Number(port), protocol]);
    expect(servers.map(({ container }) => container.command)).toEqual([['taskmaster-proxy'], ['taskmaster-node']]);
    for (const { name, container } of servers) {
      const ports = container.ports?.map(({ containerPort, protocol = 'TCP' }) => [
        containerPort,
        protocol.toLowerCase(),
      ]);
      expect(ports, name).toEqual(expected);
      const { grpcPort, httpPort, gossipPort } = settingsOf(container.command?.[0] ?? '');
      expect([grpcPort, httpPort, gossipPort], name).toEqual(expected.map(([port]) => port));
    }
  });

  test('in the directory of the data, which is on the volume', () => {
    const node = servers.find(({ container }) => container.command?.[0] === 'taskmaster-node');
    expect(settingsOf('taskmaster-node').dataDir).toBe(dataDirectoryOf(image.command));
    expect(node && mountPaths(node.container)).toContain(image.workingDirectory);
  });

  test('in what may be written: the volumes and /tmp', () => {
    for (const { name, container } of containers) {
      expect(container.securityContext?.readOnlyRootFilesystem, name).toBe(true);
      expect(mountPaths(container), name).toContain('/tmp');
    }
  });
});
