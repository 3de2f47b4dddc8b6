import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import type { Row } from './row.ts';

export const HELP = `Measures a node. Each figure is shown beside a baseline from the same run.

  npm run bench                           B1 to B7, some minutes
  npm run bench -- --list                 the rows
  npm run bench -- B1 B3 hand-off-1m      some of them
  npm run bench -- all                    all rows except those that run only by name, about an hour
  npm run bench -- peers --help           other queues on this machine
  npm run bench -- guard --help           the cost of a task, compared with the baseline
  npm run bench -- pair --help            the cost of a task, compared with another commit
  npm run bench -- paper --help           the paper's figures, with plots
  npm run bench -- --quick                a test of all rows, some seconds each; the figures mean nothing

Options:
  --json              one JSON object per line on standard output
  --quick             short runs, small queues
  --seconds N         length of one run (default 3)
  --repetitions N     runs of each contestant, of which medians are shown (default 3)
  --tasks N           number of queued tasks in rows about many tasks (B8 to B12), instead of the row's number
  --peer-results FILE results of other queues on this machine, as "peers --out FILE" writes them; without it, installed
                      queues are measured, too, some minutes for each row (B3 to B6)
  --no-peers          does not measure other queues
  --node-flag FLAG    a setting of the node, such as durability=relaxed; may be repeated
  --dir DIR           directory for temporary data (default: the system's temporary directory)
  --profile DIR       profiles the node and the load generators, prints the cost of a task by step, keeps the profiles
  --debug             prints stack traces of rows that cannot be measured
  --list, --help

A ratio is the node's figure divided by the baseline's. Rates count tasks, with payloads of 1,000 bytes. The node syncs before
it replies, unless a flag changes that. The exit code is 1 if a row could not be measured, and 2 for wrong arguments.
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
      readonly tasks: number | undefined;
      readonly peerResults: string | undefined;
      readonly noPeers: boolean;
      /** Flags for the node, with dashes. */
      readonly nodeFlags: readonly string[];
      readonly dir: string;
      readonly profileDir: string | undefined;
    };

/** The command line is wrong; the message says why. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Parses the command line. Throws `UsageError`. */
export function readArguments(argv: readonly string[], rows: readonly Row[]): Arguments {
  const { values, positionals } = parse(argv);
  if (values.help) return { kind: 'help' };
  if (values.list) return { kind: 'list' };
  return {
    kind: 'run',
    rows: chosen(positionals, rows),
    json: values.json,
    quick: values.quick,
    debug: values.debug,
    seconds: positive('--seconds', values.seconds),
    repetitions: positive('--repetitions', values.repetitions, Number.isInteger),
    tasks: positive('--tasks', values.tasks, Number.isInteger),
    peerResults: values['peer-results'],
    noPeers: values['no-peers'],
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
        tasks: { type: 'string' },
        'peer-results': { type: 'string' },
        'no-peers': { type: 'boolean', default: false },
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

function chosen(names: readonly string[], rows: readonly Row[]): readonly Row[] {
  if (names.length === 0) return rows.filter(({ when }) => when === 'always');
  return names.flatMap((name) => (name === 'all' ? rows.filter(({ when }) => when !== 'named') : rowNamed(name, rows)));
}

function rowNamed(name: string, rows: readonly Row[]): Row {
  const row = rows.find((one) => one.name === name);
  if (row !== undefined) return row;
  throw new UsageError(`there is no row ${name}; the rows are: ${rows.map((one) => one.name).join(', ')}`);
}

function positive(flag: string, text: string | undefined, isRight = Number.isFinite): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (isRight(value) && value > 0) return value;
  throw new UsageError(`${flag}: ${text} is not a number above 0`);
}
