import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { root } from '../../support/paths.ts';
import { type Document, documentAt, documents, inlineCodeOf } from './documents.ts';

/** The anchors of all headings, as GitHub names them. */
function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ''] of text.replace(/^```.*?^```$/gms, '').matchAll(/^#+ (.*)$/gm)) {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = plain.replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
    const times = seen.get(anchor) ?? 0;
    seen.set(anchor, times + 1);
    anchors.add(times === 0 ? anchor : `${anchor}-${times}`);
  }
  return anchors;
}

function brokenLinksOf({ path, text }: Document): string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  return links.filter((target) => {
    if (/^https?:/.test(target)) return false;
    const [file = '', anchor] = target.split('#');
    const full = file === '' ? path : relative(root, resolve(root, dirname(path), file));
    if (!existsSync(join(root, full))) return true;
    return anchor !== undefined && !anchorsOf(readFileSync(join(root, full), 'utf8')).has(anchor);
  });
}

/** Folders that paths in documents may be relative to: `engine/queues` is in the node. */
const BASES = [
  '',
  ...['engine', 'node', 'proxy', 'server', 'client', 'cli'].map((name) => `packages/${name}/src`),
  'packages',
  'docs',
];
const all = globSync('{packages,clients,bench,test,examples,docs,scripts}/**', {
  cwd: root,
  exclude: (path) => /node_modules|dist/.test(path),
});
const files = new Set(all.map((path) => normalize(path)));
const names = new Set(all.map((path) => basename(path)));
/** Files that the commands in the documents create. */
const MADE = ['bench/peers/node_modules', './data', 'first.ts', 'manifest.json', 'progress.json'];

/** True if a path matches files: `{a,b}` names both, `*` any. */
function isThere(path: string): boolean {
  const braces = /^(.*)\{([^}]*)\}(.*)$/.exec(path);
  if (braces !== null) {
    const [, before = '', inner = '', after = ''] = braces;
    return inner.split(',').every((one) => isThere(`${before}${one}${after}`));
  }
  if (names.has(path) || MADE.includes(path)) return true;
  return BASES.some((base) => {
    const full = normalize(join(base, path)).replace(/\/$/, '');
    if (full.includes('*')) return globSync(full, { cwd: root }).length > 0;
    return files.has(full) || existsSync(join(root, full));
  });
}

describe('documents', () => {
  test('have no broken links', () => {
    const broken = documents.flatMap((document) => brokenLinksOf(document).map((link) => `${document.path}: ${link}`));
    expect(broken).toEqual([]);
  });

  test('of packages link to nothing outside of the package, which is all that is published', () => {
    const readmes = documents.filter(({ path }) => /^packages\/[^/]+\/README\.md$/.test(path));
    expect(readmes.length).toBeGreaterThan(4);
    const links = readmes.flatMap(({ path, text }) =>
      [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => `${path}: ${target}`),
    );
    expect(links.filter((link) => !/: https?:/.test(link))).toEqual([]);
  });

  test('name existing files', () => {
    const missing = documents.flatMap((document) => {
      const paths = inlineCodeOf(document).filter((code) =>
        /^[\w.-]+\/[\w./{},*-]+$|^[\w-]+\.(ts|md|proto|json)$/.test(code),
      );
      return paths.filter((path) => !isThere(path)).map((path) => `${document.path}: ${path}`);
    });
    expect(missing).toEqual([]);
  });

  test('can be reached from the README', () => {
    const linked = new Set(
      documents.flatMap(({ path, text }) =>
        [...text.matchAll(/\]\(([^)\s#]+)/g)].map(([, to = '']) => normalize(join(dirname(path), to))),
      ),
    );
    const lost = documents.map(({ path }) => path).filter((path) => path.startsWith('docs/') && !linked.has(path));
    expect(lost).toEqual([]);
    expect(documentAt('README.md').text).toContain('](docs/');
  });
});
