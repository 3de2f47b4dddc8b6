import { setTimeout as sleep } from 'node:timers/promises';
import { styleText } from 'node:util';
import { isTaskMasterError, type StatsOptions, type StatsReport, type TaskMasterError } from '@taskmaster/client';
import { escapeControls } from '@taskmaster/proto';
import { type Command, Option } from 'commander';
import { lengthOfTime, wholeNumber } from '../../input/arguments.ts';
import { addFilterFlags, type FilterFlags } from '../../input/filter-flags.ts';
import type { Runner, Session } from '../../session/session.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { countOf, duration } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';
import { MissingNodes } from '../../views/missing-nodes.ts';
import { sizeOf } from '../../views/output.ts';
import { statsColumns, statsObject, totalsRow } from '../../views/queue-view.ts';
import { errorLine, errorReport, isTemporary } from '../../views/report-error.ts';
import { Screen } from '../../views/screen.ts';
import { tableOf } from '../../views/table.ts';
import { folded, queueChoice } from './queues.ts';

interface WatchFlags extends FilterFlags {
  readonly interval: number;
  readonly count?: number;
}

const notes = `
On a terminal the table is redrawn until Ctrl-C. Elsewhere each poll prints a table, and with --json a line for each queue with
the time in "at". If no node answers any more, the command waits for one. With --count it exits with 5 if any poll was incomplete.

Examples:
  $ taskmaster watch
  $ taskmaster watch shop#mail shop#mail.dead --interval 500ms
  $ taskmaster watch --group shop --json --count 10 > shop.jsonl`;

/** Timeout of one poll, in ms. */
const POLL_TIMEOUT_MS = 3_000;
/** Other lines than rows: the heading, what is missing or blank, the header, the totals and the number of hidden queues. */
const OTHER_LINES = 5;

export function addWatch(program: Command, runner: Runner): void {
  const command = program
    .command('watch')
    .summary('show statistics of queues periodically')
    .description('Shows statistics of queues periodically, until Ctrl-C.')
    .argument('[queue...]', 'names of queues (default: all that match the filters)');
  addFilterFlags(command);
  command
    .addOption(
      new Option('-i, --interval <duration>', 'time between two polls').argParser(lengthOfTime).default(2_000, '2s'),
    )
    .option('--count <n>', 'end after n polls (default: never)', wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .addHelpText('after', notesOf(notes))
    .action((names: readonly string[], flags: WatchFlags) => {
      const choice = queueChoice(names, flags);
      return runner.connected((session) => watch(session, choice, flags));
    });
}

async function watch(session: Session, choice: StatsOptions, flags: WatchFlags): Promise<ExitCode> {
  const { client, out } = session;
  const signal = AbortSignal.any([session.signal, out.closed]);
  using screen = out.isTerminal && !out.json ? new Screen(out) : undefined;
  let last: StatsReport | undefined;
  let code: ExitCode = exitCodes.ok;
  try {
    for (let poll = 1; ; poll++) {
      let failure: TaskMasterError | undefined;
      try {
        const timeout = Math.min(session.timeoutMs, POLL_TIMEOUT_MS);
        last = folded(await client.stats({ ...choice, signal, timeout }), flags);
      } catch (thrown) {
        // A restarting node answers again soon. A refused request would be refused again.
        if (!isTaskMasterError(thrown) || !isTemporary(thrown)) throw thrown;
        failure = thrown;
      }
      const missing = new MissingNodes();
      if (failure === undefined) missing.note(last?.unreachable ?? []);
      if (!missing.isEmpty) code = exitCodes.incomplete;
      if (screen !== undefined) {
        screen.draw(screenOf(session, { report: last, failure, missing, intervalMs: flags.interval }));
      } else if (failure === undefined && last !== undefined) await print(session, last, missing);
      else session.err.line(errorLine(errorReport(failure)));
      if (poll === flags.count) return code;
      await sleep(Math.max(flags.interval, 1), undefined, { signal });
    }
  } catch (error) {
    // The reader has closed the pipe, as `| head` does.
    if (out.closed.aborted && !session.signal.aborted) return exitCodes.ok;
    throw error;
  }
}

async function print({ out, err }: Session, { queues, totals }: StatsReport, missing: MissingNodes): Promise<void> {
  missing.report({ out, err }, 'queues', exitCodes.ok);
  const at = new Date().toISOString();
  if (out.json) {
    for (const queue of queues) await out.object({ at, ...statsObject(queue) });
    return;
  }
  await out.line(at);
  await out.block(tableOf(queues, statsColumns(queues), out.stream, { footer: totalsRow(totals) }));
  await out.line();
}

interface Shown {
  /** Undefined: no poll has succeeded yet. */
  readonly report: StatsReport | undefined;
  readonly failure: TaskMasterError | undefined;
  readonly missing: MissingNodes;
  readonly intervalMs: number;
}

function screenOf({ out }: Session, { report, failure, missing, intervalMs }: Shown): string {
  const { stream } = out;
  const at = new Date().toLocaleTimeString('en-GB');
  const heading = `TaskMaster  ${at}  every ${duration(intervalMs)}, Ctrl-C ends`;
  const red = (text: string): string => styleText('red', text, { stream });
  const lines = [
    failure === undefined ? heading : red(errorLine(errorReport(failure))),
    red(escapeControls(missing.text('queues') ?? '')),
  ];
  if (report === undefined) return lines.join('\n');
  const room = Math.max(1, sizeOf(stream).rows - OTHER_LINES);
  const shown = report.queues.slice(0, room);
  lines.push(tableOf(shown, statsColumns(shown), stream, { footer: totalsRow(report.totals) }));
  const hidden = report.totals.queues - shown.length;
  if (hidden > 0) lines.push(`${countOf(hidden, 'more queue')}: narrow it down with names, --regex or --min-available`);
  return lines.join('\n');
}
