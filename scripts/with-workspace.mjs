// Runs one job of the workspace from a fresh clone. It needs only Node and npm: npx provides pnpm, and the lockfile provides
// Node 24 and all packages.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { delimiter, dirname, join, parse } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = join(root, 'node_modules', '.bin');

/** The steps of each job, after the workspace is installed and built. The last step gets the arguments of the command line. */
const jobs = {
  test: [
    ['pnpm', 'check'],
    ['pnpm', 'unit'],
  ],
  'test:kubernetes': [['vitest', 'run', '--project', 'kubernetes']],
  'test:image': [['vitest', 'run', '--project', 'image']],
  demo: [['node', 'examples/dist/crawler/demo.js']],
  start: [['node', 'packages/node/dist/node-cli.js']],
  example: [['node']],
  bench: [['node', 'bench/dist/run.js']],
  release: [['node', 'scripts/release/release.ts']],
  sim: [['node', 'test/dist/sim/cluster/run.js']],
  'upgrade-test': [['vitest', 'run', 'test/process/rolling-upgrade.test.ts']],
};

/** How lazily programs in Go collect garbage. The compiler needs a quarter less processor time, and hardly more memory. */
const GOGC = process.env.GOGC ?? '400';

const { config, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const parent = process.ppid;
const [job, ...args] = process.argv.slice(2);
const steps = jobs[job];
if (!steps) throw new TypeError(`unknown job ${job}: expected one of ${Object.keys(jobs).join(', ')}`);
if (job === 'example') args.unshift(exampleNamed(args.shift()));

/** The path of the example with this name. Exits with 2 if there is none. */
function exampleNamed(name) {
  const pathOf = new Map();
  for (const folder of ['', 'attempts']) {
    const sources = readdirSync(join(root, 'examples', folder)).filter((file) => file.endsWith('.ts'));
    for (const source of sources) pathOf.set(parse(source).name, join(folder, parse(source).name));
  }
  const path = pathOf.get(name);
  if (path !== undefined) return `examples/dist/${path}.js`;
  process.stderr.write(`npm run example NAME, where NAME is one of ${[...pathOf.keys()].sort().join(', ')}\n`);
  process.exit(2);
}

/** Runs a command with Node 24 first on the PATH. Resolves with its exit code. `stdout`: see `stdio` of `spawn`. */
function run(command, commandArgs, stdout) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, commandArgs, {
      cwd: root,
      stdio: ['inherit', stdout, 'inherit'],
      env: { ...process.env, GOGC, PATH: `${bin}${delimiter}${process.env.PATH}` },
    });
    // A terminal sends Ctrl-C to the whole process group: the child shuts down, and this process waits for it.
    const onInterrupt = () => {};
    const onTerminate = () => child.kill('SIGTERM');
    process.on('SIGINT', onInterrupt).on('SIGTERM', onTerminate);
    // A SIGTERM to npm ends npm and its shell but does not reach their children: a node would keep its ports.
    const orphaned = setInterval(() => {
      if (process.env.npm_lifecycle_event && process.ppid !== parent) onTerminate();
    }, 500);
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      clearInterval(orphaned);
      process.off('SIGINT', onInterrupt).off('SIGTERM', onTerminate);
      resolve(signal ? 1 : code);
    });
  });
}

// Packages are installed for the workspace's own Node, not for the Node that runs this script.
const forOwnNode = `--config.node-version=${devDependencies.node}`;
const prepare = [
  ['npx', ['-y', config.pnpm, 'install', '--frozen-lockfile', '--reporter=append-only', forOwnNode]],
  // Projects are built side by side. Several checkers in each would check what they share once more.
  [join(bin, 'tsc'), ['-b', '--checkers', '1']],
  [join(bin, 'node'), ['packages/console/scripts/build.ts']],
];
// Standard output belongs to the job itself, so that `--json` stays machine-readable.
for (const [command, commandArgs] of prepare) {
  const code = await run(command, commandArgs, 2);
  if (code !== 0) process.exit(code);
}
for (const [index, [command, ...commandArgs]] of steps.entries()) {
  const extra = index === steps.length - 1 ? args : [];
  const viaPnpm = command === 'pnpm';
  const code = viaPnpm
    ? await run('npx', ['-y', config.pnpm, 'run', ...commandArgs, ...extra], 'inherit')
    : await run(join(bin, command), [...commandArgs, ...extra], 'inherit');
  if (code !== 0) process.exit(code);
}
