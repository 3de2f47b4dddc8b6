import { expect, test } from 'vitest';
import { type KubernetesApi, KubernetesError } from './api.ts';
import { ConfigMapRecord } from './config-map-record.ts';

interface ConfigMap {
  readonly metadata: { readonly resourceVersion: string; readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
}

/** One ConfigMap with the rule of the API server for concurrent changes. */
class FakeApi implements KubernetesApi {
  readonly namespace = 'queues';
  object: ConfigMap;
  /** Called between a read and the write that follows. */
  beforePut = (): void => {};

  constructor(object: ConfigMap) {
    this.object = object;
  }

  async get(path: string): Promise<unknown> {
    expect(path).toBe('/api/v1/namespaces/queues/configmaps/tm-cluster');
    return this.object;
  }

  async put(_path: string, object: unknown): Promise<unknown> {
    this.beforePut();
    const changed = object as ConfigMap;
    if (changed.metadata.resourceVersion !== this.object.metadata.resourceVersion)
      throw new KubernetesError('the object has been modified', 409);
    const resourceVersion = String(Number(changed.metadata.resourceVersion) + 1);
    this.object = { ...changed, metadata: { ...changed.metadata, resourceVersion } };
    return this.object;
  }
}

const recordIn = (api: FakeApi) => new ConfigMapRecord(async () => api, 'tm-cluster');
const mine = { clusterId: 'c1', firstNode: 'n1' };

test('the first claim is recorded, and the rest of the object is kept', async () => {
  const api = new FakeApi({ metadata: { resourceVersion: '1', labels: { app: 'tm' } }, data: { note: 'keep' } });
  expect(await recordIn(api).claim(mine)).toEqual(mine);
  expect(api.object).toMatchObject({ metadata: { labels: { app: 'tm' } }, data: { note: 'keep', ...mine } });
});

test('a later claim gets what is recorded', async () => {
  const api = new FakeApi({ metadata: { resourceVersion: '1' } });
  await recordIn(api).claim(mine);
  expect(await recordIn(api).claim({ clusterId: 'c2', firstNode: 'n2' })).toEqual(mine);
});

test('of two claims at one moment, one is recorded', async () => {
  const api = new FakeApi({ metadata: { resourceVersion: '1' } });
  api.beforePut = () => {
    api.beforePut = () => {};
    api.object = { metadata: { resourceVersion: '2' }, data: { clusterId: 'c2', firstNode: 'n2' } };
  };
  expect(await recordIn(api).claim(mine)).toEqual({ clusterId: 'c2', firstNode: 'n2' });
});

test('a refusal of the API server reaches the caller', async () => {
  const api = new FakeApi({ metadata: { resourceVersion: '1' } });
  api.beforePut = () => {
    throw new KubernetesError('forbidden', 403);
  };
  await expect(recordIn(api).claim(mine)).rejects.toThrow('forbidden');
});
