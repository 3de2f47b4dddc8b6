import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { blocksOf, documents } from './documents/documents.ts';

/** Declarations that a document leaves out. */
const LEFT_OUT = `
declare function deliver(data: unknown, options: { signal: AbortSignal }): Promise<void>;
declare function log(...what: unknown[]): void;
declare const shutdown: AbortSignal;
`;

const guides = documents
  .map(({ path }) => path)
  .filter((path) => path.startsWith('docs/guides/') && !path.endsWith('/other-languages.md'));

/** Packages are built without their tests, and vitest does not check types. One program, because both need all sources. */
test('the types of all tests are right, and those of the TypeScript in documents', { timeout: 120_000 }, async () => {
  const snippets = documents.flatMap(blocksOf).filter(({ language }) => language === 'ts');
  const withSnippets = new Set(snippets.map(({ document }) => document));
  const expected = [
    'README.md',
    'docs/quick-start.md',
    'packages/client/README.md',
    'docs/reference/client.md',
    ...guides,
  ];
  expect(expected.filter((path) => !withSnippets.has(path))).toEqual([]);
  // Within the repository, so that they find the packages like a user's program.
  const dir = mkdtempSync(join(root, 'test', '.snippets-'));
  try {
    for (const [at, { document, text }] of snippets.entries()) {
      writeFileSync(join(dir, `${document.replaceAll('/', '-')}-${at}.ts`), text);
    }
    writeFileSync(join(dir, 'left-out.d.ts'), LEFT_OUT);
    const { include, exclude }: { readonly include: string[]; readonly exclude: string[] } = JSON.parse(
      readFileSync(join(root, 'tsconfig.tests.json'), 'utf8'),
    );
    const fromHere = (patterns: readonly string[]): string[] => patterns.map((pattern) => `../../${pattern}`);
    const project = {
      extends: '../../tsconfig.tests.json',
      include: ['*.ts', ...fromHere(include)],
      exclude: fromHere(exclude),
    };
    writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify(project));
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    // Four checkers, the default, check more of what they share more than once.
    const args = [tsc, '-p', dir, '--checkers', '2'];
    const { code, stdout } = await runProcess(process.execPath, args, { cwd: root });
    expect(stdout).toBe('');
    expect(code).toBe(0);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
