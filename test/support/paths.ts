import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);
const packageRoot = (name: string): string => dirname(require.resolve(`${name}/package.json`));

/** The root of the workspace. */
export const root = join(packageRoot('@taskmaster/proto'), '..', '..');

/** Folder that the paths of `.proto` files begin in. */
export const protoRoot = packageRoot('@taskmaster/proto');

/** The command lines of a node and a proxy, as the build made them. */
export const nodeCli = join(packageRoot('@taskmaster/node'), 'dist', 'node-cli.js');
export const proxyCli = join(packageRoot('@taskmaster/proxy'), 'dist', 'cli.js');
