import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';

/** Packages are built without their tests, and vitest does not check types. */
test('the types of all tests are right', { timeout: 120_000 }, async () => {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { code, stdout } = await runProcess(process.execPath, [tsc, '-p', 'tsconfig.tests.json'], { cwd: root });
  expect(stdout).toBe('');
  expect(code).toBe(0);
});
