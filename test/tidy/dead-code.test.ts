import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';

/** knip.json has the entries and the exceptions. */
test('every file, export and dependency is used', { timeout: 120_000 }, async () => {
  const knip = join(root, 'node_modules', 'knip', 'bin', 'knip.js');
  const { code, stdout, stderr } = await runProcess(process.execPath, [knip, '--no-progress'], { cwd: root });
  expect(stdout).toBe('');
  expect(stderr).toBe('');
  expect(code).toBe(0);
});
