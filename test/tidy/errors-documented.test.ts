import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { statusOfReason } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { root } from './imports.ts';

test('docs/errors.md has a line for every reason, and for no other', () => {
  const documented = readFileSync(join(root, 'docs/errors.md'), 'utf8').matchAll(/^\| `([A-Z_]+)` \|/gm);
  expect([...documented].map(([, reason]) => reason).sort()).toEqual(Object.keys(statusOfReason).sort());
});
