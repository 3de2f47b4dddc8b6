// Builds the pages into dist/ui. Does nothing if the sources have not changed since the last build.
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Plugin } from 'vite';
import { bundledPackages } from './bundled-packages.ts';

const root = resolve(import.meta.dirname, '..');
const outDir = join(root, 'dist', 'ui');
const stampFile = join(root, 'node_modules', '.cache', 'ui-build');

async function buildConsole(): Promise<void> {
  const stamp = await stampOf([
    join(root, 'ui'),
    join(root, 'scripts'),
    join(root, 'package.json'),
    join(root, '..', 'proto', 'src'),
  ]);
  if ((await readFile(stampFile, 'utf8').catch(ifMissing)) === stamp && (await isBuilt())) return;
  // Loaded only when it is needed: it takes half a second.
  const { build } = await import('vite');
  await build({
    root: join(root, 'ui'),
    configFile: false,
    envDir: false,
    // Relative, so that the pages work behind a path of another server.
    base: './',
    logLevel: 'warn',
    plugins: [withoutGrpc, withKnownPackages],
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    resolve: { conditions: ['source', 'module', 'browser', 'production'] },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2022',
      modulePreload: false,
      // The policy of the pages allows no data in URLs but for images.
      assetsInlineLimit: 0,
      reportCompressedSize: false,
      rolldownOptions: { treeshake: { moduleSideEffects: isWithEffects }, checks: { pluginTimings: false } },
    },
  });
  await checkPages();
  await mkdir(join(stampFile, '..'), { recursive: true });
  await writeFile(stampFile, stamp);
}

/** Services of gRPC stand in the same files as messages. Nothing of them is used, so the import is left out, too. */
const withoutGrpc: Plugin = {
  name: 'without-grpc',
  enforce: 'pre',
  resolveId: (id) => (id === '@grpc/grpc-js' ? { id, external: true, moduleSideEffects: false } : null),
};

/** Fails if the pages contain code of a package whose licence they would lack. */
const withKnownPackages: Plugin = {
  name: 'with-known-packages',
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle)) {
      for (const id of chunk.type === 'chunk' ? chunk.moduleIds : []) {
        const name = /.*[/\\]node_modules[/\\]((?:@[^/\\]+[/\\])?[^/\\]+)/.exec(id)?.[1];
        if (name !== undefined && !bundledPackages.includes(name)) this.error(`${name} is not in bundled-packages.ts`);
      }
    }
  },
};

const isWithEffects = (id: string): boolean => !/[/\\](@grpc|@bufbuild|proto)[/\\]/.test(id);

const ifMissing = (error: NodeJS.ErrnoException): string => {
  if (error.code === 'ENOENT') return '';
  throw error;
};

async function isBuilt(): Promise<boolean> {
  return (await readFile(join(outDir, 'index.html'), 'utf8').catch(ifMissing)) !== '';
}

/** The names and contents of all files below these folders. */
async function stampOf(paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const path of paths) {
    const names = path.endsWith('.json')
      ? ['']
      : (await readdir(path, { recursive: true, withFileTypes: true }))
          .filter((entry) => entry.isFile() && !entry.name.includes('.test.'))
          .map((entry) => join(entry.parentPath, entry.name).slice(path.length))
          .sort();
    for (const name of names)
      hash
        .update(`${name}\0`)
        .update(await readFile(path + name))
        .update('\0');
  }
  return hash.digest('hex');
}

/** Throws if the pages would need something that their content security policy forbids, or contain code for servers. */
async function checkPages(): Promise<void> {
  const html = await readFile(join(outDir, 'index.html'), 'utf8');
  if (/<style|\sstyle=|<script(?![^>]*\ssrc=)|\son\w+=/i.test(html))
    throw new Error('index.html has inline code or styles');
  for (const name of await readdir(join(outDir, 'assets'))) {
    if (!name.endsWith('.js')) continue;
    const code = await readFile(join(outDir, 'assets', name), 'utf8');
    if (/grpc-js|from\s*["']node:|__vite-browser-external/.test(code))
      throw new Error(`${name} contains code for servers`);
  }
}

await buildConsole();
