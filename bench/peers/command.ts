import { mkdir, writeFile } from 'node:fs/promises';
import { describeMachine, isInMemory } from '../machine.ts';
import { Processes } from '../processes.ts';
import { Progress } from '../report.ts';
import { PEERS_HELP, type PeersArguments, PeersUsageError, readPeersArguments } from './arguments.ts';
import { CannotInstallError, installLibraries } from './libraries.ts';
import { measurePeers, type PeerReport } from './measure.ts';
import { missingOf } from './peers.ts';
import { formatResult, OURSELVES } from './results.ts';
import { peersTable } from './table.ts';

/** Runs `npm run bench -- peers`. Resolves with the exit code. */
export async function runPeers(argv: readonly string[]): Promise<number> {
  try {
    const args = readPeersArguments(argv);
    if (args.help) {
      process.stdout.write(PEERS_HELP);
      return 0;
    }
    return await compare(args);
  } catch (error) {
    if (!(error instanceof PeersUsageError || error instanceof CannotInstallError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return error instanceof PeersUsageError ? 2 : 1;
  }
}

async function compare(args: PeersArguments): Promise<number> {
  await mkdir(args.dir, { recursive: true });
  if (isInMemory(args.dir)) {
    process.stderr.write(
      `${args.dir} is in memory, where syncs take no time: choose a directory on a disk with --dir\n`,
    );
  }
  const missing = args.peers.flatMap((peer) => {
    const why = missingOf(peer);
    return why === undefined ? [] : [{ peer: peer.name, skipped: why.message, install: why.install }];
  });
  const present = args.peers.filter((peer) => missingOf(peer) === undefined);
  if (present.some(({ name }) => name !== OURSELVES)) {
    await installLibraries(() => {
      process.stderr.write('installing the client libraries of the peers into bench/peers/node_modules\n');
    });
  }
  const progress = new Progress();
  await using processes = new Processes({ dir: args.dir, nodeFlags: [], profileDir: undefined });
  const report = await measurePeers(processes, {
    ...args,
    peers: present,
    progress: (doing) => progress.show(`peers: ${doing}`),
  });
  progress.clear();

  const lines = jsonLines(report, missing);
  if (args.out !== undefined) await writeFile(args.out, lines);
  process.stdout.write(args.json ? lines : textReport(report, missing));
  return report.failures.length === 0 ? 0 : 1;
}

interface Skipped {
  readonly peer: string;
  readonly skipped: string;
  readonly install: string;
}

function jsonLines({ results, failures }: PeerReport, missing: readonly Skipped[]): string {
  const lines = [...results.map(formatResult), ...[...failures, ...missing].map((one) => JSON.stringify(one))];
  return lines.map((line) => `${line}\n`).join('');
}

function textReport({ results, failures }: PeerReport, missing: readonly Skipped[]): string {
  const versions = new Map(results.map((one) => [one.peer, one.versions]));
  return [
    `${describeMachine()}\n`,
    ...[...versions].map(([peer, version]) => `${peer}: ${version}\n`),
    ...missing.map(({ peer, skipped, install }) => `${peer}: skipped, ${skipped}: ${install}\n`),
    peersTable(results),
    ...failures.map(({ peer, workload = 'start', error }) => `${peer}, ${workload}: ${error}\n`),
  ].join('');
}
