import { defineConfig } from 'vitest/config';

export default defineConfig({
  // Unit tests run on the sources; process tests start what the build made.
  ssr: { resolve: { conditions: ['source'] } },
  resolve: { conditions: ['source'] },
  test: {
    include: ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts', 'examples/**/*.test.ts', 'bench/**/*.test.ts'],
    exclude: ['**/node_modules/**', '**/dist/**'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    reporters: ['default', './test/support/closing-line.ts'],
    execArgv: ['--conditions=source'],
  },
});
