import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runProcess } from '../../support/child-process.ts';
import { root } from '../../support/paths.ts';
import { blocksOf, documents } from './documents.ts';

/** What a document leaves to its reader. */
const LEFT_OUT = `
declare function deliver(data: unknown, options: { signal: AbortSignal }): Promise<void>;
declare function log(...what: unknown[]): void;
declare const shutdown: AbortSignal;
`;

test('the TypeScript in documents has the right types', { timeout: 120_000 }, async () => {
  const snippets = documents.flatMap(blocksOf).filter(({ language }) => language === 'ts');
  expect(new Set(snippets.map(({ document }) => document))).toEqual(
    new Set(['README.md', 'packages/client/README.md']),
  );
  // Within the repository, so that they find the packages as a user's program does.
  const dir = mkdtempSync(join(root, 'test', '.snippets-'));
  try {
    for (const [at, { text }] of snippets.entries()) writeFileSync(join(dir, `snippet-${at}.ts`), text);
    writeFileSync(join(dir, 'left-out.d.ts'), LEFT_OUT);
    const project = {
      extends: '../../tsconfig.tests.json',
      include: ['*.ts', '../../packages/*/src/**/*.d.ts'],
      exclude: [],
    };
    writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify(project));
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const { code, stdout } = await runProcess(process.execPath, [tsc, '-p', dir], { cwd: root });
    expect(stdout).toBe('');
    expect(code).toBe(0);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
