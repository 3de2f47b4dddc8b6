import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { root } from '../support/paths.ts';

/** The pages of the console call the product as programs of users do. */
const NOT_PRODUCT = /^packages\/console\/ui\/|\/(gen|testing|dist|node_modules)\/|\.test\.ts$|\/test-support\.ts$/;
const COMMENT = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm;

/** The source files of the product by their paths, without comments. */
export async function productSources(): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  const entries = await readdir(join(root, 'packages'), { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(root, path);
    if (!entry.isFile() || !/\.(ts|proto)$/.test(name) || NOT_PRODUCT.test(name)) continue;
    found.set(name, (await readFile(path, 'utf8')).replace(COMMENT, ''));
  }
  return found;
}
