import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import type { Row } from './row.ts';

export const HELP = `Measures a node, each figure beside a baseline taken in the same run.

  npm run bench                           all rows, about 15 minutes
  npm run bench -- --list                 the rows
  npm run bench -- enqueue-50 worker-noop some of them
  npm run bench -- --quick                whether everything works, in seconds a row; the figures say nothing

Options:
  --json              one JSON object per line on standard output
  --quick             short runs, small queues
  --seconds N         length of one run (default 3)
  --repetitions N     runs of each contestant, of which medians are shown (default 3)
  --node-flag FLAG    a setting of the node, such as durability=relaxed; may be repeated
  --dir DIR           where data is kept meanwhile (default: the system's temporary directory)
  --profile DIR       profile the node and the load generators, print where the time of a task goes, keep the profiles
  --debug             stack traces of rows that cannot be measured
  --list, --help

A ratio is the node's figure over its baseline's. Rates are of tasks; payloads have 1,000 bytes; the node syncs before it
replies unless told otherwise. The exit code is 1 when a row could not be measured, 2 for wrong arguments.
`;

export type Arguments =
  | { readonly kind: 'help' }
  | { readonly kind: 'list' }
  | {
      readonly kind: 'run';
      readonly rows: readonly Row[];
      readonly json: boolean;
      readonly quick: boolean;
      readonly debug: boolean;
      readonly seconds: number | undefined;
      readonly repetitions: number | undefined;
      /** As the node takes them, with their dashes. */
      readonly nodeFlags: readonly string[];
      readonly dir: string;
      readonly profileDir: string | undefined;
    };

/** The command line cannot be understood; the message says why. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** @throws UsageError */
export function readArguments(argv: readonly string[], rows: readonly Row[]): Arguments {
  const { values, positionals } = parse(argv);
  if (values.help) return { kind: 'help' };
  if (values.list) return { kind: 'list' };
  return {
    kind: 'run',
    rows: positionals.length === 0 ? rows : positionals.map((name) => rowNamed(name, rows)),
    json: values.json,
    quick: values.quick,
    debug: values.debug,
    seconds: positive('--seconds', values.seconds),
    repetitions: positive('--repetitions', values.repetitions, Number.isInteger),
    nodeFlags: values['node-flag'].map((flag) => `--${flag.replace(/^-+/, '')}`),
    dir: values.dir,
    profileDir: values.profile,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        debug: { type: 'boolean', default: false },
        seconds: { type: 'string' },
        repetitions: { type: 'string' },
        'node-flag': { type: 'string', multiple: true, default: [] },
        dir: { type: 'string', default: tmpdir() },
        profile: { type: 'string' },
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\nSee --help.`);
  }
}

function rowNamed(name: string, rows: readonly Row[]): Row {
  const row = rows.find((one) => one.name === name);
  if (row !== undefined) return row;
  throw new UsageError(`no row is named ${name}; there are: ${rows.map((one) => one.name).join(', ')}`);
}

function positive(flag: string, text: string | undefined, isRight = Number.isFinite): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (isRight(value) && value > 0) return value;
  throw new UsageError(`${flag}: ${text} is not a number above 0`);
}
