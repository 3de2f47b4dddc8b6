import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { AS_SHIPPED, BUNDLES, builtCli, EXAMPLES, packageRoot, root } from '../paths.ts';

/** What programs start by the names of files: threads, and processes of the load. */
const STARTED_BY_NAME: readonly string[] = [
  join(packageRoot('@taskmaster/node'), 'dist', 'store', 'threads', 'rocks-reader-thread.js'),
  join(packageRoot('@taskmaster/node'), 'dist', 'store', 'threads', 'rocks-writer-thread.js'),
  join(packageRoot('@taskmaster/server'), 'dist', 'gossip', 'thread', 'gossip-thread.js'),
  join(packageRoot('@taskmaster/client'), 'dist', 'leases', 'renewer-thread.js'),
  join(packageRoot('@taskmaster/cli'), 'dist', 'load', 'processes', 'load-process.js'),
];

/** Native code stays where it is. The file that looks for it is beside it. */
const NATIVE = /\.node$/;
const FINDS_NATIVE = /[\\/]@nxtedition[\\/]rocksdb[\\/]binding\.js$/;
/** Optional dependencies that are not installed. */
const MISSING = ['msgpackr-extract'];

/** Sources that start a file beside them, with the extension that they have themselves. */
const STARTS_ITS_NEIGHBOUR = 'extname(fileURLToPath(import.meta.url))';

/** What modules of CommonJS find, and those of ESM do not. The bundled sources have none of its other names. */
const COMMONJS = [
  "import { createRequire as bundleRequire } from 'node:module';",
  "import { dirname as bundleFolderOf } from 'node:path';",
  "import { fileURLToPath as bundlePathOf } from 'node:url';",
  'const bundleUrl = import.meta.url, require = bundleRequire(bundleUrl), __filename = bundlePathOf(bundleUrl);',
  'const __dirname = bundleFolderOf(__filename);',
];

/** The module of `boundMemory` and `compileEarly`, and what makes them do nothing without `AS_SHIPPED`. */
const BOUNDS_MEMORY = join(packageRoot('@taskmaster/server'), 'dist', 'program', 'memory', 'v8-flags.js');
const UNLESS_SHIPPED = [
  `const shown = process.env.${AS_SHIPPED} ? [boundMemory, compileEarly] : [() => {}, () => {}];`,
  'const [ifShipped, earlyIfShipped] = shown;',
  'export { ifShipped as boundMemory, earlyIfShipped as compileEarly };',
];

/** The function of the demo that finds the programs of packages by their manifests. */
const FINDS_PROGRAMS = 'server-process.js';

/**
 * Bundles each built program and each file that they start, and the same for the examples. What they load later, or share, is in
 * files of its own: a node loads its first lines twice (`boundMemory`). Such a program starts with two thirds of the processor
 * time that its 600 modules take, and the process tests start some hundred. Resolves with the folder.
 */
export async function bundlePrograms(): Promise<string> {
  const outdir = join(root, 'node_modules', '.cache', 'programs');
  const programs = Object.entries(builtCli).map(([out, file]) => ({ out, in: file }));
  await Promise.all([
    bundle(programs, outdir),
    bundle(await examples(), join(outdir, EXAMPLES)),
    writeManifests(outdir),
  ]);
  process.env[BUNDLES] = outdir;
  return outdir;
}

interface Entry {
  readonly out: string;
  readonly in: string;
}

async function bundle(programs: readonly Entry[], outdir: string): Promise<void> {
  const started = STARTED_BY_NAME.map((file) => ({ out: basename(file, '.js'), in: file }));
  const { metafile } = await build({
    entryPoints: [...programs, ...started],
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    minifyWhitespace: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    external: MISSING,
    banner: { js: COMMONJS.join('') },
    plugins: [asBuilt],
    metafile: true,
    logLevel: 'warning',
  });
  // The names of shared files contain hashes, so those of earlier sources would stay.
  const built = new Set(Object.keys(metafile.outputs).map((file) => basename(file)));
  const entries = await readdir(outdir, { withFileTypes: true });
  const others = entries.filter((entry) => entry.isFile() && !built.has(entry.name));
  await Promise.all(others.map(({ name }) => rm(join(outdir, name))));
}

/** The examples and the programs that they start by name. */
async function examples(): Promise<Entry[]> {
  const dist = join(root, 'examples', 'dist');
  const names = async (folder: string): Promise<string[]> =>
    (await readdir(join(dist, folder))).filter((name) => name.endsWith('.js')).map((name) => join(folder, name));
  const files = [...(await names('')), ...(await names('attempts')), join('crawler', 'demo.js')];
  const worker = { out: 'worker-process', in: join(dist, 'crawler', 'worker-process.js') };
  return [...files.map((file) => ({ out: file.slice(0, -'.js'.length), in: join(dist, file) })), worker];
}

/** Lets the bundled demo find the bundled node and proxy as it finds those of packages. */
async function writeManifests(outdir: string): Promise<void> {
  for (const name of ['node', 'proxy']) {
    const folder = join(outdir, 'node_modules', '@taskmaster', name);
    await mkdir(folder, { recursive: true });
    const bin = { [`taskmaster-${name}`]: relative(folder, join(outdir, `${name}.mjs`)) };
    await writeFile(join(folder, 'package.json'), JSON.stringify({ bin }));
  }
}

/** Lets bundled sources behave as if they were still where the build has put them. */
const asBuilt: Plugin = {
  name: 'as-built',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: NATIVE }, ({ path }) => ({ path, external: true }));
    onLoad({ filter: FINDS_NATIVE }, ({ path }) => {
      const { path: nativeIn } = createRequire(path)('node-gyp-build') as { readonly path: (folder: string) => string };
      return { contents: `module.exports = require(${JSON.stringify(nativeIn(dirname(path)))});`, loader: 'js' };
    });
    onResolve({ filter: /^[^.]/ }, ({ path, importer, kind }) => {
      // A package that is loaded later may be CommonJS. Node.js finds its names, and the bundle would not.
      if (kind !== 'dynamic-import' || path.startsWith('@taskmaster/')) return undefined;
      return { path: createRequire(importer).resolve(path), external: true };
    });
    onLoad({ filter: /\.js$/ }, async ({ path }) => {
      if (!path.includes(`${sep}dist${sep}`) || path.includes(`${sep}node_modules${sep}`)) return undefined;
      const text = await readFile(path, 'utf8');
      const isMoved = text.includes(STARTS_ITS_NEIGHBOUR) || basename(path) === FINDS_PROGRAMS;
      const url = isMoved ? 'bundleUrl' : JSON.stringify(pathToFileURL(path).href);
      const contents =
        path === BOUNDS_MEMORY
          ? [text.replaceAll('export function', 'function'), ...UNLESS_SHIPPED].join('\n')
          : text.replaceAll('import.meta.url', url);
      return { contents, loader: 'js', resolveDir: dirname(path) };
    });
  },
};
