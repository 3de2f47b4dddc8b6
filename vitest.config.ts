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
    // Real processes on a shared machine: a failure counts when it comes again. Vitest names the tests it repeated.
    retry: process.env.CI ? 2 : 0,
    reporters: ['default', './test/support/closing-line.ts'],
    execArgv: ['--conditions=source'],
  },
});
