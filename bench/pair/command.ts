import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { UsageError } from '../arguments.ts';
import { fill } from '../contestants.ts';
import { measuredLoads, probedProcesses, runLoad, usageSince } from '../guard/measured.ts';
import { cpuTimeOf, describeMachine } from '../machine.ts';
import { type LoadGenerator, Processes, type ServerProcess } from '../processes.ts';
import { Progress } from '../report.ts';
import { buildCommit } from './build-commit.ts';
import { comparePairs, isDearer, type PairFigure, type TaskCost } from './compare-pairs.ts';

const ROUNDS = 10;
/** Runs have more tasks than those of the guard, because the system counts CPU time in steps of 10 ms. */
const TIMES_TASKS = 4;

const HELP = `Compares what a task costs now with what it cost at another commit.

  npm run bench -- pair REV            B1 to B6 of both, in turn
  npm run bench -- pair REV B4 B6      some of them

Builds the other commit in a temporary directory. Nodes and load generators of both run in alternation, ${ROUNDS} short pairs for
each row, and each pair begins with the other side than the one before. For each row it prints the CPU time of a task, by thread
of the node and of the client, and the bytes that the node's event loop allocates: medians, and the median of the pairs' ratios
with its middle half. CPU time of a task hardly depends on other programs, ratios of pairs even less.

Options:
  --rounds N     pairs of each row (default ${ROUNDS})
  --bound N      exit with 1 if the CPU time of the node for a task has grown by more than this factor in the median and in three
                 quarters of the pairs, such as 1.1 (default: only shown)
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
  const checkout = join(await places.directory(), 'checkout');
  const dearer: string[] = [];
  try {
    progress.show(`pair: building ${args.revision}`);
    const commit = await buildCommit(root, args.revision, checkout);
    progress.clear();
    if (!args.json) process.stdout.write(`${describeMachine()}; before: ${commit}\n`);
    for (const load of args.loads) {
      await using sides = await startSides(args.dir, await places.directory(), checkout);
      const pairs: { readonly before: TaskCost; readonly now: TaskCost }[] = [];
      // The first pair is the warm-up.
      for (let round = 0; round <= args.rounds; round++) {
        progress.show(`pair: ${load.row}, ${round} of ${args.rounds}`);
        const pair = await runBoth(sides, load, round);
        if (round > 0) pairs.push(pair);
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
}

interface Sides extends AsyncDisposable {
  readonly probeDir: string;
  readonly before: Side;
  readonly now: Side;
}

async function startSides(dir: string, probeDir: string, checkout: string): Promise<Sides> {
  await using stack = new AsyncDisposableStack();
  const start = async (ofCommit?: string): Promise<Side> => {
    const processes = stack.use(probedProcesses(dir, probeDir, ofCommit));
    return { node: await processes.node(), generator: processes.generator() };
  };
  const sides = { probeDir, before: await start(checkout), now: await start() };
  const all = stack.move();
  return { ...sides, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

async function runBoth(sides: Sides, load: GuardLoad, round: number) {
  const { probeDir, before, now } = sides;
  const run = (side: Side): Promise<TaskCost> => costOf(side, probeDir, load, `${load.row}-${round}`);
  if (round % 2 === 0) {
    const first = await run(before);
    return { before: first, now: await run(now) };
  }
  const first = await run(now);
  return { before: await run(before), now: first };
}

async function costOf(side: Side, probeDir: string, { load, ...of }: GuardLoad, queue: string): Promise<TaskCost> {
  const { node, generator } = side;
  const tasks = of.tasks * TIMES_TASKS;
  if (load.kind === 'lease-complete') await fill(generator, node, queue, tasks);
  await usageSince(node, probeDir);
  const cpuBefore = cpuTimeOf(node.pid);
  const { tasks: inTime, lateTasks, elapsedMs, generatorCpuMs } = await runLoad(generator, node, load, queue, tasks);
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
