#!/usr/bin/env node
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { type Arguments, HELP, readArguments, UsageError } from './arguments.ts';
import { runGuard } from './guard/command.ts';
import { installedPeers, knownPeers } from './installed-peers.ts';
import { isInMemory, loadAverage } from './machine.ts';
import { runPair } from './pair/command.ts';
import { runPaper } from './paper/run-paper.ts';
import { PeerResults, readPeerResults } from './peer-results.ts';
import { runPeers } from './peers/command.ts';
import { Processes } from './processes.ts';
import { printProfile } from './profile/print-profile.ts';
import { jsonReport, messageOf, Progress, type Report, tableReport } from './report.ts';
import { FULL_SCALE, type LoadWindow, type PeerSource, QUICK_SCALE, type Row, type Scale } from './row.ts';
import { rows } from './rows/all.ts';

const INTERRUPTED = 130;
const TERMINATED = 143;

// An exit ends all processes and deletes their data: see processes.ts.
process.once('SIGINT', () => process.exit(INTERRUPTED));
process.once('SIGTERM', () => process.exit(TERMINATED));
// The reader of the report has ended, for example `| head`.
process.stdout.once('error', () => process.exit(0));

/** Commands that are not rows. They have their own arguments. */
const commands: ReadonlyMap<string, (argv: readonly string[]) => Promise<number>> = new Map([
  ['peers', runPeers],
  ['guard', runGuard],
  ['pair', runPair],
  ['paper', runPaper],
]);

try {
  const [name = '', ...others] = process.argv.slice(2);
  const command = commands.get(name);
  process.exitCode = await (command?.(others) ?? main(readArguments(process.argv.slice(2), rows)));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}

/** Resolves with the exit code: 1 when a row could not be measured. */
async function main(args: Arguments): Promise<number> {
  if (args.kind === 'help') {
    process.stdout.write(HELP);
    return 0;
  }
  if (args.kind === 'list') {
    for (const { name, about } of rows) process.stdout.write(`${name.padEnd(17)}${about}\n`);
    return 0;
  }
  const scale = scaleOf(args);
  const peers = await peersOf(args);
  await mkdir(args.dir, { recursive: true });
  if (isInMemory(args.dir)) {
    process.stderr.write(
      `${args.dir} is in memory, where syncs take no time: choose a directory on a disk with --dir\n`,
    );
  }
  const common = {
    ...(args.quick && { quick: true }),
    ...(args.nodeFlags.length > 0 && { node_flags: args.nodeFlags }),
  };
  const report = args.json ? jsonReport(common) : tableReport();
  report.begin();
  let code = 0;
  for (const [at, row] of args.rows.entries()) {
    const place = `[${at + 1}/${args.rows.length}] ${row.name}`;
    if (!(await measure(row, place, scale, args, report, peers))) code = 1;
  }
  report.end();
  return code;
}

async function peersOf({ peerResults, noPeers, quick }: RunArguments): Promise<PeerSource> {
  if (peerResults === undefined) return quick || noPeers ? knownPeers(new PeerResults([])) : installedPeers();
  try {
    return knownPeers(await readPeerResults(peerResults));
  } catch (error) {
    throw new UsageError(`--peer-results ${peerResults}: ${messageOf(error)}`);
  }
}

type RunArguments = Extract<Arguments, { readonly kind: 'run' }>;

/** Resolves with true if the row could be measured. */
async function measure(
  row: Row,
  place: string,
  scale: Scale,
  args: RunArguments,
  report: Report,
  peers: PeerSource,
): Promise<boolean> {
  const progress = new Progress();
  const windows: LoadWindow[] = [];
  const profileDir = args.profileDir === undefined ? undefined : resolve(join(args.profileDir, row.name));
  if (profileDir !== undefined) await mkdir(profileDir, { recursive: true });
  try {
    await using processes = new Processes({ dir: args.dir, nodeFlags: args.nodeFlags, profileDir });
    const lines = row.run({
      scale,
      processes,
      peers,
      load: loadAverage(),
      progress: (doing) => progress.show(`${place}: ${doing}`),
      measured: (windowOfLoad) => windows.push(windowOfLoad),
    });
    for await (const line of lines) {
      progress.clear();
      report.line(line);
    }
  } catch (error) {
    progress.clear();
    report.failed(row.name, error);
    if (args.debug) process.stderr.write(`${inspect(error)}\n`);
    return false;
  } finally {
    progress.clear();
  }
  if (profileDir !== undefined) await printProfile(row.name, profileDir, windows);
  return true;
}

function scaleOf({ quick, seconds, repetitions, tasks }: RunArguments): Scale {
  const scale = quick ? QUICK_SCALE : FULL_SCALE;
  return {
    ...scale,
    ...(seconds !== undefined && { runMs: seconds * 1000 }),
    ...(repetitions !== undefined && { repetitions }),
    ...(tasks !== undefined && { tasks }),
  };
}
