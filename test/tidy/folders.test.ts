import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** A folder with more source files must get subfolders, named by the topic of their files. */
const MOST_SOURCE_FILES = 15;
const ROOMS = ['packages', 'test', 'bench', 'examples', 'scripts'];
const NOT_OURS = new Set(['dist', 'node_modules', 'gen']);
const IS_SOURCE = /\.(ts|js|mjs|proto|py|sh)$/;
const IS_TEST = /\.test\.ts$/;

/** The folders below a directory, with the number of source files in each. Tests do not count. */
async function sourceFilesByFolder(directory: string): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const visit = async (folder: string): Promise<void> => {
    let files = 0;
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) {
        // Hidden folders are temporary: the test of code in documents makes one.
        if (!NOT_OURS.has(entry.name) && !entry.name.startsWith('.')) await visit(join(folder, entry.name));
      } else if (IS_SOURCE.test(entry.name) && !IS_TEST.test(entry.name)) files++;
    }
    counts.set(relative(directory, folder), files);
  };
  for (const room of ROOMS) await visit(join(directory, room));
  return counts;
}

const overfull = (counts: ReadonlyMap<string, number>): string[] =>
  [...counts].filter(([, files]) => files > MOST_SOURCE_FILES).map(([folder, files]) => `${folder}: ${files} files`);

test('no folder has too many source files', async () => {
  const counts = await sourceFilesByFolder(root);
  expect(overfull(counts)).toEqual([]);
  expect([...counts.values()].reduce((sum, files) => sum + files)).toBeGreaterThan(500);
});

test('a folder with one source file too many is reported', async () => {
  await using directory = await temporaryDirectory();
  const numbered = (prefix: string, suffix: string) =>
    Array.from({ length: MOST_SOURCE_FILES }, (_, index) => `${prefix}${index}${suffix}`);
  const files = [
    ...numbered('packages/full/', '.ts'),
    ...numbered('packages/full/', '.test.ts'),
    ...numbered('packages/full/deeper/', '.proto'),
    ...numbered('packages/overfull/deep/', '.ts'),
    'packages/overfull/deep/one-more.mjs',
    ...numbered('packages/full/gen/', '.ts'),
    'packages/full/gen/one-more.ts',
    ...ROOMS.map((room) => `${room}/README.md`),
  ];
  for (const file of files) {
    await mkdir(join(directory.path, dirname(file)), { recursive: true });
    await writeFile(join(directory.path, file), '');
  }
  expect(overfull(await sourceFilesByFolder(directory.path))).toEqual(['packages/overfull/deep: 16 files']);
});
