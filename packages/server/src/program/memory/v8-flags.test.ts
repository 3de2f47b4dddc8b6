import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const PROGRAM = fileURLToPath(new URL('fixtures/count-collections.mjs', import.meta.url));

async function collectionsOf(...args: string[]): Promise<number> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [PROGRAM, ...args]);
  expect(stderr).toBe('');
  return Number(stdout);
}

test('short-lived buffers cause no full collections', async () => {
  const bounded = await collectionsOf('count buffers');
  expect(await collectionsOf('as V8 does')).toBeGreaterThan(3 * bounded);
});
