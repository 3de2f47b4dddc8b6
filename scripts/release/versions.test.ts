import { expect, test } from 'vitest';
import { root } from '../../test/support/paths.ts';
import { manifestsOf, publishedInOrder, versionOf } from './versions.ts';

test('all packages have one version', async () => {
  const manifests = await manifestsOf(root);
  expect(manifests.length).toBeGreaterThan(8);
  expect(versionOf(manifests)).toMatch(/^\d+\.\d+\.\d+$/);
});

test('packages whose versions differ are refused', () => {
  const manifests = [
    { name: 'a', version: '0.1.0' },
    { name: 'b', version: '0.2.0' },
  ];
  expect(() => versionOf(manifests)).toThrow('the versions of the packages differ: a 0.1.0, b 0.2.0');
});

test('packages are published behind those that they depend on', () => {
  const order = publishedInOrder([
    { name: 'workspace', version: '1.0.0', private: true },
    { name: 'a', version: '1.0.0', dependencies: { c: 'workspace:*', b: 'workspace:*', elsewhere: '1.0.0' } },
    { name: 'b', version: '1.0.0' },
    { name: 'c', version: '1.0.0', dependencies: { b: 'workspace:*' } },
  ]);
  expect(order).toEqual(['b', 'c', 'a']);
});
