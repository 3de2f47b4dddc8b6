import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../../support/paths.ts';
import { type Document, documents, inlineCodeOf, rowsOf } from './documents.ts';

const SOURCES = [
  'packages/**/*.{ts,json,proto,mjs}',
  '{test,bench,examples,scripts}/**/*.{ts,json,mjs,txt,py}',
  'clients/**/*.py',
  'deploy/k8s/**/*.{json,yaml,tpl}',
  '*.json',
  '.ci/*',
  'deploy/Dockerfile',
  'deploy/**/*.yaml',
];

const words = new Set(
  globSync(SOURCES, { cwd: root, exclude: (path) => /node_modules|dist|tidy\/documents/.test(path) }).flatMap(
    (path) => readFileSync(join(root, path), 'utf8').match(/[A-Za-z_][\w]*/g) ?? [],
  ),
);

/** Names of other programs. */
const THEIRS = new Set([
  'malloc_trim',
  'nodejs_',
  'nohup',
  'chrony',
  'protos',
  'systemctl',
  'systemd',
  'jest',
  'setsid',
  'TimeoutStopSec',
  'RestartPreventExitStatus',
  'compose',
  'Dockerfile',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'cascade',
  'orphan',
]);
/** Placeholders, metrics (see metrics.test.ts), figures that the bench computes, folders. */
const ELSEWHERE = /^(?:[A-Z_]+|_\w+|taskmaster_\w+|server_\w+_us|e2e)$/;

/** What a document says of TaskMaster. Pages for users of other systems say it in the last column of their tables. */
function oursOf(document: Document): Document {
  if (!document.path.startsWith('docs/coming-from/')) return document;
  return {
    ...document,
    text: rowsOf(document)
      .map((row) => Object.values(row).at(-1))
      .join('\n'),
  };
}

/** Checks the names in code of documents: `task.complete({ enqueue })` has three. */
test('names in documents exist in the code', () => {
  const unknown = documents.flatMap((document) =>
    inlineCodeOf(oursOf(document))
      .filter((code) => !/^[./~]|^https?:|^npm |^\S+@/.test(code))
      .flatMap((code) => code.match(/[A-Za-z_]\w{2,}/g) ?? [])
      .filter((name) => !words.has(name) && !THEIRS.has(name) && !ELSEWHERE.test(name))
      .map((name) => `${document.path}: ${name}`),
  );
  expect([...new Set(unknown)]).toEqual([]);
});
