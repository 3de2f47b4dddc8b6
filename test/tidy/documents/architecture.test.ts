import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { root } from '../../support/paths.ts';
import { blocksOf, documentAt, rowsOf } from './documents.ts';

type Layers = readonly (string | readonly string[])[];

const document = documentAt('ARCHITECTURE.md');
const rules = (await import(pathToFileURL(join(root, '.dependency-cruiser.mjs')).href)) as {
  readonly PACKAGES: Readonly<Record<string, readonly string[]>>;
  readonly LAYERS: Readonly<Record<string, Layers>>;
};

test('ARCHITECTURE.md has the arrows between packages of the import rules', () => {
  const [arrows] = blocksOf(document).filter(({ text }) => /^\w+ → /.test(text));
  const chains = arrows?.text.split(/ {2,}|\n/).filter((chain) => chain !== '') ?? [];
  const reached: Record<string, Set<string>> = {};
  for (const names of chains.map((chain) => chain.split(' → '))) {
    for (const [at, name] of names.entries()) {
      reached[name] ??= new Set();
      for (const below of names.slice(at + 1)) reached[name].add(below);
    }
  }
  const sorted = (named: Readonly<Record<string, Iterable<string>>>) =>
    Object.fromEntries(Object.entries(named).map(([name, others]) => [name, [...others].sort()]));
  expect(sorted(reached)).toEqual(sorted(rules.PACKAGES));
});

test('ARCHITECTURE.md has the folders of the import rules, top to bottom', () => {
  const told = rowsOf(document).flatMap((row) => {
    const { package: name, 'its folders, top to bottom': folders } = row;
    if (name === undefined || folders === undefined) return [];
    const nameOf = (folder: string): string => /^`(.*)`$/.exec(folder)?.[1] ?? 'root';
    const names = folders.split(', ').map((layer) => {
      const beside = layer.split(' + ').map(nameOf);
      return beside.length === 1 ? nameOf(layer) : beside;
    });
    return [[name.replaceAll('`', ''), names] as const];
  });
  expect(Object.fromEntries(told)).toEqual(rules.LAYERS);
});
