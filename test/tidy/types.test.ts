import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runProcess } from '../support/child-process.ts';
import { root } from '../support/paths.ts';

/** Packages are built without their tests, and vitest does not look at types. */
test('the types of all tests are right', { timeout: 120_000 }, async () => {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { code, stdout } = await runProcess(process.execPath, [tsc, '-p', 'tsconfig.tests.json'], { cwd: root });
  expect(stdout).toBe('');
  expect(code).toBe(0);
});
