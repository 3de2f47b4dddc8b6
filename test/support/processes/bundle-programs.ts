import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { BUNDLES, builtCli, packageRoot, root } from '../paths.ts';

/** What programs start by the names of files: threads, and processes of the load. */
const STARTED_BY_NAME: readonly string[] = [
  join(packageRoot('@taskmaster/node'), 'dist', 'store', 'threads', 'rocks-reader-thread.js'),
  join(packageRoot('@taskmaster/node'), 'dist', 'store', 'threads', 'rocks-writer-thread.js'),
  join(packageRoot('@taskmaster/server'), 'dist', 'gossip', 'thread', 'gossip-thread.js'),
  join(packageRoot('@taskmaster/client'), 'dist', 'leases', 'renewer-thread.js'),
  join(packageRoot('@taskmaster/cli'), 'dist', 'load', 'processes', 'load-process.js'),
];

/** Native code stays where it is. */
const NATIVE = /^@nxtedition\/rocksdb$/;
/** Optional dependencies that are not installed. */
const MISSING = ['msgpackr-extract'];

/** Sources that start a file beside them, with the extension that they have themselves. */
const STARTS_ITS_NEIGHBOUR = 'extname(fileURLToPath(import.meta.url))';

/**
 * Makes one file of CommonJS of each built program and of each file that they start. Such a program starts with a quarter less
 * processor time than from its 600 modules, and the process tests start some hundred. Resolves with the folder.
 */
export async function bundlePrograms(): Promise<string> {
  const outdir = join(root, 'node_modules', '.cache', 'programs');
  const programs = Object.entries(builtCli).map(([out, file]) => ({ out, in: file }));
  const started = STARTED_BY_NAME.map((file) => ({ out: basename(file, '.js'), in: file }));
  const entryPoints = [...programs, ...started];
  await build({
    entryPoints,
    outdir,
    outExtension: { '.js': '.cjs' },
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'cjs',
    external: MISSING,
    banner: { js: "const bundleUrl = require('node:url').pathToFileURL(__filename).href;" },
    plugins: [asBuilt(new Set(entryPoints.map((entry) => entry.in)))],
    logLevel: 'warning',
  });
  process.env[BUNDLES] = outdir;
  return outdir;
}

/** Lets bundled sources behave as if they were still where the build has put them. */
function asBuilt(entries: ReadonlySet<string>): Plugin {
  return {
    name: 'as-built',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: NATIVE }, ({ path, importer }) => ({
        path: createRequire(importer).resolve(path),
        external: true,
      }));
      onLoad({ filter: /\.js$/ }, async ({ path }) => {
        if (!path.includes(`${sep}dist${sep}`) || path.includes(`${sep}node_modules${sep}`)) return undefined;
        const text = await readFile(path, 'utf8');
        const url = text.includes(STARTS_ITS_NEIGHBOUR) ? 'bundleUrl' : JSON.stringify(pathToFileURL(path).href);
        const contents = (entries.has(path) ? asFunction(text) : text).replaceAll('import.meta.url', url);
        return { contents, loader: 'js', resolveDir: dirname(path) };
      });
    },
  };
}

/** CommonJS has no `await` outside of functions. */
function asFunction(text: string): string {
  const lines = text.split('\n').filter((line) => !line.startsWith('#!'));
  const imports = lines.filter((line) => line.startsWith('import '));
  const rest = lines.filter((line) => !line.startsWith('import '));
  return [...imports, '(async () => {', ...rest, '})();'].join('\n');
}
