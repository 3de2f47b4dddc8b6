import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { UsageError } from '../arguments.ts';
import { type Figure, figures } from './result.ts';

export const PAPER_HELP = `Measures what figures 3 to 7 and Table 1 of the paper show, and writes a report with plots.

  npm run bench -- paper                      everything, about 20 minutes
  npm run bench -- paper figure-3 table-1     some of it: ${figures.join(', ')}
  npm run bench -- paper --quick              whether everything works, within 2 minutes; the figures say nothing
  npm run bench -- paper --from result.json   the report once more, from data measured before

Options:
  --out DIR      where report.md, its plots and result.json go (default bench/results/paper, or where --from is)
  --from FILE    measures nothing: draws what a run left in its result.json
  --quick        short runs, few points
  --seconds N    what of each run counts (default 4)
  --dir DIR      where data is kept meanwhile, up to 10 GB (default: the system's temporary directory)
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
      /** As it was typed, about. */
      readonly command: string;
    };

/** @throws UsageError */
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

/** What decides the figures; where they are kept does not. */
function shown(positionals: readonly string[], { quick, seconds }: { quick: boolean; seconds?: string }): string[] {
  return [...positionals, ...(quick ? ['--quick'] : []), ...(seconds === undefined ? [] : [`--seconds ${seconds}`])];
}

function figureNamed(name: string): Figure {
  const figure = figures.find((one) => one === name);
  if (figure !== undefined) return figure;
  throw new UsageError(`the paper has no ${name} that is measured here; there are: ${figures.join(', ')}`);
}

function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds) && seconds > 0) return seconds;
  throw new UsageError(`--seconds: ${text} is not a number above 0`);
}
