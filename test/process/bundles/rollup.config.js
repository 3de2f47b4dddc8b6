import commonjs from '@rollup/plugin-commonjs';
import json from '@rollup/plugin-json';
import nodeResolve from '@rollup/plugin-node-resolve';

/** Bundles `worker-app.js` and the thread in the formats that the test asks for: `--configTo=<folder>`. */
export default ({ configTo }) => ({
  input: {
    app: new URL('worker-app.js', import.meta.url).pathname,
    'renewer-thread': '@taskmaster/client/renewer-thread',
  },
  plugins: [nodeResolve(), commonjs(), json()],
  output: Object.entries({ esm: '.mjs', cjs: '.cjs' }).map(([format, extension]) => ({
    dir: `${configTo}/${format}`,
    format,
    entryFileNames: `[name]${extension}`,
    chunkFileNames: `[name]${extension}`,
  })),
  // CommonJS of dependencies has circular imports.
  onwarn() {},
});
