import { join, relative } from 'node:path';
import { build } from 'esbuild';

/** An imported package with its dependencies, as one file. */
export interface Bundle {
  /** CommonJS that requires nothing but modules of Node. */
  readonly code: string;
  /** The folders of the packages that the code is from, without duplicates. */
  readonly packages: readonly string[];
}

/**
 * Bundles the package that an import of the form `#name` leads to. The bundle contains what this workspace has installed: the
 * replacements in `overrides` of pnpm-workspace.yaml, too. Those have no effect where a packed package is installed.
 */
export async function bundleImport(directory: string, name: string): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: directory,
    stdin: { contents: `module.exports = require(${JSON.stringify(name)});`, resolveDir: directory },
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    target: 'node24',
    format: 'cjs',
    legalComments: 'inline',
    // msgpackr would load a native package if one is there.
    define: { 'process.env.MSGPACKR_NATIVE_ACCELERATION_DISABLED': '"true"' },
    external: ['msgpackr-extract'],
    logLevel: 'silent',
  });
  const files = Object.keys(metafile.inputs).filter((file) => file !== '<stdin>');
  const packages = new Set(files.map((file) => packageFolderOf(join(directory, file))));
  return { code: outputFiles.map(({ text }) => text).join(''), packages: [...packages].toSorted() };
}

/** The folder of the package that contains a file below `node_modules`. */
function packageFolderOf(file: string): string {
  const folder = /^.*[/\\]node_modules[/\\](@[^/\\]+[/\\])?[^/\\]+/.exec(file)?.[0];
  if (folder === undefined) throw new Error(`${relative(process.cwd(), file)} is in no installed package`);
  return folder;
}
