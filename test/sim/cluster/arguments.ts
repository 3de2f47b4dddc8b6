import { parseArgs } from 'node:util';
import { DEFAULT_STEPS } from './simulation.ts';

const DEFAULT_SEEDS = 500;

export const HELP = `Simulates whole clusters on virtual time: nodes, proxies and users, to which everything happens that can.
Each seed plays one history, always the same, and judges it against the contract (docs/contract.md).

  npm run sim                                  ${DEFAULT_SEEDS} seeds, about two minutes
  npm run sim -- --seeds 20000 --first-seed 501  others, for a night
  npm run sim -- --seed 41 --trace               one again, event by event

Options:
  --seeds N        how many (default ${DEFAULT_SEEDS})
  --first-seed N   where to begin (default 1)
  --steps N        how often something may befall each cluster (default ${DEFAULT_STEPS})
  --seed N         this one only
  --old-copies     nodes may also be put back from older copies of their directories. Some seeds do not settle then:
                   a node notices an old copy only where another node holds one of its partitions at a later epoch
  --trace          print every event of it; with --json on standard error
  --json           one JSON object on standard output: seeds, operations, faults by kind, simulatedHours, violations
  --help

The exit code is 1 when the contract was broken by any seed, 2 for wrong arguments, 130 when it was interrupted.
`;

export type Arguments =
  | { readonly kind: 'help' }
  | {
      readonly kind: 'run';
      readonly first: number;
      readonly seeds: number;
      readonly steps: number;
      readonly oldCopies: boolean;
      readonly trace: boolean;
      readonly json: boolean;
    };

/** The command line cannot be understood; the message says why. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** @throws UsageError */
export function readArguments(argv: readonly string[]): Arguments {
  const values = parse(argv);
  if (values.help) return { kind: 'help' };
  const { seed, trace, json, 'old-copies': oldCopies } = values;
  if (seed !== undefined && (values.seeds !== undefined || values['first-seed'] !== undefined)) {
    throw new UsageError('--seed is one seed: --seeds and --first-seed do not go with it');
  }
  if (trace && seed === undefined) throw new UsageError('--trace needs --seed: whose events?');
  return {
    kind: 'run',
    first: seed === undefined ? whole('--first-seed', values['first-seed'], 1, 0) : whole('--seed', seed, 1, 0),
    seeds: seed === undefined ? whole('--seeds', values.seeds, DEFAULT_SEEDS, 1) : 1,
    steps: whole('--steps', values.steps, DEFAULT_STEPS, 0),
    oldCopies,
    trace,
    json,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      options: {
        seeds: { type: 'string' },
        'first-seed': { type: 'string' },
        steps: { type: 'string' },
        seed: { type: 'string' },
        'old-copies': { type: 'boolean', default: false },
        trace: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\nSee --help.`);
  }
}

function whole(flag: string, text: string | undefined, otherwise: number, least: number): number {
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
  throw new UsageError(`${flag}: ${text} is not a whole number from ${least} on`);
}
