import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { UsageError } from '../arguments.ts';
import { type Figure, figures } from './result.ts';

export const PAPER_HELP = `Measures figures 3 to 7 and table 1 of the paper, and writes a report with plots.

  npm run bench -- paper                      all figures, about 20 minutes
  npm run bench -- paper figure-3 table-1     some of them: ${figures.join(', ')}
  npm run bench -- paper --quick              a test of all figures within 2 minutes; the figures mean nothing
  npm run bench -- paper --from result.json   the report again, from earlier data

Options:
  --out DIR      directory for report.md, its plots and result.json (default bench/results/paper, or that of --from)
  --from FILE    measures nothing, but draws the result.json of an earlier run
  --quick        short runs, few points
  --seconds N    duration of the measured part of each run (default 4)
  --dir DIR      directory for temporary data, up to 10 GB (default: the system's temporary directory)
  --help
`;

const DEFAULT_OUT = 'bench/results/paper';

export type PaperArguments =
  | { readonly kind: 'help' }
  | { readonly kind: 'redraw'; readonly from: string; readonly out: string | undefined }
  | {
      readonly kind: 'measure';
      readonly figures: readonly Figure[];
      readonly quick: boolean;
      readonly seconds: number | undefined;
      readonly dir: string;
      readonly out: string;
      /** The command line, without options that do not change the figures. */
      readonly command: string;
    };

/** Parses the command line. Throws `UsageError`. */
export function readPaperArguments(argv: readonly string[]): PaperArguments {
  const { values, positionals } = parse(argv);
  if (values.help) return { kind: 'help' };
  if (values.from !== undefined) return { kind: 'redraw', from: values.from, out: values.out };
  return {
    kind: 'measure',
    figures: positionals.length === 0 ? figures : positionals.map(figureNamed),
    quick: values.quick,
    seconds: secondsOf(values.seconds),
    dir: values.dir,
    out: values.out ?? DEFAULT_OUT,
    command: ['npm run bench -- paper', ...shown(positionals, values)].join(' '),
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        out: { type: 'string' },
        from: { type: 'string' },
        quick: { type: 'boolean', default: false },
        seconds: { type: 'string' },
        dir: { type: 'string', default: tmpdir() },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\nSee paper --help.`);
  }
}

/** The arguments that change the figures. */
function shown(positionals: readonly string[], { quick, seconds }: { quick: boolean; seconds?: string }): string[] {
  return [...positionals, ...(quick ? ['--quick'] : []), ...(seconds === undefined ? [] : [`--seconds ${seconds}`])];
}

function figureNamed(name: string): Figure {
  const figure = figures.find((one) => one === name);
  if (figure !== undefined) return figure;
  throw new UsageError(`${name} is not measured; the figures are: ${figures.join(', ')}`);
}

function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds) && seconds > 0) return seconds;
  throw new UsageError(`--seconds: ${text} is not a number above 0`);
}
