import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);
const packageRoot = (name: string): string => dirname(require.resolve(`${name}/package.json`));

/** The root of the workspace. */
export const root = join(packageRoot('@taskmaster/proto'), '..', '..');

/** The folder that the paths of `.proto` files are relative to. */
export const protoRoot = packageRoot('@taskmaster/proto');

/** The built command lines. */
export const nodeCli = join(packageRoot('@taskmaster/node'), 'dist', 'node-cli.js');
export const proxyCli = join(packageRoot('@taskmaster/proxy'), 'dist', 'cli.js');
export const clientCli = join(packageRoot('@taskmaster/client'), 'dist', 'cli.js');
