import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { type Peer, peerNamed, peers } from './peers.ts';
import { type WorkloadName, workloadNames } from './results.ts';

export const PEERS_HELP = `Compares this system with other queues that are installed on this machine.

  npm run bench -- peers                     all of them, about 10 minutes
  npm run bench -- peers bullmq rabbitmq     some of them, and this system
  npm run bench -- peers --out peers.jsonl   for npm run bench -- B3 B4 B5 B6 --peer-results peers.jsonl

Peers: ${peers.map(({ name }) => name).join(', ')}
Workloads: ${workloadNames.join(', ')}

Options:
  --workload NAME   one of the workloads; may be repeated (default: all but memory-1m)
  --rounds N        number of rounds, of which medians are shown (default 3)
  --seconds N       length of one run (default 3)
  --quick           one short round; the figures mean nothing
  --json            one JSON object per line on standard output
  --out FILE        writes the same lines to a file
  --dir DIR         directory for temporary data (default: the system's temporary directory)
  --help

Servers are started on loopback, on free ports, with new data directories, and sync before they acknowledge. The first run
installs client libraries into bench/peers/node_modules. The exit code is 1 if something could not be measured.
`;

/** The command line is wrong; the message says why. */
export class PeersUsageError extends Error {
  override readonly name = 'PeersUsageError';
}

export interface PeersArguments {
  readonly help: boolean;
  readonly peers: readonly Peer[];
  readonly workloads: readonly WorkloadName[];
  readonly rounds: number;
  readonly runMs: number;
  readonly handOvers: number;
  readonly deepTasks: number;
  readonly json: boolean;
  readonly out: string | undefined;
  readonly dir: string;
}

/** Parses the command line. Throws `PeersUsageError`. */
export function readPeersArguments(argv: readonly string[]): PeersArguments {
  const { values, positionals } = parse(argv);
  const { quick, help, json, out, dir } = values;
  const workloads = values.workload.map(workloadNamed);
  // This system is always measured, because the others are compared with it.
  const named =
    positionals.length === 0 ? peers : peers.filter((_peer, i) => i === 0).concat(positionals.map(peerOfName));
  return {
    help,
    peers: [...new Set(named)],
    workloads: workloads.length > 0 ? workloads : workloadNames.filter((name) => name !== 'memory-1m'),
    rounds: positive('--rounds', values.rounds, Number.isInteger) ?? (quick ? 1 : 3),
    runMs: (positive('--seconds', values.seconds) ?? (quick ? 0.5 : 3)) * 1000,
    handOvers: quick ? 20 : 200,
    deepTasks: quick ? 20_000 : 1_000_000,
    json,
    out,
    dir,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        workload: { type: 'string', multiple: true, default: [] },
        rounds: { type: 'string' },
        seconds: { type: 'string' },
        quick: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        out: { type: 'string' },
        dir: { type: 'string', default: tmpdir() },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new PeersUsageError(`${error instanceof Error ? error.message : String(error)}\nSee peers --help.`);
  }
}

function peerOfName(name: string): Peer {
  const peer = peerNamed(name);
  if (peer !== undefined) return peer;
  throw new PeersUsageError(`there is no peer ${name}; the peers are: ${peers.map((one) => one.name).join(', ')}`);
}

function workloadNamed(name: string): WorkloadName {
  const workload = workloadNames.find((one) => one === name);
  if (workload !== undefined) return workload;
  throw new PeersUsageError(`there is no workload ${name}; the workloads are: ${workloadNames.join(', ')}`);
}

function positive(flag: string, text: string | undefined, isRight = Number.isFinite): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (isRight(value) && value > 0) return value;
  throw new PeersUsageError(`${flag}: ${text} is not a number above 0`);
}
