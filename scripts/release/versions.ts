import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A manifest of this repository. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}

/** The manifests of the workspace itself and of all its packages. */
export async function manifestsOf(root: string): Promise<Manifest[]> {
  const packages = (await readdir(join(root, 'packages'))).map((name) => join('packages', name));
  const folders = ['.', ...packages, 'examples', 'bench', 'test'];
  const texts = await Promise.all(folders.map((folder) => readFile(join(root, folder, 'package.json'), 'utf8')));
  return texts.map((text): Manifest => JSON.parse(text));
}

/** The one version of all manifests. Throws if they differ. */
export function versionOf(manifests: readonly Manifest[]): string {
  const [version = '', ...others] = new Set(manifests.map((manifest) => manifest.version));
  if (others.length > 0) {
    const all = manifests.map((manifest) => `${manifest.name} ${manifest.version}`);
    throw new Error(`the versions of the packages differ: ${all.join(', ')}`);
  }
  return version;
}

/**
 * Names of the published packages. Each comes after its dependencies, so that at every moment all published packages can be
 * installed.
 */
export function publishedInOrder(manifests: readonly Manifest[]): string[] {
  const order: string[] = [];
  const add = (name: string): void => {
    const manifest = manifests.find((one) => one.name === name);
    if (manifest === undefined || manifest.private || order.includes(name)) return;
    for (const dependency of Object.keys(manifest.dependencies ?? {})) add(dependency);
    order.push(name);
  };
  for (const { name } of manifests) add(name);
  return order;
}
