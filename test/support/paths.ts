import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);
const packageRoot = (name: string): string => dirname(require.resolve(`${name}/package.json`));

/** Folder that the paths of `.proto` files begin in. */
export const protoRoot = packageRoot('@taskmaster/proto');

/** The node's command line, as the build made it. */
export const nodeCli = join(packageRoot('@taskmaster/node'), 'dist', 'cli.js');
