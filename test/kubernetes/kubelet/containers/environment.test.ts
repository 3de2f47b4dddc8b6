import { describe, expect, test } from 'vitest';
import { type EnvironmentSources, environmentOf, expand, fieldOf } from './environment.ts';

const sources: EnvironmentSources = {
  pod: {
    metadata: { name: 'tm-0', namespace: 'queues', uid: 'u', labels: { 'app.kubernetes.io/component': 'node' } },
    spec: { containers: [], nodeName: 'machine-1', serviceAccountName: 'tm' },
  },
  podAddress: '10.244.0.2',
  nodeAddress: '10.244.0.1',
  configMap: async (name) => (name === 'settings' ? { LEVEL: 'debug', OTHER: 'x' } : undefined),
  secret: async (name) => (name === 'keys' ? { key: 'secret' } : undefined),
};

test.each([
  ['$(A) and $(B)', '1 and 2'],
  ['$(A)$(A)', '11'],
  ['$(MISSING)', '$(MISSING)'],
  ['$$(A)', '$(A)'],
  ['$$$(A)', '$1'],
  ['$A {A} $', '$A {A} $'],
])('expands %s to %s', (text, expected) => {
  expect(expand(text, { A: '1', B: '2' })).toBe(expected);
});

test.each([
  ['metadata.name', 'tm-0'],
  ['metadata.namespace', 'queues'],
  ["metadata.labels['app.kubernetes.io/component']", 'node'],
  ["metadata.annotations['none']", ''],
  ['spec.nodeName', 'machine-1'],
  ['status.podIP', '10.244.0.2'],
  ['status.hostIP', '10.244.0.1'],
])('knows the field %s', (path, expected) => {
  expect(fieldOf(path, sources)).toBe(expected);
});

describe('the environment of a container', () => {
  test('has later values in place of earlier ones, and uses earlier ones in later ones', async () => {
    const container = {
      name: 'node',
      envFrom: [{ configMapRef: { name: 'settings' } }, { prefix: 'K_', secretRef: { name: 'keys' } }],
      env: [
        { name: 'LEVEL', value: 'info' },
        { name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
        { name: 'ADDRESS', value: '$(POD).nodes:7400' },
        { name: 'KEY', valueFrom: { secretKeyRef: { name: 'keys', key: 'key' } } },
        { name: 'GONE', valueFrom: { configMapKeyRef: { name: 'settings', key: 'none', optional: true } } },
      ],
    };
    expect(await environmentOf(container, sources, { OTHER: 'service', TM_PORT: '1' })).toEqual({
      TM_PORT: '1',
      LEVEL: 'info',
      OTHER: 'x',
      K_key: 'secret',
      POD: 'tm-0',
      ADDRESS: 'tm-0.nodes:7400',
      KEY: 'secret',
    });
  });

  test.each([
    [{ envFrom: [{ secretRef: { name: 'none' } }] }, 'secret none not found'],
    [{ env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'keys', key: 'b' } } }] }, 'secret keys, key b not found'],
    [{ env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'spec.x' } } }] }, 'field spec.x is not supported'],
    [
      { env: [{ name: 'A', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } }] },
      'the source of variable A is not supported',
    ],
  ])('is refused: %j', async (container, message) => {
    await expect(environmentOf({ name: 'node', ...container }, sources)).rejects.toThrow(message);
  });
});
