import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { fileOf, SLOWEST } from '../support/slowest-first.ts';

test('the files that begin exist', () => {
  expect(SLOWEST.filter((name) => !existsSync(fileOf(name)))).toEqual([]);
});
