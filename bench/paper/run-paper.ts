import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PAPER_HELP, readPaperArguments } from './arguments.ts';
import { measurePaper } from './measure.ts';
import { type PaperResult, readResult } from './result.ts';

const RESULT_FILE = 'result.json';

/**
 * `npm run bench -- paper …`. Resolves with the exit code.
 * @throws UsageError
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
    case 'measure': {
      await mkdir(args.dir, { recursive: true });
      const result = await measurePaper(args);
      await mkdir(args.out, { recursive: true });
      await writeFile(join(args.out, RESULT_FILE), `${JSON.stringify(result, roundFigures, 1)}\n`);
      await draw(result, args.out);
      return 0;
    }
    default:
      return args satisfies never;
  }
}

async function draw(result: PaperResult, out: string): Promise<void> {
  // The chart library is large: rows of the benchmark need not wait for it.
  const { writeReport } = await import('./report/write-report.ts');
  const files = await writeReport(result, out);
  process.stdout.write(`${files.map((file) => join(out, file)).join('\n')}\n`);
}

/** More digits than were measured make the file hard to compare. */
function roundFigures(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}
