import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { render } from '../../chart/helm.ts';
import { valueSets } from '../../chart/value-sets.ts';
import { root } from '../../support/paths.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../support/temporary-directory.ts';
import { ControlPlane } from '../control-plane/control-plane.ts';
import { whyNoPrograms } from '../control-plane/programs.ts';
import { definitions, whyNoDefinitions } from '../custom-resources/definitions.ts';
import { skipped } from './support/requirements.ts';

const problem = whyNoPrograms() ?? (await whyNoDefinitions());
const EXAMPLES = ['hpa.yaml', 'keda.yaml', 'workers.yaml'];

describe.skipIf(problem !== undefined)(`the API server, which refuses unknown fields${skipped(problem)}`, () => {
  let opened: AsyncDisposableStack;
  let plane: ControlPlane;
  let directory: TemporaryDirectory;

  beforeAll(async () => {
    opened = new AsyncDisposableStack();
    plane = opened.use(await ControlPlane.start());
    directory = opened.use(await temporaryDirectory());
    await plane.kubectl('create', 'namespace', 'queues');
    for (const file of await definitions()) await plane.kubectl('create', '--filename', file);
    await plane.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s');
  });
  afterAll(async () => {
    await opened.disposeAsync();
  });

  const apply = (file: string): Promise<string> =>
    plane.kubectl('apply', '--validate=strict', '--dry-run=server', '--namespace=queues', '--filename', file);

  /** Writes objects into one file, for kubectl. */
  async function fileOf(items: readonly object[]): Promise<string> {
    const file = join(directory.path, 'objects.json');
    await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    return file;
  }

  test.each(valueSets)('accepts the chart with %s', async (_what, values) => {
    const { objects } = await render(values);
    const accepted = (await apply(await fileOf(objects))).trim().split('\n');
    expect(accepted).toHaveLength(objects.length);
  });

  test.each(EXAMPLES)('accepts the example %s', async (name) => {
    expect(await apply(join(root, 'deploy', 'examples', name))).toContain('created (server dry run)');
  });

  test.each([
    ['ServiceMonitor', { selector: {}, endpoints: [{ port: 'http', intervall: '30s' }] }, 'intervall'],
    ['ServiceMonitor', { selector: {}, endpoints: [{ port: 'http', interval: 'often' }] }, 'interval'],
    ['PrometheusRule', { groups: [{ name: 'a', rules: [{ alert: 'A', exp: 'up', expr: 'up' }] }] }, 'exp'],
  ])('refuses a %s with a mistake: %j', async (kind, spec, message) => {
    const object = { apiVersion: 'monitoring.coreos.com/v1', kind, metadata: { name: 'wrong' }, spec };
    await expect(apply(await fileOf([object]))).rejects.toThrow(message);
  });

  test('refuses a ScaledObject with a mistake', async () => {
    const spec = { scaleTargetRef: { name: 'workers' }, triggers: [{ type: 'external', metaData: {} }] };
    const object = { apiVersion: 'keda.sh/v1alpha1', kind: 'ScaledObject', metadata: { name: 'wrong' }, spec };
    await expect(apply(await fileOf([object]))).rejects.toThrow('metaData');
  });
});
