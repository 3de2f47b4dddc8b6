import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'oxc-parser';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

export interface Import {
  readonly from: string;
  /** A file of this repository, or the name of a package. */
  readonly to: string;
  readonly line: number;
  /** It is started as a thread: another program, which may well know the protocol of its starter. */
  readonly thread: boolean;
}

/** Every TypeScript source of the packages, relative to the root; tests and generated code left out. */
export function sourceFiles(): string[] {
  return globSync('packages/*/src/**/*.ts', { cwd: root })
    .filter((file) => !file.endsWith('.test.ts') && !file.endsWith('.d.ts') && !file.includes('/gen/'))
    .sort();
}

/** What a file imports or re-exports, types included, and the worker threads it starts. */
export function importsOf(file: string): Import[] {
  const source = readFileSync(join(root, file), 'utf8');
  const { module } = parseSync(file, source);
  const specifiers = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest),
    ...module.staticExports.flatMap(({ entries }) => entries.flatMap((entry) => entry.moduleRequest ?? [])),
    ...module.dynamicImports.map(({ moduleRequest: { start, end } }) => ({
      value: source.slice(start + 1, end - 1), // without its quotes
      start,
    })),
  ];
  const found = new Map<string, Import>();
  for (const { value, start } of specifiers) {
    const to = value.startsWith('.') ? relative(root, resolve(root, dirname(file), value)) : value;
    found.set(to, { from: file, to, line: lineAt(source, start), thread: false });
  }
  for (const thread of source.matchAll(/['`/]([\w-]+-thread)['$]/g)) {
    const to = join(dirname(file), `${thread[1]}.ts`);
    found.set(to, { from: file, to, line: lineAt(source, thread.index), thread: true });
  }
  return [...found.values()];
}

const lineAt = (source: string, index: number): number => source.slice(0, index).split('\n').length;

/** One cycle of the graph as a list of files, or undefined. */
export function findCycle(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): string[] | undefined => {
    if (done.has(file)) return undefined;
    const at = path.indexOf(file);
    if (at >= 0) return [...path.slice(at), file];
    path.push(file);
    for (const next of graph.get(file) ?? []) {
      const cycle = visit(next);
      if (cycle) return cycle;
    }
    path.pop();
    done.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const cycle = visit(file);
    if (cycle) return cycle;
  }
  return undefined;
}
