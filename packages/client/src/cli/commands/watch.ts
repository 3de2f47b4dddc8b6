import { setTimeout as sleep } from 'node:timers/promises';
import { styleText } from 'node:util';
import { type Command, Option } from 'commander';
import type { StatsOptions, StatsReport } from '../../tasks/introspection.ts';
import { isTaskMasterError, type TaskMasterError } from '../../values/errors.ts';
import { lengthOfTime, wholeNumber } from '../input/arguments.ts';
import { addFilterFlags, type FilterFlags } from '../input/filter-flags.ts';
import { type ExitCode, exitCodes } from '../output/exit-codes.ts';
import { countOf, duration } from '../output/format.ts';
import { notesOf } from '../output/help.ts';
import { sizeOf } from '../output/output.ts';
import { statsColumns, statsObject, totalsRow } from '../output/queue-view.ts';
import { errorLine, errorReport, mayPass } from '../output/report-error.ts';
import { Screen } from '../output/screen.ts';
import { tableOf } from '../output/table.ts';
import type { Runner, Session } from '../session.ts';
import { queueChoice } from './queues.ts';

interface WatchFlags extends FilterFlags {
  readonly interval: number;
  readonly count?: number;
}

const notes = `
On a terminal the table is redrawn until Ctrl-C; elsewhere a table is printed each time, and with --json a line for each
queue, with the time in "at". A node that is lost is waited for.

Examples:
  $ taskmaster watch
  $ taskmaster watch shop#mail shop#mail.dead --interval 500ms
  $ taskmaster watch --group shop --json --count 10 > shop.jsonl`;

/** A look that takes longer counts as one that failed, in ms: whoever watches wants to know. */
const LOOK_MS = 3_000;
/** Lines around the table: the heading and a blank line, the header, the totals, what is left out. */
const OTHER_LINES = 5;

export function addWatch(program: Command, runner: Runner): void {
  const command = program
    .command('watch')
    .summary('show statistics of queues again and again')
    .description('Shows statistics of queues again and again, until Ctrl-C.')
    .argument('[queue...]', 'queues; default: those that fit the conditions');
  addFilterFlags(command);
  command
    .addOption(
      new Option('-i, --interval <duration>', 'time between two looks').argParser(lengthOfTime).default(2_000, '2s'),
    )
    .option('--count <n>', 'end after so many looks', wholeNumber(1, Number.MAX_SAFE_INTEGER))
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
  try {
    for (let look = 1; ; look++) {
      let trouble: TaskMasterError | undefined;
      try {
        last = await client.stats({ ...choice, signal, timeout: Math.min(session.timeoutMs, LOOK_MS) });
      } catch (error) {
        // A node that restarts is back in a moment; a request that is refused stays so.
        if (!isTaskMasterError(error) || !mayPass(error)) throw error;
        trouble = error;
      }
      if (screen !== undefined) screen.draw(screenOf(session, last, trouble, flags.interval));
      else if (trouble === undefined && last !== undefined) await print(session, last);
      else session.err.write(`${errorLine(errorReport(trouble))}\n`);
      if (look === flags.count) return exitCodes.ok;
      await sleep(Math.max(flags.interval, 1), undefined, { signal });
    }
  } catch (error) {
    // Nobody reads any more: that is how `| head` ends it.
    if (out.closed.aborted && !session.signal.aborted) return exitCodes.ok;
    throw error;
  }
}

async function print({ out }: Session, { queues, totals }: StatsReport): Promise<void> {
  const at = new Date().toISOString();
  if (out.json) {
    for (const queue of queues) await out.object({ at, ...statsObject(queue) });
    return;
  }
  await out.line(at);
  await out.line(tableOf(queues, statsColumns, out.stream, { footer: totalsRow(totals) }));
  await out.line();
}

function screenOf(
  { out }: Session,
  report: StatsReport | undefined,
  trouble: TaskMasterError | undefined,
  intervalMs: number,
): string {
  const { stream } = out;
  const at = new Date().toLocaleTimeString('en-GB');
  const heading = `TaskMaster  ${at}  every ${duration(intervalMs)}, Ctrl-C ends`;
  const lines = [trouble === undefined ? heading : styleText('red', errorLine(errorReport(trouble)), { stream }), ''];
  if (report === undefined) return lines.join('\n');
  const room = Math.max(1, sizeOf(stream).rows - OTHER_LINES);
  const shown = report.queues.slice(0, room);
  lines.push(tableOf(shown, statsColumns, stream, { footer: totalsRow(report.totals) }));
  const hidden = report.totals.queues - shown.length;
  if (hidden > 0) lines.push(`${countOf(hidden, 'more queue')}: narrow it down with names, --regex or --min-available`);
  return lines.join('\n');
}
