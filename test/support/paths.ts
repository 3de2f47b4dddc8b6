import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);
export const packageRoot = (name: string): string => dirname(require.resolve(`${name}/package.json`));

/** The root of the workspace. */
export const root = join(packageRoot('@taskmaster/proto'), '..', '..');

/** The folder that the paths of `.proto` files are relative to. */
export const protoRoot = packageRoot('@taskmaster/proto');

/** The command lines that the build has made. */
export const builtCli = {
  node: join(packageRoot('@taskmaster/node'), 'dist', 'node-cli.js'),
  proxy: join(packageRoot('@taskmaster/proxy'), 'dist', 'cli.js'),
  client: join(packageRoot('@taskmaster/cli'), 'dist', 'cli.js'),
};

/** Environment variable with the folder of `bundlePrograms`. The process tests set it. */
export const BUNDLES = 'TASKMASTER_TEST_BUNDLES';

/**
 * Environment variable for a bundled node or proxy: it bounds its memory as it is shipped. Otherwise V8 keeps its defaults. With
 * other flags a program is executed twice, and Node.js rejects the compiled code of its own modules, in the main thread and in
 * each of three more. That is two fifths of the processor time of a start.
 */
export const AS_SHIPPED = 'TEST_AS_SHIPPED';

/** The folder of the bundled examples, in that of `bundlePrograms`. */
export const EXAMPLES = 'examples';

const programOf = (name: keyof typeof builtCli): string => {
  const bundles = process.env[BUNDLES];
  return bundles === undefined ? builtCli[name] : join(bundles, `${name}.mjs`);
};

/** The command lines, from the bundles if there are some. */
export const nodeCli = programOf('node');
export const proxyCli = programOf('proxy');
export const clientCli = programOf('client');

/** The path of an example: `hello`, `crawler/demo`. */
export const exampleOf = (name: string): string => {
  const bundles = process.env[BUNDLES];
  return bundles === undefined ? join(root, 'examples', 'dist', `${name}.js`) : join(bundles, EXAMPLES, `${name}.mjs`);
};
