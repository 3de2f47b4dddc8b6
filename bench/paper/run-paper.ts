import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isInMemory } from '../machine.ts';
import { PAPER_HELP, type PaperArguments, readPaperArguments } from './arguments.ts';
import { measurePaper } from './measure.ts';
import { type PaperResult, readResult } from './result.ts';

const RESULT_FILE = 'result.json';

/**
 * Runs `npm run bench -- paper …`. Resolves with the exit code. Throws `UsageError`.
 */
export async function runPaper(argv: readonly string[]): Promise<number> {
  const args = readPaperArguments(argv);
  switch (args.kind) {
    case 'help':
      process.stdout.write(PAPER_HELP);
      return 0;
    case 'redraw':
      await draw(await readResult(args.from), args.out ?? dirname(args.from));
      return 0;
    case 'measure':
      return measure(args);
    default:
      return args satisfies never;
  }
}

type MeasureArguments = Extract<PaperArguments, { readonly kind: 'measure' }>;

/** Resolves with the exit code: 1 if a figure could not be measured. */
async function measure(args: MeasureArguments): Promise<number> {
  await mkdir(args.dir, { recursive: true });
  await mkdir(args.out, { recursive: true });
  if (isInMemory(args.dir)) {
    process.stderr.write(
      `${args.dir} is in memory, where syncs take no time: choose a directory on a disk with --dir\n`,
    );
  }
  let last: PaperResult | undefined;
  for await (const result of measurePaper(args)) {
    await writeFile(join(args.out, RESULT_FILE), `${JSON.stringify(result, roundFigures, 1)}\n`);
    last = result;
  }
  if (last !== undefined) await draw(last, args.out);
  return last?.failures.length === 0 ? 0 : 1;
}

async function draw(result: PaperResult, out: string): Promise<void> {
  // Imported only here, because the chart library is large and rows of the benchmark do not need it.
  const { writeReport } = await import('./report/write-report.ts');
  const files = await writeReport(result, out);
  process.stdout.write(`${files.map((file) => join(out, file)).join('\n')}\n`);
}

/** Rounds figures to the measured precision, so that files are easy to compare. */
function roundFigures(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}
