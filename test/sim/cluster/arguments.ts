import { parseArgs } from 'node:util';
import { DEFAULT_STEPS } from './simulation.ts';

const DEFAULT_SEEDS = 500;

export const HELP = `Simulates whole clusters on virtual time: nodes, proxies and users, with random faults.
Each seed plays one history, always the same, and checks it against the contract (docs/contract.md).

  npm run sim                                  ${DEFAULT_SEEDS} seeds, about two minutes
  npm run sim -- --seeds 20000 --first-seed 501  other seeds, a long run
  npm run sim -- --seed 41 --trace               one seed with all its events

Options:
  --seeds N        number of seeds (default ${DEFAULT_SEEDS})
  --first-seed N   first seed (default 1)
  --steps N        number of steps of each cluster, which may each cause a fault (default ${DEFAULT_STEPS})
  --seed N         plays only this seed
  --old-copies     nodes may also restart with older copies of their directories, if another node knows that they had
                   more. A cluster may not settle if that node is lost before the old copy is noticed
  --schedules      schedules run during the faults, and each of their runs must come once
  --bulk-runs      bulk runs move tasks during the faults, and each task must be moved once
  --flows          tasks wait for each other and for their order during the faults; each parent must hear of each child once
  --kinds          workers run different kinds of tasks during the faults: none may get another kind, and a kind that none
                   can run must stay and be counted
  --pauses         queues are paused and resumed during the faults, and no task of a paused one may be leased
  --limits         queues and limit keys are limited and backlogs are capped during the faults: no task may be leased beyond
                   a limit or a rate or wait beyond a cap, and no slot, no token and no end of a dropped task may be lost
  --fair           queues are served in fair turns during the faults: each key must keep its order, its turns and its share
  --signals        tasks wait for signals during the faults: each must run with each of its signals once, and none before
                   they have come or its timeout has ended
  --starts         some tasks must start by an instant, and none may be leased for the first time from then on
  --readers        the events of all groups are read during the faults, and must tell which tasks are there in the end
  --shared         the nodes share one database instead of having disks. Its statements come late, or not at all from some nodes;
                   no node may change what another one holds, and none may answer from memory when another one serves
  --trace          prints every event of the seed; with --json on standard error
  --json           one JSON object on standard output: seeds, operations, faults by kind, simulatedHours, violations
  --help

The exit code is 1 if a seed broke the contract, 2 for wrong arguments, 130 if it was interrupted.
`;

export type Arguments =
  | { readonly kind: 'help' }
  | {
      readonly kind: 'run';
      readonly first: number;
      readonly seeds: number;
      readonly steps: number;
      readonly oldCopies: boolean;
      readonly schedules: boolean;
      readonly bulkRuns: boolean;
      readonly flows: boolean;
      readonly kinds: boolean;
      readonly pauses: boolean;
      readonly limits: boolean;
      readonly fair: boolean;
      readonly signals: boolean;
      readonly starts: boolean;
      readonly readers: boolean;
      readonly shared: boolean;
      readonly trace: boolean;
      readonly json: boolean;
    };

/** The command line is wrong; the message says why. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Parses the command line. Throws `UsageError`. */
export function readArguments(argv: readonly string[]): Arguments {
  const values = parse(argv);
  if (values.help) return { kind: 'help' };
  const { seed, trace, json, schedules, flows, kinds, pauses, limits, fair, signals, starts, readers, ...others } =
    values;
  const { shared, ...rest } = others;
  const { 'bulk-runs': bulkRuns, 'old-copies': oldCopies } = rest;
  if (seed !== undefined && (values.seeds !== undefined || values['first-seed'] !== undefined)) {
    throw new UsageError('--seed plays one seed: it cannot be used with --seeds or --first-seed');
  }
  if (shared && oldCopies)
    throw new UsageError('--shared cannot be used with --old-copies: the nodes have no directories');
  if (trace && seed === undefined) throw new UsageError('--trace needs --seed');
  return {
    kind: 'run',
    first: seed === undefined ? whole('--first-seed', values['first-seed'], 1, 0) : whole('--seed', seed, 1, 0),
    seeds: seed === undefined ? whole('--seeds', values.seeds, DEFAULT_SEEDS, 1) : 1,
    steps: whole('--steps', values.steps, DEFAULT_STEPS, 0),
    oldCopies,
    schedules,
    bulkRuns,
    flows,
    kinds,
    pauses,
    limits,
    fair,
    signals,
    starts,
    readers,
    shared,
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
        schedules: { type: 'boolean', default: false },
        'bulk-runs': { type: 'boolean', default: false },
        flows: { type: 'boolean', default: false },
        kinds: { type: 'boolean', default: false },
        pauses: { type: 'boolean', default: false },
        limits: { type: 'boolean', default: false },
        fair: { type: 'boolean', default: false },
        signals: { type: 'boolean', default: false },
        starts: { type: 'boolean', default: false },
        readers: { type: 'boolean', default: false },
        shared: { type: 'boolean', default: false },
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
