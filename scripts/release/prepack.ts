// pnpm runs this in the folder of a package before it packs it.
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleImport } from './bundle.ts';
import { noticesOf } from './notices.ts';

const directory = process.cwd();
await removeOutdated(directory);
await bundleImports(directory);

/** Removes what the compiler made of sources that are gone: it does not do so itself. */
async function removeOutdated(directory: string): Promise<void> {
  const dist = join(directory, 'dist');
  if (!existsSync(dist)) throw new Error(`${dist} is missing: build first`);
  for (const file of await readdir(dist, { recursive: true })) {
    const source = /^(?!bundled\b|ui\b)(.+?)(\.d\.ts|\.js|\.js\.map)$/.exec(file)?.[1];
    if (source !== undefined && !existsSync(join(directory, 'src', `${source}.ts`))) await rm(join(dist, file));
  }
}

/** Writes a bundle for each import of the form `#name`. The manifest of the packed package leads to it: see .pnpmfile.mjs. */
async function bundleImports(directory: string): Promise<void> {
  const manifest: { readonly imports?: object } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8'));
  const packages: string[] = [];
  for (const name of Object.keys(manifest.imports ?? {})) {
    const bundle = await bundleImport(directory, name);
    packages.push(...bundle.packages);
    const file = join(directory, 'dist', 'bundled', `${name.slice(1)}.cjs`);
    await mkdir(join(file, '..'), { recursive: true });
    await writeFile(file, bundle.code);
  }
  if (packages.length > 0) await writeFile(join(directory, 'THIRD-PARTY-NOTICES'), await noticesOf(packages));
}
