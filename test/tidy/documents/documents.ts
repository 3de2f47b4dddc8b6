import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../support/paths.ts';

/** A document for people who use or change TaskMaster. */
export interface Document {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
}

/** A fenced code block. */
export interface Block {
  readonly document: string;
  /** `sh`, `ts`, ...; empty if none is named. */
  readonly language: string;
  readonly text: string;
}

const PATTERNS = [
  '*.md',
  'docs/**/*.md',
  'packages/*/README.md',
  'examples/README.md',
  'bench/*.md',
  'bench/*/README.md',
  'deploy/*/README.md',
  'clients/*/README.md',
  'test/conformance/README.md',
];

export const documents: readonly Document[] = globSync(PATTERNS, {
  cwd: root,
  exclude: (path) => /node_modules/.test(path),
})
  .sort()
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

/** The document at a path. Throws if there is none. */
export function documentAt(path: string): Document {
  const document = documents.find((one) => one.path === path);
  if (document === undefined) throw new Error(`there is no document ${path}`);
  return document;
}

/** The document with a new text in its generated part. */
export function withGenerated(path: string, text: string): string {
  const [begin, end] = ['<!-- generated: vitest -u writes this part -->\n', '<!-- end of the generated part -->'];
  const [before = '', rest = ''] = documentAt(path).text.split(begin);
  const [, after] = rest.split(end);
  if (after === undefined) throw new Error(`${path} does not mark a generated part`);
  return `${before}${begin}\n${text}\n\n${end}${after}`;
}

const FENCED = /^```(\w*)\n(.*?)^```$/gms;

export function blocksOf({ path, text }: Document): Block[] {
  return [...text.matchAll(FENCED)].map(([, language = '', inner = '']) => ({
    document: path,
    language,
    text: inner,
  }));
}

/** Inline code of sentences and tables, without its backticks. */
export function inlineCodeOf({ text }: Document): string[] {
  const prose = text.replace(FENCED, '');
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code.replaceAll('\\|', '|'));
}

/** The rows of all tables of a document, as cells by column title. */
export function rowsOf({ text }: Document): Readonly<Record<string, string>>[] {
  const rows: Record<string, string>[] = [];
  let titles: readonly string[] | undefined;
  let before: readonly string[] = [];
  for (const line of text.split('\n')) {
    const cells = line.startsWith('|')
      ? line
          .split(/(?<!\\)\|/)
          .slice(1, -1)
          .map((cell) => cell.trim())
      : undefined;
    if (cells === undefined) titles = undefined;
    else if (cells.every((cell) => /^:?-+:?$/.test(cell))) titles = before;
    else if (titles !== undefined) rows.push(Object.fromEntries(titles.map((title, at) => [title, cells[at] ?? ''])));
    before = cells ?? [];
  }
  return rows;
}
