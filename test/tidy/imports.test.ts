import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findCycle, type Import, importsOf, root, sourceFiles } from './imports.ts';

/** What each package may import of the others. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  node: ['proxy', 'server', 'client', 'proto'],
  proxy: ['server', 'proto'],
  server: ['proto'],
  client: ['proto'],
  proto: [],
};

/** The folders of each package: one imports only folders behind it, with the exceptions below. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  node: ['root', 'cli', 'http', 'cluster', 'engine', 'log', 'store', 'ports', 'domain'],
  proxy: ['root', 'cli', 'router', 'upstream'],
  server: ['program', 'http', 'grpc', 'service', 'cluster-view', 'gossip', 'ports', 'domain'],
  client: ['root', 'cli', 'api', 'worker', 'tasks', 'leases', 'calls', 'transport', 'values'],
};
const FORBIDDEN: readonly (readonly [string, string, string])[] = [
  ['http', 'grpc', 'two ways in that know nothing of each other'],
  ['http', 'store', 'only composition roots know the store'],
  ['cluster', 'store', 'only composition roots know the store'],
  ['engine', 'store', 'only composition roots know the store'],
  ['log', 'store', 'only composition roots know the store'],
];
/** `ports/write-batch.ts` and `ports/store.ts` name each other's types: one port in two files. */
const ONE_PORT = new Set(['packages/node/src/ports/write-batch.ts', 'packages/node/src/ports/store.ts']);

const files = sourceFiles();
const imports = files.flatMap(importsOf);
const graph = new Map(files.map((file) => [file, importsOf(file).map(({ to }) => to)]));

const packageOf = (file: string): string => file.split('/')[1] ?? '';
const layerOf = (file: string): string => {
  const [, , , folder, ...rest] = file.split('/');
  return rest.length === 0 ? 'root' : (folder ?? 'root');
};
const show = ({ from, to, line }: Import): string => `${from}:${line} imports ${to}`;

describe('imports', () => {
  test('point from a package to those that it may know', () => {
    const wrong = imports.filter(({ from, to }) => {
      const target = /^@taskmaster\/(\w+)/.exec(to)?.[1];
      return target !== undefined && PACKAGES[packageOf(from)]?.includes(target) !== true;
    });
    expect(wrong.map(show)).toEqual([]);
  });

  test('point from a folder of a package to those behind it', () => {
    const wrong = imports.filter(({ from, to }) => {
      const layers = LAYERS[packageOf(from)];
      if (layers === undefined || !to.startsWith(`packages/${packageOf(from)}/src/`)) return false;
      const [source, target] = [layerOf(from), layerOf(to)];
      if (source === 'testing' || source === target) return false;
      if (target === 'testing') return true;
      const forbidden = FORBIDDEN.some(([a, b]) => a === source && b === target);
      const rootModule = target === 'root' && source === 'cli';
      return !rootModule && (forbidden || layers.indexOf(target) < layers.indexOf(source));
    });
    expect(wrong.map(show)).toEqual([]);
  });

  test('make no cycles', () => {
    const inOneProgram = files.map((file): [string, string[]] => {
      const targets = importsOf(file).filter(({ thread, to }) => !thread && !(ONE_PORT.has(file) && ONE_PORT.has(to)));
      return [file, targets.map(({ to }) => to)];
    });
    const withoutPort = new Map(inOneProgram);
    expect(findCycle(withoutPort)).toBeUndefined();
  });

  test('reach every file', () => {
    // The generated code, which is not looked at here, imports them.
    const entries = new Set(['packages/proto/src/int64.ts', 'packages/proto/src/no-bytes.ts']);
    for (const name of Object.keys(PACKAGES)) {
      const manifest = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'));
      const targets = [
        ...Object.values(manifest.bin ?? {}),
        ...Object.values(manifest.exports ?? {}).flatMap(sourcesOf),
      ];
      for (const target of targets)
        entries.add(`packages/${name}/${String(target).slice(2).replace('dist', 'src').replace(/\.js$/, '.ts')}`);
    }
    const reached = new Set<string>();
    const reach = (file: string): void => {
      if (reached.has(file)) return;
      reached.add(file);
      for (const next of graph.get(file) ?? []) reach(next);
    };
    for (const entry of entries) reach(entry);
    const isTestSupport = (file: string): boolean => /\/test(ing\/|-support\.)/.test(file);
    expect(files.filter((file) => !reached.has(file) && !isTestSupport(file))).toEqual([]);
  });
});

describe('the search for cycles', () => {
  test('finds one, and only where there is one', () => {
    const line = new Map([
      ['a', ['b']],
      ['b', ['c']],
      ['c', []],
    ]);
    expect(findCycle(line)).toBeUndefined();
    expect(findCycle(new Map([...line, ['c', ['a']]]))).toEqual(['a', 'b', 'c', 'a']);
  });
});

function sourcesOf(target: unknown): string[] {
  return typeof target === 'object' && target !== null && 'source' in target ? [String(target.source)] : [];
}
