import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** The formatter wraps code, but not comments. */
const WIDEST_COMMENT = 130;
const ROOMS = ['packages', 'clients', 'test', 'bench', 'examples', 'scripts'];
const NOT_OURS = new Set(['dist', 'node_modules', 'gen']);
const IS_SOURCE = /\.(ts|js|mjs|proto|py|sh)$/;
const IS_COMMENT = /^\s*(\/\/|\/?\*|#)/;

interface Found {
  readonly problems: string[];
  files: number;
}

/** Comments that are too wide. */
async function check(directory: string): Promise<Found> {
  const found: Found = { problems: [], files: 0 };
  const visit = async (folder: string): Promise<void> => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        // Hidden folders are temporary: the test of code in documents makes one.
        if (!NOT_OURS.has(entry.name) && !entry.name.startsWith('.')) await visit(path);
      } else if (IS_SOURCE.test(entry.name)) {
        found.files++;
        const name = relative(directory, path);
        const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
        for (const [index, line] of lines.entries()) {
          const isTooWide = line.length > WIDEST_COMMENT && IS_COMMENT.test(line);
          if (isTooWide) found.problems.push(`${name}:${index + 1}: a comment of ${line.length} columns`);
        }
      }
    }
  };
  for (const room of ROOMS) await visit(join(directory, room));
  return found;
}

test('no comment is too wide', async () => {
  const { problems, files } = await check(root);
  expect(problems).toEqual([]);
  expect(files).toBeGreaterThan(1_000);
});

test('a column too many is reported', async () => {
  await using directory = await temporaryDirectory();
  const files: Record<string, string> = {
    'packages/gen/generated.ts': `// ${'x'.repeat(WIDEST_COMMENT)}\n`,
    'test/comments.ts': `${'// '.padEnd(WIDEST_COMMENT, 'x')}\n  ${' * '.padEnd(WIDEST_COMMENT, 'x')}\n`,
    'bench/strings.ts': `print('${'x'.repeat(WIDEST_COMMENT)}');\n`,
    ...Object.fromEntries(ROOMS.map((room) => [`${room}/README.md`, ''])),
  };
  for (const [file, content] of Object.entries(files)) {
    await mkdir(join(directory.path, dirname(file)), { recursive: true });
    await writeFile(join(directory.path, file), content);
  }
  expect((await check(directory.path)).problems).toEqual(['test/comments.ts:2: a comment of 132 columns']);
});
