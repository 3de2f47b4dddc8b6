import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { release } from 'node:os';
import { inspect } from 'node:util';
import { describeMachine, round } from '../machine.ts';
import { messageOf, Progress } from '../report.ts';
import type { PaperArguments } from './arguments.ts';
import { bulk } from './experiments/bulk.ts';
import { cache } from './experiments/cache.ts';
import { cluster } from './experiments/cluster.ts';
import { contention } from './experiments/contention.ts';
import { isolation } from './experiments/isolation.ts';
import { singleTasks } from './experiments/single-tasks.ts';
import type { Experiment, PaperScale } from './lab.ts';
import type { Figure, PaperResult, Point } from './result.ts';

/** The experiments in the order of the paper's text. */
const experiments: readonly Experiment[] = [contention, cache, singleTasks, bulk, isolation, cluster];

const FULL: PaperScale = { quick: false, threads: 1, runMs: 4_000, warmUpMs: 1_500 };
/** For a test that everything works. Its figures mean nothing. */
const QUICK: PaperScale = { quick: true, threads: 0.2, runMs: 500, warmUpMs: 300 };

type MeasureArguments = Extract<PaperArguments, { readonly kind: 'measure' }>;

/** Yields the result after each figure, so that a failure of a later figure does not lose it. */
export async function* measurePaper(args: MeasureArguments): AsyncGenerator<PaperResult, void> {
  const base = args.quick ? QUICK : FULL;
  const scale = args.seconds === undefined ? base : { ...base, runMs: args.seconds * 1000 };
  const chosen = experiments.filter(({ figure }) => args.figures.includes(figure));
  const progress = new Progress();
  const began = new Date();
  const about = { command: args.command, quick: args.quick, machine: describeMachine(), versions: versions() };
  const points: Point[] = [];
  const failures: { figure: Figure; error: string }[] = [];
  for (const [at, { figure, run }] of chosen.entries()) {
    const place = `[${at + 1}/${chosen.length}] ${figure}`;
    const lab = { scale, dir: args.dir, progress: (doing: string) => progress.show(`${place}: ${doing}`) };
    try {
      for await (const point of run(lab)) {
        progress.clear();
        process.stdout.write(`${lineOf(point)}\n`);
        points.push(point);
      }
    } catch (error) {
      failures.push({ figure, error: messageOf(error) });
      progress.clear();
      process.stderr.write(`${figure}: ${inspect(error)}\n`);
    }
    progress.clear();
    const minutes = round((Date.now() - began.getTime()) / 60_000, 1);
    const seconds = scale.runMs / 1000;
    yield { format: 1, ...about, date: began.toISOString(), minutes, seconds, points, failures };
  }
}

function lineOf({ figure, series, x, tasksPerS, latencyMs, ...more }: Point): string {
  const parts = [
    `${Math.round(tasksPerS.mean).toLocaleString('en')} tasks/s`,
    `p50 ${latencyMs.median.toFixed(2)} ms`,
    ...(more.readsPerS === undefined ? [] : [`${more.readsPerS.median.toFixed(1)} reads/s`]),
    ...(more.refillsPerMin === undefined ? [] : [`${Math.round(more.refillsPerMin)} refills/min`]),
    ...(more.serverCpuUs === undefined ? [] : [`${more.serverCpuUs.toFixed(1)} µs CPU a task`]),
    ...(more.refused > 0 ? [`${more.refused} refused`] : []),
    ...(more.ranDry ? ['ran dry'] : []),
  ];
  return `${figure} ${series.padEnd(30)} ${String(x).padStart(8)}  ${parts.join(' · ')}`;
}

function versions(): Record<string, string> {
  const require = createRequire(import.meta.url);
  const manifest = require('@taskmaster/node/package.json') as {
    version: string;
    dependencies: Record<string, string>;
  };
  const commit = gitCommit();
  return {
    TaskMaster: manifest.version + (commit === undefined ? '' : ` (${commit})`),
    Node: process.version,
    '@grpc/grpc-js': manifest.dependencies['@grpc/grpc-js'] ?? '',
    '@nxtedition/rocksdb': manifest.dependencies['@nxtedition/rocksdb'] ?? '',
    Linux: release(),
  };
}

/** Undefined if this is not a clone, or git is not installed. */
function gitCommit(): string | undefined {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return undefined;
  }
}
