import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { root } from '../../support/paths.ts';
import { blocksOf, documents } from './documents.ts';

const CONNECTS = "connect('127.0.0.1:7400')";
const pages = documents.filter(({ path }) => path.startsWith('docs/coming-from/'));
const programs = pages.map((page): [string, string] => {
  const ours = blocksOf(page).filter(({ language }) => language === 'ts');
  return [page.path, ours.map(({ text }) => text).join('')];
});

let dir: string;
beforeAll(async () => {
  // Within the repository, so that the programs find the packages like a user's program.
  dir = await mkdtemp(join(root, 'test', '.snippets-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

test('there are pages for users of other systems', () => {
  expect(programs.length).toBeGreaterThan(7);
});

test.each(programs)('the program of %s prints what its comments say', { timeout: 60_000 }, async (path, text) => {
  expect(text).toContain(CONNECTS);
  const expected = [...text.matchAll(/ \/\/ → (.*)$/gm)].map(([, line]) => line);
  expect(expected.length).toBeGreaterThan(0);
  const file = join(dir, `${path.replaceAll('/', '-')}.ts`);
  const memory = "import { openMemory } from '@taskmaster/node/memory';\n";
  await writeFile(file, memory + text.replace(CONNECTS, 'openMemory()'));
  const printed: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((...told) => void printed.push(format(...told)));
  try {
    await import(pathToFileURL(file).href);
  } finally {
    log.mockRestore();
  }
  expect(printed).toEqual(expected);
});
