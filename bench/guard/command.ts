import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { Processes } from '../processes.ts';
import { Progress } from '../report.ts';
import { type Baseline, compare, type Figures, formatBaseline, isFailure, parseBaseline } from './baseline.ts';
import { countedFigures } from './counted.ts';
import { measuredFigures, probedProcesses } from './measured.ts';
import { guardTable } from './report.ts';
import { guardedWorkloads } from './workloads.ts';

const HELP = `Compares the cost of a task with bench/baseline.json, in figures that do not depend on noise.

  npm run bench -- guard             fsyncs, bytes, messages; CPU time and allocations as ratios to a no-op server
  npm run bench -- guard --counted   without CPU time and allocations, which takes longest
  npm run bench -- guard --update    stores the new figures as the baseline

Options:
  --json       one JSON object per line on standard output
  --dir DIR    directory for temporary data (default: the system's temporary directory)
  --help

Fsyncs, bytes of the store and messages are counted in lockstep, so they are the same in every run. The exit code is 1 if one
of them is worse than the baseline. CPU time and allocations are only shown.
`;

const here = fileURLToPath(import.meta.url);
/** The file in the sources, not in the build's output. */
const baselineFile = join(dirname(here), extname(here) === '.ts' ? '..' : '../..', 'baseline.json');

/** Runs `npm run bench -- guard`. Resolves with the exit code. */
export async function runGuard(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv);
  if (typeof args === 'string') {
    process.stderr.write(`${args}\nSee guard --help.\n`);
    return 2;
  }
  if (args.help) {
    process.stdout.write(HELP);
    return 0;
  }
  await mkdir(args.dir, { recursive: true });
  const was = args.update ? undefined : parseBaseline(await readFile(baselineFile, 'utf8'));
  const is = await look(args);
  if (was === undefined) {
    await writeFile(baselineFile, formatBaseline(is));
    process.stdout.write(`${baselineFile} has the new figures\n`);
    return 0;
  }
  const comparisons = compare(was, is).filter(({ kind }) => kind === 'counted' || !args.counted);
  if (args.json) {
    for (const one of comparisons) process.stdout.write(`${JSON.stringify({ ...one, failure: isFailure(one) })}\n`);
  } else {
    process.stdout.write(`${describeMachine()}; baseline of Node ${was.node}\n${guardTable(comparisons)}`);
  }
  return comparisons.some(isFailure) ? 1 : 0;
}

interface GuardArguments {
  readonly counted: boolean;
  readonly update: boolean;
  readonly json: boolean;
  readonly help: boolean;
  readonly dir: string;
}

/** Parses the arguments. A string is the problem with them. */
function readArguments(argv: readonly string[]): GuardArguments | string {
  try {
    const { values } = parseArgs({
      args: [...argv],
      options: {
        counted: { type: 'boolean', default: false },
        update: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        dir: { type: 'string', default: tmpdir() },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    return values.counted && values.update ? '--update needs all figures' : values;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function look({ dir, counted: countedOnly }: GuardArguments): Promise<Baseline> {
  const progress = new Progress();
  const counted = new Map<string, Figures>();
  let measured: ReadonlyMap<string, Figures> = new Map();
  try {
    for (const workload of guardedWorkloads) {
      progress.show(`guard: ${workload.row}, ${workload.about}`);
      await using processes = new Processes({ dir, nodeFlags: [], profileDir: undefined });
      counted.set(workload.row, await countedFigures(processes, workload));
    }
    if (!countedOnly) {
      await using places = new Processes({ dir, nodeFlags: [], profileDir: undefined });
      const probeDir = await places.directory();
      await using processes = probedProcesses(dir, probeDir);
      measured = await measuredFigures(processes, probeDir, (row) => progress.show(`guard: ${row} at full load`));
    }
  } finally {
    progress.clear();
  }
  const rows = [...counted].map(([row, figures]) => [row, { counted: figures, measured: measured.get(row) ?? {} }]);
  return { node: process.version, rows: Object.fromEntries(rows) };
}
