import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../support/paths.ts';

/** The value of a constant in a source, which may be a product such as `512 * 1024`. */
export function constant(file: string, name: string): number {
  const source = readFileSync(join(root, 'packages', file), 'utf8');
  const [, factors] = new RegExp(`const ${name}(?:: \\w+)? = ([\\d_ *./]+);`).exec(source) ?? [];
  if (factors === undefined) throw new Error(`${file} has no number ${name}`);
  return factors.split('*').reduce((product, factor) => product * Number(factor.replaceAll('_', '')), 1);
}
