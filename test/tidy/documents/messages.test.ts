import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../../support/paths.ts';
import { documentAt, inlineCodeOf } from './documents.ts';

const sources = globSync('packages/*/src/**/*.ts', { cwd: root, exclude: (path) => /\.test\.ts$|\/gen\//.test(path) })
  .map((path) => readFileSync(join(root, path), 'utf8'))
  .join('\n');

/** Messages have several words; commands begin with the name of a program or have a flag or a placeholder. */
const isMessage = (code: string): boolean => /^[a-z][a-z:, ]+$/.test(code) && code.split(' ').length > 3;

test('messages that troubleshooting quotes are in the code', () => {
  const quoted = inlineCodeOf(documentAt('docs/operate/troubleshooting.md')).filter(isMessage);
  expect(quoted.length).toBeGreaterThan(5);
  expect(quoted.filter((message) => !sources.includes(message))).toEqual([]);
});
