// Runs one job of the workspace from a fresh clone that has nothing but Node and npm:
// pnpm comes through npx, Node 24 and everything else through the lockfile.
import { spawn } from 'node:child_process';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PNPM = 'pnpm@12.21.0';
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = join(root, 'node_modules', '.bin');

/** What each job runs once the workspace is installed and built. Arguments of the command line are added to the last step. */
const jobs = {
  test: [
    ['pnpm', 'check'],
    ['pnpm', 'unit'],
  ],
  demo: [['node', 'examples/dist/crawler/demo.js']],
  start: [['node', 'packages/proxy/dist/node-cli.js']],
  bench: [['node', 'bench/dist/run.js']],
  sim: [['node', 'test/dist/sim/cluster/run.js']],
};

const parent = process.ppid;
const [job, ...args] = process.argv.slice(2);
const steps = jobs[job];
if (!steps) throw new TypeError(`unknown job ${job}: expected one of ${Object.keys(jobs).join(', ')}`);

/** Runs a command with Node 24 first on the PATH; its standard output goes where `stdout` says. */
function run(command, commandArgs, stdout) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, commandArgs, {
      cwd: root,
      stdio: ['inherit', stdout, 'inherit'],
      env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` },
    });
    // A terminal sends Ctrl-C to the whole process group: the child shuts down cleanly and this process waits for it.
    const onInterrupt = () => {};
    const onTerminate = () => child.kill('SIGTERM');
    process.on('SIGINT', onInterrupt).on('SIGTERM', onTerminate);
    // A SIGTERM sent to npm ends npm and its shell, and reaches nobody behind them: a node would keep its ports.
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

const prepare = [
  ['npx', ['-y', PNPM, 'install', '--frozen-lockfile', '--reporter=append-only']],
  [join(bin, 'tsc'), ['-b']],
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
    ? await run('npx', ['-y', PNPM, 'run', ...commandArgs, ...extra], 'inherit')
    : await run(join(bin, command), [...commandArgs, ...extra], 'inherit');
  if (code !== 0) process.exit(code);
}
