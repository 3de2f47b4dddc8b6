import { bytesCodec, type Pid, pidText } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import type { Command } from 'commander';
import { anyWholeNumber, payload, pid, queueToFill, wholeNumber } from '../input/arguments.ts';
import { addLinkFlags, assertLinks, type LinkFlags, linkOptions } from '../input/link-flags.ts';
import type { PidSource } from '../input/pid-source.ts';
import { type Input, openInput, readLinesAndPauses, readWhole } from '../input/read-input.ts';
import { assertShardable, shardCount } from '../input/shard-flags.ts';
import { addTaskFlags, type TaskFlags, taskOptions } from '../input/task-flags.ts';
import type { Runner, Session } from '../session/session.ts';
import { UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { bytes, count, countOf, duration, rate } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import { Progress, progressLine } from '../views/progress.ts';
import { LineEnqueuer, type LinesReport } from './enqueue-lines.ts';

interface EnqueueFlags extends TaskFlags, LinkFlags {
  readonly file?: string;
  readonly pid?: Pid;
  readonly lines?: true;
  readonly delimiter?: Buffer;
  readonly pidField?: string;
  readonly pidColumn?: number;
  readonly separator?: Buffer;
  readonly headersField?: string;
  readonly batch?: number;
  readonly inFlight?: number;
  readonly fromLine?: number;
  readonly shards?: number;
}

const DEFAULT_BATCH = 1_000;
const SHOWN_REFUSALS = 10;
/** Without PIDs the order of arrival is the order of the queue, so batches must not overtake each other. */
const IN_FLIGHT = { none: 1, field: 8, column: 8 } as const;

const notes = `
The payload is DATA, a file (--file) or stdin (-, or neither given). It is stored byte for byte and has at most 3 MiB with its headers.

With --lines each line of the file or of stdin is a task. Empty lines are skipped. Lines are sent in batches. A batch is stored
completely or not at all, but the file as a whole is not. If the input pauses, the lines that have come are sent. Memory use does not depend on the size of the file. Without PIDs the
tasks have the order of the lines.

To continue an interrupted run with PIDs, repeat it: tasks that are already in the queue collapse, and tasks that were
completed in between are enqueued again. Without PIDs use --from-line.

With --shards each task goes to the shard of its key or PID, or to the next shard; lines without them do so in batches.

Examples:
  $ taskmaster enqueue shop#mail '{"to":"ann@example.com"}'
  $ taskmaster enqueue shop#mail --pid order-17 --mode fail --file order.json
  $ taskmaster enqueue jobs - --delay 10m --max-attempts 5 --backoff 1s,5m < job.bin
  $ taskmaster enqueue jobs base64:AAEC --pid hex:00ff
  $ taskmaster enqueue shop#mail hello --header tenant=acme --header type=welcome
  $ taskmaster enqueue crawl --lines --pid-field url --file pages.jsonl
  $ taskmaster enqueue crawl --shards 32 --lines --pid-field url --file pages.jsonl
  $ cut -f1,3 list.tsv | taskmaster enqueue crawl --lines --pid-column 1`;

export function addEnqueue(program: Command, runner: Runner): void {
  const command = program
    .command('enqueue')
    .summary('add a task, or each line of a file as a task')
    .description(
      'Adds a task to a queue, or each line of a file as a task. The tasks are on disk when the command ends.',
    )
    .argument('<queue>', 'group#name, or a name in the default group', queueToFill)
    .argument('[data]', 'the payload; - reads it from stdin (default: stdin)')
    .option('-f, --file <path>', 'read the payload, or the lines, from a file; - is stdin')
    .option('-p, --pid <pid>', 'priority and identity of the task; lowest first (default: behind all others)', pid);
  addTaskFlags(command);
  addLinkFlags(command);
  command
    .option('--lines', 'each line is a task')
    .option('--delimiter <text>', String.raw`end of a line; \n \r \t \0 are escapes (default: \n)`, unescaped)
    .option('--pid-field <name>', 'lines are JSON objects: the field with the PID; a.b is the field b of the field a')
    .option('--pid-column <n>', 'column with the PID, from 1', wholeNumber(1, 10_000))
    .option('--separator <text>', String.raw`separator of columns (default: \t)`, unescaped)
    .option('--headers-field <name>', 'lines are JSON objects: the field with their headers, an object of texts')
    .option(
      '--batch <n>',
      `largest number of lines in one batch (default: ${count(DEFAULT_BATCH)})`,
      wholeNumber(1, limits.updateItems),
    )
    .option(
      '--in-flight <n>',
      'batches in flight at the same time (default: 8; 1 without PIDs, to keep the order)',
      wholeNumber(1, 64),
    )
    .option('--from-line <n>', 'first line to enqueue (default: 1)', anyWholeNumber)
    .option('--shards <n>', 'the queue is sharded: number of its shards', shardCount)
    .addHelpText('after', notesOf(notes))
    .action((queue: string, data: string | undefined, flags: EnqueueFlags) => {
      assertConsistent(data, flags);
      assertLinks(flags);
      if (flags.shards !== undefined) assertShardable(queue, flags.deadLetterQueue);
      const run = flags.lines ? enqueueLines : enqueueOne;
      return runner.connected((session) => run(session, queue, data, flags), [queue]);
    });
}

async function enqueueOne(
  session: Session,
  name: string,
  data: string | undefined,
  flags: EnqueueFlags,
): Promise<ExitCode> {
  const path = flags.file ?? (data === undefined || data === '-' ? '-' : undefined);
  const content =
    path === undefined ? payload(data ?? '') : await readWhole(await openInput(path, session), limits.dataBytes);
  const { shards } = flags;
  const queue =
    shards === undefined
      ? session.client.queue(name, { codec: bytesCodec })
      : session.client.shardedQueue(name, { shards, codec: bytesCodec });
  const options = { ...taskOptions(flags), ...linkOptions(name, flags), pid: flags.pid, signal: session.signal };
  const { pid: assigned, result, leased } = await queue.enqueue(content, options);
  if (session.out.json) await session.out.object({ queue: queue.name, pid: pidText(assigned), result, leased });
  else await session.out.line(`${result}  ${queue.name}  ${pidText(assigned)}${leased ? '  leased' : ''}`);
  return exitCodes.ok;
}

async function enqueueLines(
  session: Session,
  queue: string,
  _data: string | undefined,
  flags: EnqueueFlags,
): Promise<ExitCode> {
  const pids = pidSource(flags);
  const input = await openInput(flags.file ?? '-', session);
  const enqueuer = new LineEnqueuer(session.client, {
    queue,
    shards: flags.shards,
    pids,
    task: { ...taskOptions(flags), ...linkOptions(queue, flags) },
    headersField: flags.headersField,
    batchTasks: flags.batch ?? DEFAULT_BATCH,
    inFlight: flags.inFlight ?? IN_FLIGHT[pids.kind],
    fromLine: Math.max(1, flags.fromLine ?? 1),
  });
  const start = performance.now();
  try {
    using _progress = progressOf(session, enqueuer, input);
    await enqueuer.run(readLinesAndPauses(input, { delimiter: flags.delimiter, maxBytes: limits.dataBytes }));
  } catch (error) {
    await summarise(session, queue, enqueuer, performance.now() - start, false);
    await explain(session, enqueuer.report, pids, flags);
    throw error;
  }
  await summarise(session, queue, enqueuer, performance.now() - start, true);
  return exitCodes.ok;
}

function progressOf(session: Session, enqueuer: LineEnqueuer, { totalBytes }: Input): Progress | undefined {
  if (session.out.json) return undefined;
  const reached = () => ({ tasks: enqueuer.tasks, bytes: enqueuer.report.bytes });
  return new Progress({
    stream: session.err.stream,
    line: (elapsedMs) => progressLine(reached(), totalBytes, elapsedMs),
  });
}

async function summarise(
  { out }: Session,
  queue: string,
  enqueuer: LineEnqueuer,
  elapsedMs: number,
  complete: boolean,
): Promise<void> {
  const { tasks, report } = enqueuer;
  const seconds = Math.max(elapsedMs, 1) / 1000;
  if (out.json) {
    await out.object({ queue, complete, tasks, ...report, seconds: Math.round(seconds * 1000) / 1000 });
    return;
  }
  const parts = [`${count(report.created)} created`, `${count(report.collapsed)} collapsed`];
  if (report.replaced > 0) parts.push(`${count(report.replaced)} replaced`);
  if (report.rerun > 0) parts.push(`${count(report.rerun)} to run again`);
  if (report.keptOut > 0) parts.push(`${count(report.keptOut)} kept out`);
  if (report.dropped > 0) parts.push(`${count(report.dropped)} dropped`);
  if (report.leased > 0) parts.push(`${count(report.leased)} of these leased`);
  if (report.empty > 0) parts.push(`${countOf(report.empty, 'empty line')} skipped`);
  await out.line(
    `${queue}: ${countOf(tasks, 'task')} (${parts.join(', ')}), ${bytes(report.bytes)} in ${duration(elapsedMs)} (${rate(tasks / seconds)}/s)`,
  );
}

/** Prints which lines are stored, which were refused, and how to continue. */
async function explain(
  { out, err }: Session,
  report: LinesReport,
  pids: PidSource,
  flags: EnqueueFlags,
): Promise<void> {
  // The JSON summary has it all.
  if (out.json) return;
  const { storedThroughLine, unacknowledged, refused } = report;
  for (const { line, reason, pid: refusedPid } of refused.slice(0, SHOWN_REFUSALS)) {
    err.line(`Line ${count(line)}: ${reason} ${refusedPid}`);
  }
  if (refused.length > SHOWN_REFUSALS) err.line(`... and ${countOf(refused.length - SHOWN_REFUSALS, 'more line')}`);
  for (const { first, last, maybeStored } of unacknowledged) {
    const how = !maybeStored ? 'are not stored' : flags.shards ? 'may be stored' : 'may be stored: there was no answer';
    err.line(`Lines ${count(first)} to ${count(last)} ${how}.`);
  }
  const collapses = pids.kind !== 'none' && flags.mode !== 'fail';
  const fromLine = `--from-line ${storedThroughLine + 1}`;
  err.line(
    collapses
      ? `Run the command again to continue: tasks that are already in the queue collapse. Or continue with ${fromLine}.`
      : `All lines before ${count(storedThroughLine + 1)} are stored; continue with ${fromLine}.`,
  );
}

function pidSource({ pidField, pidColumn, separator }: EnqueueFlags): PidSource {
  if (pidField !== undefined) return { kind: 'field', path: pidField };
  if (pidColumn === undefined) return { kind: 'none' };
  return { kind: 'column', column: pidColumn, separator: separator ?? Buffer.from('\t') };
}

function assertConsistent(data: string | undefined, flags: EnqueueFlags): void {
  if (data !== undefined && flags.file !== undefined) throw new UsageError('give DATA or --file, not both');
  if (flags.lines) {
    if (flags.pid !== undefined)
      throw new UsageError('--pid is for one task; use --pid-field or --pid-column with --lines');
    if (data !== undefined && data !== '-') throw new UsageError('--lines reads a --file or stdin, not DATA');
    if (flags.pidField !== undefined && flags.pidColumn !== undefined) {
      throw new UsageError('give --pid-field or --pid-column, not both');
    }
    if (flags.separator !== undefined && flags.pidColumn === undefined) {
      throw new UsageError('--separator goes with --pid-column');
    }
    return;
  }
  const onlyLines = [
    'delimiter',
    'pidField',
    'pidColumn',
    'separator',
    'headersField',
    'batch',
    'inFlight',
    'fromLine',
  ] as const;
  const given = onlyLines.find((name) => flags[name] !== undefined);
  if (given !== undefined) {
    throw new UsageError(`--${given.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)} goes with --lines`);
  }
}

const escaped: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '0': '\0', '\\': '\\' };

function unescaped(text: string): Buffer {
  if (text === '') throw new UsageError('a delimiter or separator must not be empty');
  return Buffer.from(
    text.replace(/\\([nrt0\\])/g, (_, letter: string) => escaped[letter] ?? letter),
    'utf8',
  );
}
