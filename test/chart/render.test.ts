import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { nodeSettings } from '../../packages/node/src/cli/node-settings.ts';
import { proxySettings } from '../../packages/proxy/src/config.ts';
import { type KubernetesObject, lint, render, whyNoHelm } from './helm.ts';
import { valueSets } from './value-sets.ts';

const skipped = whyNoHelm === undefined ? '' : ` (skipped: ${whyNoHelm})`;

const nameOf = ({ kind, metadata }: KubernetesObject): string => `${kind}/${metadata.name}`;

describe.skipIf(whyNoHelm !== undefined)(`the chart, rendered by helm${skipped}`, () => {
  test.each(valueSets)('passes lint with %s', async (_what, values) => {
    const { code, output } = await lint(values);
    expect({ code, output }).toMatchObject({ code: 0 });
  });

  test.each(valueSets)('with %s gives programs settings that they accept', async (_what, values) => {
    const { code, stderr, objects } = await render(values);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const configs = objects.filter(({ data }) => data?.['config.yaml'] !== undefined);
    expect(configs.length).toBe(objects.filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment').length);
    for (const { metadata, data } of configs) {
      const table = metadata.name.endsWith('-nodes') ? nodeSettings : proxySettings;
      expect(table.safeParse(parse(data?.['config.yaml'] ?? '')).error).toBeUndefined();
    }
  });

  test.each(valueSets)('with %s gives each object a name of its own', async (_what, values) => {
    const names = (await render(values)).objects.map(nameOf);
    expect(names.length).toBeGreaterThan(5);
    expect(names).toEqual([...new Set(names)]);
  });

  test('gives a pod time for a drain, and keeps the volumes when it scales down', async () => {
    const { objects } = await render(['--set=node.drain.timeoutSeconds=100,node.persistence.whenDeleted=Delete']);
    const nodes = objects.find(({ kind }) => kind === 'StatefulSet');
    expect(nodes?.spec).toMatchObject({
      template: { spec: { terminationGracePeriodSeconds: 140 } },
      persistentVolumeClaimRetentionPolicy: { whenScaled: 'Retain', whenDeleted: 'Delete' },
    });
  });

  test('keeps what belongs to the volumes after an uninstall', async () => {
    const { objects } = await render(['--set=backup.enabled=true']);
    const kept = objects.filter(({ metadata }) => metadata.annotations?.['helm.sh/resource-policy'] === 'keep');
    expect(kept.map(nameOf).sort()).toEqual([
      'ConfigMap/tm-taskmaster-cluster',
      'PersistentVolumeClaim/tm-taskmaster-backup',
      'Secret/tm-taskmaster-key',
    ]);
  });

  test('lets HTTP be asked under the names of its Services, and under those of the settings', async () => {
    const { objects } = await render(['--set=node.config.http.allowedHosts={queues.example}']);
    const config = objects.find(({ metadata, data }) => metadata.name.endsWith('-nodes') && data?.['config.yaml']);
    const service = 'tm-taskmaster-nodes';
    expect(parse(config?.data?.['config.yaml'] ?? '')).toMatchObject({
      http: {
        allowedHosts: [
          service,
          ...['', '.svc', '.svc.cluster.local'].map((end) => `${service}.queues${end}`),
          'queues.example',
        ],
      },
    });
  });

  test('restarts no pod when only the version of the chart changes', async () => {
    const { objects } = await render();
    const templates = objects
      .filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment')
      .map(({ spec }) => spec);
    expect(JSON.stringify(templates.map((spec) => spec?.template))).not.toContain('helm.sh/chart');
  });

  test.each([
    ['a misspelt value', ['--set=replicaCuont=3'], /replicaCuont/],
    ['zero replicas', ['--set=replicaCount=0'], /replicaCount/],
    ['replicas that are no number', ['--set-string=replicaCount=three'], /replicaCount/],
    ['a size that is no quantity', ['--set=node.persistence.size=ten'], /size/],
    ['an unknown pull policy', ['--set=image.pullPolicy=Sometimes'], /pullPolicy/],
    ['TLS, which does not exist yet', ['--set=tls.enabled=true'], /tls/],
    ['a setting that the chart makes', ['--set=node.config.dataDir=/x'], /node\.config\.dataDir is made by the chart/],
    ['one in a section', ['--set=proxy.config.cluster.keyFile=/x'], /proxy\.config\.cluster\.keyFile is made by/],
    [
      'more least proxies than most',
      ['--set=proxy.autoscaling.enabled=true,proxy.autoscaling.minReplicas=11'],
      /minReplicas must not be more/,
    ],
    ['a bucket without a scheme', ['--set=backup.s3=bucket/tm'], /s3/],
  ])('refuses %s', async (_what, values, message) => {
    const { code, stderr } = await render(values);
    expect(code).toBe(1);
    expect(stderr).toMatch(message);
  });

  test('refuses a name that is too long for DNS', async () => {
    const { code, stderr } = await render([], `t${'m'.repeat(41)}`);
    expect(code).toBe(1);
    expect(stderr).toContain('must be a DNS label of at most 40 characters');
  });
});
