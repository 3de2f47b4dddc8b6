import { expect, test } from 'vitest';
import { ControlPlane } from '../control-plane/control-plane.ts';
import { whyNoPrograms } from '../control-plane/programs.ts';
import { skipped } from './support/requirements.ts';

const problem = whyNoPrograms();

test.skipIf(problem !== undefined)(`kubectl and helm reach a new control plane${skipped(problem)}`, async () => {
  await using plane = await ControlPlane.start();
  expect(await plane.kubectl('get', 'namespaces', '--output=name')).toContain('namespace/default');
  expect(await plane.helm('list')).toContain('NAME');
  await plane.stopApiServer();
  await expect(plane.kubectl('get', 'namespaces')).rejects.toThrow('refused');
  await plane.startApiServer();
  expect(await plane.kubectl('get', 'namespaces', '--output=name')).toContain('namespace/default');
});
