import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { UsageError } from '../arguments.ts';
import { fill } from '../contestants.ts';
import { measuredLoads, probedProcesses, runLoad, usageSince } from '../guard/measured.ts';
import { cpuTimeOf, describeMachine } from '../machine.ts';
import { type LoadGenerator, Processes, type ServerProcess } from '../processes.ts';
import { Progress } from '../report.ts';
import { buildCommit } from './build-commit.ts';
import { comparePairs, isDearer, type Pair, type PairFigure, type TaskCost } from './compare-pairs.ts';

const ROUNDS = 12;
/** V8 compiles a node's and a client's functions anew for about as many tasks, mostly beside the main thread. */
const WARM_UP_TASKS = 80_000;
/** Runs of each side in a round. Runs are short, so that both sides meet the same other programs. */
const RUNS = 8;
/** A run ends with its last task: both sides do the same work. */
const MOST_MS = 60_000;

const HELP = `Compares what a task costs now with what it cost at another commit.

  npm run bench -- pair REV            B1 to B6 of both, in turn
  npm run bench -- pair REV B4 B6      some of them

Builds the other commit in a temporary directory. Each round starts a new node and a new load generator of both and runs them in
alternation: two processes of one build differ by several percent for as long as they live. For each row it prints the CPU time of
a task, by thread of the node and of the client, and the bytes that the node's event loop allocates: medians, and the median of the
rounds' ratios with its middle half. CPU time of a task hardly depends on other programs, ratios even less.

REV may also be the directory of a checkout that is built.

Options:
  --rounds N     rounds of each row (default ${ROUNDS})
  --bound N      exit with 1 if the CPU time of the node for a task has grown by more than this factor in the median and in three
                 quarters of the rounds, such as 1.1 (default: only shown)
  --json         one JSON object per line on standard output
  --dir DIR      directory for temporary data (default: the system's temporary directory)
  --help
`;

const here = fileURLToPath(import.meta.url);
const root = join(dirname(here), extname(here) === '.ts' ? '../..' : '../../..');

/** Runs `npm run bench -- pair REV`. Resolves with the exit code. */
export async function runPair(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv);
  if (args.help) {
    process.stdout.write(HELP);
    return 0;
  }
  await mkdir(args.dir, { recursive: true });
  const progress = new Progress();
  await using places = new Processes({ dir: args.dir, nodeFlags: [], profileDir: undefined });
  const dearer: string[] = [];
  try {
    progress.show(`pair: building ${args.revision}`);
    const isBuilt = existsSync(join(args.revision, 'bench/dist'));
    const checkout = isBuilt ? resolve(args.revision) : join(await places.directory(), 'checkout');
    const commit = isBuilt ? args.revision : await buildCommit(root, args.revision, checkout);
    progress.clear();
    if (!args.json) process.stdout.write(`${describeMachine()}; before: ${commit}\n`);
    for (const load of args.loads) {
      const pairs: Pair[] = [];
      for (let round = 1; round <= args.rounds; round++) {
        progress.show(`pair: ${load.row}, ${round} of ${args.rounds}`);
        pairs.push(await runRound(args.dir, checkout, load, round % 2 === 0));
      }
      progress.clear();
      const figures = comparePairs(pairs);
      show(load.row, figures, args.json);
      const node = figures.find(({ figure }) => figure === 'node_cpu_us');
      if (args.bound !== undefined && node !== undefined && isDearer(node, args.bound)) dearer.push(load.row);
    }
  } finally {
    progress.clear();
  }
  if (dearer.length > 0) process.stderr.write(`a task costs the node more than ${args.bound} × as much: ${dearer}\n`);
  return dearer.length > 0 ? 1 : 0;
}

type GuardLoad = (typeof measuredLoads)[number];

interface PairArguments {
  readonly revision: string;
  readonly loads: readonly GuardLoad[];
  readonly rounds: number;
  readonly bound: number | undefined;
  readonly json: boolean;
  readonly help: boolean;
  readonly dir: string;
}

/** @throws UsageError */
function readArguments(argv: readonly string[]): PairArguments {
  const { values, positionals } = parse(argv);
  const [revision = '', ...rows] = positionals;
  if (!values.help && revision === '') throw new UsageError('pair needs a commit to compare with; see pair --help');
  const unknown = rows.find((row) => !measuredLoads.some((load) => load.row === row));
  if (unknown !== undefined) {
    throw new UsageError(`there is no row ${unknown}; the rows are: ${measuredLoads.map(({ row }) => row).join(', ')}`);
  }
  const [rounds, bound] = [Number(values.rounds), values.bound === undefined ? undefined : Number(values.bound)];
  if (!Number.isInteger(rounds) || rounds < 1) throw new UsageError(`--rounds: ${values.rounds} is no number of pairs`);
  if (bound !== undefined && !(bound > 0)) throw new UsageError(`--bound: ${values.bound} is not a factor above 0`);
  const loads = rows.length === 0 ? measuredLoads : measuredLoads.filter(({ row }) => rows.includes(row));
  return { revision, loads, rounds, bound, json: values.json, help: values.help, dir: values.dir };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        rounds: { type: 'string', default: String(ROUNDS) },
        bound: { type: 'string' },
        json: { type: 'boolean', default: false },
        dir: { type: 'string', default: tmpdir() },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\nSee pair --help.`);
  }
}

interface Side {
  readonly node: ServerProcess;
  readonly generator: LoadGenerator;
  readonly runs: TaskCost[];
}

/** Runs new processes of both sides. `swapped`: those of now start first. */
async function runRound(dir: string, checkout: string, load: GuardLoad, swapped: boolean): Promise<Pair> {
  await using stack = new AsyncDisposableStack();
  const probeDir = await stack.use(new Processes({ dir, nodeFlags: [], profileDir: undefined })).directory();
  const start = async (of?: string): Promise<Side> => {
    const processes = stack.use(probedProcesses(dir, probeDir, of));
    return { node: await processes.node(), generator: processes.generator(), runs: [] };
  };
  const first = await start(swapped ? undefined : checkout);
  const second = await start(swapped ? checkout : undefined);
  await Promise.all([first, second].map((side) => warmUp(side, load)));
  for (let run = 0; run < RUNS; run++) {
    for (const side of run % 2 === 0 ? [first, second] : [second, first]) {
      side.runs.push(await costOf(side, probeDir, load, `${load.row}-${run}`));
    }
  }
  const [before, now] = swapped ? [second, first] : [first, second];
  return { before: meanOf(before.runs), now: meanOf(now.runs) };
}

function meanOf(runs: readonly TaskCost[]): TaskCost {
  const sum = (figure: string): number => runs.reduce((total, run) => total + (run[figure] ?? 0), 0);
  return Object.fromEntries(Object.keys(runs[0] ?? {}).map((figure) => [figure, sum(figure) / runs.length]));
}

async function warmUp({ node, generator }: Side, { load }: GuardLoad): Promise<void> {
  if (load.kind === 'lease-complete') await fill(generator, node, 'warm-up', WARM_UP_TASKS);
  await runLoad(generator, node, load, 'warm-up', WARM_UP_TASKS, MOST_MS);
}

async function costOf({ node, generator }: Side, probeDir: string, { load, tasks }: GuardLoad, queue: string) {
  if (load.kind === 'lease-complete') await fill(generator, node, queue, tasks);
  await usageSince(node, probeDir);
  const cpuBefore = cpuTimeOf(node.pid);
  const {
    tasks: inTime,
    lateTasks,
    elapsedMs,
    generatorCpuMs,
  } = await runLoad(generator, node, load, queue, tasks, MOST_MS);
  const cpu = cpuTimeOf(node.pid);
  const { allocatedBytes } = await usageSince(node, probeDir);
  const done = inTime + lateTasks;
  const us = (kind: 'all' | 'main' | 'writer' | 'rocksdb' | 'v8'): number =>
    ((cpu?.[kind] ?? 0) - (cpuBefore?.[kind] ?? 0)) * (1000 / done);
  return {
    node_cpu_us: us('all'),
    main_cpu_us: us('main'),
    writer_cpu_us: us('writer'),
    rocksdb_cpu_us: us('rocksdb'),
    v8_cpu_us: us('v8'),
    client_cpu_us: generatorCpuMs * (1000 / done),
    allocated_bytes: allocatedBytes / done,
    tasks_per_s: (inTime / elapsedMs) * 1000,
  };
}

function show(row: string, figures: readonly PairFigure[], json: boolean): void {
  if (json) {
    for (const figure of figures) process.stdout.write(`${JSON.stringify({ row, ...figure })}\n`);
    return;
  }
  process.stdout.write(`${row}\n`);
  for (const { figure, before, now, ratio, low, high } of figures) {
    const spread = `(${low.toFixed(2)} to ${high.toFixed(2)})`;
    const name = figure.padEnd(16);
    process.stdout.write(`  ${name}${ratio.toFixed(2)} ${spread.padEnd(16)} ${short(before)} → ${short(now)}\n`);
  }
}

const short = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
