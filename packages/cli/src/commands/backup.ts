import { setTimeout as sleep } from 'node:timers/promises';
import type { BackupTarget, CreateProgress, Manifest, PartitionSource } from '@taskmaster/backup';
import { isTaskMasterError, type TaskMasterClient } from '@taskmaster/client';
import type { Command } from 'commander';
import { anyWholeNumber, wholeNumber } from '../input/arguments.ts';
import type { Runner, Session } from '../session/session.ts';
import { version } from '../session/version.ts';
import { InterruptedError, UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { bytes, count, countOf, duration, rate } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import type { Shell } from '../views/output.ts';
import { Progress } from '../views/progress.ts';
import { isTemporary } from '../views/report-error.ts';

const places = `
A place is a directory, s3://bucket/prefix, or - for a tar stream on stdin or stdout. S3 needs the package @aws-sdk/client-s3. It
reads credentials, region and endpoint from where the tools of AWS look for them.`;

const examples = `
Examples:
  $ taskmaster backup create --to /backups/monday
  $ taskmaster backup create --to /backups/tuesday --base /backups/monday
  $ taskmaster backup create --to - | gpg -e -r ops@example.com > monday.tar.gpg
  $ taskmaster backup verify /backups/monday
  $ gpg -d monday.tar.gpg | taskmaster backup verify -`;

const createNotes = `
The cluster serves meanwhile. Everything that was acknowledged before the command is in the backup, and each update completely or
not at all. If it is interrupted, the same command continues it, except on stdout.
${places}
${examples}`;

interface CreateFlags {
  readonly to: string;
  readonly base?: string;
  readonly maxBytesPerSecond: number;
  readonly concurrency: number;
}

/** How long a partition may give no answer, and how often its stream may break. */
const RETRY = { backoffMs: { initial: 200, max: 5_000 }, giveUpAfterMs: 60_000, maxBroken: 10 };
const MOST_CONCURRENT = 64;
/** How long telling of a failure may take, in ms. */
const REPORT_MS = 3_000;
/** Wait before a node that sends as many partitions as it may is asked again, in ms, if it gives no retry delay. */
const BUSY_MS = 1_000;

export function addBackup(program: Command, runner: Runner): void {
  const backup = program
    .command('backup')
    .summary('back up the cluster; check backups')
    .description('Backs up the cluster while it serves, and checks backups. `taskmaster-node restore` restores them.')
    .helpCommand(false)
    .addHelpText('after', notesOf(`${places}\n${examples}`));
  backup
    .command('create')
    .summary('back up all partitions')
    .description('Backs up all partitions of the cluster, or of a node without a cluster.')
    .requiredOption('--to <place>', 'empty place for the backup, or the place of one that was interrupted')
    .option('--base <place>', 'earlier backup; partitions that have not changed since are taken from it')
    .option('--max-bytes-per-second <bytes>', 'limit of what all nodes send; 0: none', anyWholeNumber, 0)
    .option('--concurrency <count>', 'partitions at the same time', wholeNumber(1, MOST_CONCURRENT), 4)
    .addHelpText('after', notesOf(createNotes))
    .action((flags: CreateFlags) => runner.connected((session) => create(session, flags)));
  backup
    .command('verify')
    .summary('check every part of a backup')
    .description('Reads a whole backup and checks every part against its checksums.')
    .argument('<place>', 'where the backup is')
    .addHelpText('after', notesOf(`${places}\n${examples}`))
    .action((place: string) => runner.local((shell) => verify(shell, place)));
  backup
    .command('show')
    .summary('show what a backup has')
    .description('Shows what a backup has, by its manifest. It checks no parts.')
    .argument('<place>', 'where the backup is; not -')
    .addHelpText('after', notesOf(`${places}\n${examples}`))
    .action((place: string) => runner.local((shell) => show(shell, place)));
}

/** The cluster behind a client. */
export function sourceOf(client: TaskMasterClient): PartitionSource {
  return {
    async *backupPartition({ partition, ...request }, { signal }) {
      for (;;) {
        try {
          for await (const part of client.cluster.backupPartition(partition, { ...request, signal })) yield { part };
          return;
        } catch (error) {
          // Refused before the first part. The node may be busy with large partitions for long, which is no failure.
          if (!isTaskMasterError(error) || error.reason !== 'TOO_MANY_BACKUPS') throw error;
          await sleep(error.retryDelayMs ?? BUSY_MS, undefined, { signal });
        }
      }
    },
    isTemporary: (error) => isTaskMasterError(error) && isTemporary(error),
  };
}

async function create(session: Session, flags: CreateFlags): Promise<ExitCode> {
  if (flags.to === '-' && session.out.isTerminal)
    throw new UsageError('--to -: a terminal cannot take a backup; use a pipe or a file');
  try {
    return await createWhole(session, flags);
  } catch (error) {
    await reportFailure(session, error);
    throw error;
  }
}

/** Perhaps nobody looks at the exit code. An operator who interrupts a backup knows that it is not whole, so that is not told. */
async function reportFailure(session: Session, error: unknown): Promise<void> {
  const { signal } = session;
  const ended: unknown = signal.reason;
  if (signal.aborted && ended instanceof InterruptedError && ended.signalName === 'SIGINT') return;
  await report(session, error instanceof Error ? error.message : String(error), 'has failed');
}

/** `problem`: empty if there is none any more. */
async function report({ client, err }: Session, problem: string, what: string): Promise<void> {
  try {
    await client.cluster.reportFailedBackup(problem, { timeout: REPORT_MS });
  } catch (unreported) {
    const why = unreported instanceof Error ? unreported.message : String(unreported);
    err.line(`the cluster could not be told that the backup ${what}: ${why}`);
  }
}

async function createWhole(session: Session, flags: CreateFlags): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const { createBackup, openStore, openTarget } = await import('@taskmaster/backup');
  await using target = await openTarget(flags.to, { stdout: flags.to === '-' ? out.handOver() : out.stream });
  await using base = flags.base === undefined ? undefined : await openStore(flags.base);
  const { concurrency, maxBytesPerSecond } = flags;
  const start = performance.now();
  let reached: CreateProgress | undefined;
  using progress = out.json
    ? undefined
    : new Progress({
        stream: err.stream,
        line: (elapsedMs) => (reached ? createLine(reached, elapsedMs) : 'connecting'),
      });
  const { manifest, progress: made } = await createBackup({
    source: sourceOf(client),
    target,
    base,
    release: version(),
    concurrency,
    maxBytesPerSecond,
    retry: RETRY,
    signal,
    onProgress: (now) => {
      reached = now;
    },
  });
  progress?.[Symbol.dispose]();
  // The node sees that a backup is whole by the first partition, which an earlier run may have taken.
  if (made.kept > 0) await report(session, '', 'is whole');
  const elapsedMs = performance.now() - start;
  await tell(session, target, {
    json: {
      place: target.title,
      ...manifestObject(manifest),
      kept: made.kept,
      unchanged: made.unchanged,
      bytesWritten: made.bytes,
      seconds: elapsedMs / 1000,
    },
    text: createdText(target, made, elapsedMs),
  });
  return exitCodes.ok;
}

/** A backup on standard output leaves no room there for words. */
async function tell(
  { out, err }: Session,
  { store }: BackupTarget,
  { json, text }: { readonly json: object; readonly text: string },
): Promise<void> {
  if (out.json) await (store ? out : err).object(json);
  else await (store ? out : err).line(text);
}

function createLine({ partitions, partitionCount, tasks, bytes: written }: CreateProgress, elapsedMs: number): string {
  const perSecond = bytes(elapsedMs > 0 ? (written * 1000) / elapsedMs : 0);
  return `${count(partitions)} of ${countOf(partitionCount, 'partition')}  ${count(tasks)} tasks  ${bytes(written)}  ${perSecond}/s`;
}

function createdText({ title }: BackupTarget, made: CreateProgress, elapsedMs: number): string {
  const { tasks, partitions, bytes: written, kept, unchanged } = made;
  const notes = [
    ...(kept > 0 ? [`${count(kept)} were complete before`] : []),
    ...(unchanged > 0 ? [`${count(unchanged)} were unchanged`] : []),
  ];
  const what = `${countOf(tasks, 'task')} in ${countOf(partitions, 'partition')}`;
  const more = notes.length === 0 ? '' : ` (${notes.join(', ')})`;
  return `${title}: ${what}${more}, ${bytes(written)} written in ${duration(elapsedMs)}`;
}

async function verify({ stdin, out, err, signal }: Shell, place: string): Promise<ExitCode> {
  const { openSource, verifyBackup } = await import('@taskmaster/backup');
  await using source = await openSource(place, { stdin });
  const start = performance.now();
  let line = 'reading';
  using progress = out.json ? undefined : new Progress({ stream: err.stream, line: () => line });
  let parts = 0;
  let read = 0;
  const manifest = await verifyBackup(source, {
    signal,
    onProgress: (now) => {
      ({ parts, bytes: read } = now);
      line = `${countOf(parts, 'part')}  ${bytes(read)}  ${rate((parts * 1000) / (performance.now() - start))}/s`;
    },
  });
  progress?.[Symbol.dispose]();
  if (out.json) {
    await out.object({ place: source.title, intact: true, parts, ...manifestObject(manifest) });
  } else {
    await out.line(`${source.title}: intact, ${countOf(parts, 'part')}, ${bytes(read)}`);
  }
  return exitCodes.ok;
}

async function show({ out }: Shell, place: string): Promise<ExitCode> {
  const { openStore, readManifest } = await import('@taskmaster/backup');
  await using store = await openStore(place);
  const manifest = await readManifest(store);
  if (out.json) {
    await out.object({ place: store.title, ...manifestObject(manifest) });
    return exitCodes.ok;
  }
  const { cluster, begunAt, finishedAt, release, partitions, queues, tasks, bytes: size } = manifestObject(manifest);
  const rows = [
    ['of', cluster === undefined ? 'a node without a cluster' : `cluster ${cluster}`],
    ['begun', begunAt],
    ['finished', finishedAt],
    ['release', release],
    ['partitions', count(partitions)],
    ['queues', count(queues)],
    ['tasks', count(tasks)],
    ['size', bytes(size)],
  ];
  for (const [name = '', value = ''] of rows) await out.line(`${name.padEnd(12)}${value}`);
  return exitCodes.ok;
}

/** What a manifest says, for programs. */
function manifestObject({ clusterId, begunAt, finishedAt, release, partitions }: Manifest) {
  const sum = (of: (partition: Manifest['partitions'][number]) => number): number =>
    partitions.reduce((total, partition) => total + of(partition), 0);
  return {
    cluster: clusterId === '' ? undefined : clusterId,
    begunAt,
    finishedAt,
    release,
    partitions: partitions.length,
    queues: sum(({ queues }) => queues),
    tasks: sum(({ tasks }) => tasks),
    bytes: sum(({ parts }) => parts.reduce((total, part) => total + part.bytes, 0)),
  };
}
