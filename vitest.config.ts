import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import SlowestFirst from './test/support/slowest-first.ts';

// Workers of Vitest and the programs that tests start read compiled code from here. A node starts with 10 % less work, a program
// that runs from its sources with 40 % less.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url));

/** What starts real processes, and waits for them with real clocks. */
const processes = [
  'test/{attacks,process,cli,e2e}/**/*.test.ts',
  'packages/{node,proxy}/src/cli/serve*.test.ts',
  'examples/**/*.test.ts',
  'bench/**/*.test.ts',
];

/** These tests have time bounds that other tests would break, so they run after all others. */
const alone = ['test/process/recovery-time.test.ts'];

/** Pods on a real control plane: `npm run test:kubernetes`. It takes minutes, and builds Kubernetes first. */
const kubernetes = ['test/kubernetes/scenarios/*.test.ts'];
const withKubernetes = process.env.TASKMASTER_KUBERNETES_TEST !== undefined;

/** The container image, built and run: `npm run test:image`. It takes minutes. */
const image = ['test/image/built/*.test.ts'];
const withImage = process.env.TASKMASTER_IMAGE_TEST !== undefined;

const processTests = {
  // These wait for real processes: on a machine that stands still for seconds, what must be there in time is late, however
  // generous the bound (crowds, full-disk, idle-polls, kill, start-and-stop, test/cli/terminal). A failure counts when it
  // comes again; Vitest names the tests it repeated.
  retry: process.env.CI ? 1 : 0,
};

export default defineConfig({
  test: {
    exclude: ['**/node_modules/**', '**/dist/**'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    // Hooks start processes, too.
    hookTimeout: 60_000,
    // The default of a second is too short on a busy machine.
    expect: { poll: { timeout: 20_000 } },
    reporters: ['default', './test/support/closing-line.ts'],
    sequence: { sequencer: SlowestFirst },
    // Unit tests run on the sources; process tests start what the build made.
    execArgv: ['--conditions=source'],
    // Node.js itself loads the sources. Simulations take an eighth less processor time than behind Vite, which makes each use of an
    // import the call of a getter. No test mocks a module.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    projects: [
      {
        extends: true,
        test: {
          name: 'deterministic',
          include: ['packages/*/{src,ui}/**/*.test.ts', 'scripts/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...processes, ...kubernetes, ...image],
          // The files share the workers, so the sources load only once in each. No module keeps state that a test could notice.
          isolate: false,
          // One more than processors: a few files wait for sockets, threads and PostgreSQL.
          maxWorkers: 3,
          // Ends what hangs. A busy machine needs minutes for the long simulations.
          testTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: processes,
          exclude: alone,
          globalSetup: './test/support/warm-up.ts',
          // As above. A process for each file would cost a second of both cores.
          isolate: false,
          // More than processors, because these tests wait for half of their time. With six, tests starved that measure time. Not
          // beside the deterministic tests, which hardly wait.
          maxWorkers: 5,
          sequence: { groupOrder: 1 },
          testTimeout: 60_000,
          ...processTests,
        },
      },
      {
        extends: true,
        test: { name: 'alone', include: alone, sequence: { groupOrder: 2 }, testTimeout: 60_000, ...processTests },
      },
      {
        extends: true,
        test: {
          name: 'kubernetes',
          include: withKubernetes ? kubernetes : [],
          // Each file has a control plane and a cluster of its own.
          fileParallelism: false,
          sequence: { groupOrder: 3 },
          // What happens to the pods is printed when it happens.
          disableConsoleIntercept: true,
          // The first hook may build Kubernetes.
          testTimeout: 600_000,
          hookTimeout: 1_800_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'image',
          include: withImage ? image : [],
          sequence: { groupOrder: 4 },
          // The figures of the image are printed.
          disableConsoleIntercept: true,
          testTimeout: 300_000,
          // The first hook builds the image, and may make its base.
          hookTimeout: 1_800_000,
        },
      },
    ],
  },
});
