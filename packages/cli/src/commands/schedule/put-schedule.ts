import { bytesCodec, type Pid } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { lengthOfTime, payload, pid, queueName, queueToFill } from '../../input/arguments.ts';
import { openInput, readWhole } from '../../input/read-input.ts';
import { addGivenFlags, type GivenFlags, givenOptions } from '../../input/task-flags.ts';
import type { Runner, Session } from '../../session/session.ts';
import { UsageError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { notesOf } from '../../views/help.ts';
import { nextText, ruleText, scheduleObject } from './schedule-view.ts';

interface PutFlags extends GivenFlags {
  readonly cron?: string;
  readonly timeZone?: string;
  readonly every?: number;
  readonly missedRuns: 'skip' | 'once' | 'all';
  readonly skipWhileRunning?: true;
  readonly pidPrefix?: Pid;
  readonly file?: string;
}

const notes = `
The same command again changes nothing. With other options it changes the schedule, and no run is lost or repeated. The payload is
DATA, a file (--file) or stdin (-, or neither given). It has at most 64 KiB.

A cron expression is: minute, hour, day of month, month, day of week. Seconds may stand before them, and years behind them.
Missed runs are those whose instants pass while no node can enqueue them.

Examples:
  $ taskmaster schedule put shop#nightly shop#reports '{"kind":"all"}' --cron '0 3 * * *' --time-zone Europe/Berlin
  $ taskmaster schedule put shop#poll shop#polls '{}' --every 30s --skip-while-running
  $ taskmaster schedule put bill bills --cron '0 9 L * *' --missed-runs all --max-attempts 5 < bill.json`;

export function addPutSchedule(schedule: Command, runner: Runner): void {
  const put = schedule
    .command('put')
    .summary('create or change a schedule')
    .description('Creates a schedule, or changes it to these options.')
    .argument('<schedule>', 'group#name, or a name in the default group', queueName)
    .argument('<queue>', 'queue of the tasks, in the same group', queueToFill)
    .argument('[data]', 'payload of each task; - reads it from stdin (default: stdin)')
    .addOption(new Option('--cron <expression>', "when it runs, as in '0 9 * * MON-FRI'").conflicts('every'))
    .addOption(new Option('--time-zone <name>', 'time zone of --cron (default: UTC)').conflicts('every'))
    .option('--every <duration>', 'time between two runs, at least 100ms', interval)
    .addOption(
      new Option('--missed-runs <policy>', 'which missed runs are enqueued later: none, only the latest, or all')
        .choices(['skip', 'once', 'all'])
        .default('once'),
    )
    .option('--skip-while-running', 'skip a run while the task of an earlier one is in the queue')
    .option('--pid-prefix <pid>', 'the PIDs of the tasks begin with this (default: nothing)', pid)
    .option('-f, --file <path>', 'read the payload from a file; - is stdin');
  addGivenFlags(put);
  put
    .addHelpText('after', notesOf(notes))
    .action((name: string, queue: string, data: string | undefined, flags: PutFlags) => {
      if ((flags.cron === undefined) === (flags.every === undefined)) throw new UsageError('give --cron or --every');
      if (data !== undefined && flags.file !== undefined) throw new UsageError('give DATA or --file, not both');
      return runner.connected((session) => putSchedule(session, name, queue, data, flags), [name]);
    });
}

function interval(text: string): number {
  const ms = lengthOfTime(text);
  if (ms >= limits.minScheduleIntervalMs) return ms;
  throw new InvalidArgumentError(`'${text}' is less than ${limits.minScheduleIntervalMs}ms.`);
}

async function putSchedule(
  session: Session,
  name: string,
  queueOf: string,
  data: string | undefined,
  flags: PutFlags,
): Promise<ExitCode> {
  const { client, out, signal } = session;
  const { cron, timeZone, every, missedRuns, skipWhileRunning, pidPrefix } = flags;
  const path = flags.file ?? (data === undefined || data === '-' ? '-' : undefined);
  const content =
    path === undefined
      ? payload(data ?? '')
      : await readWhole(await openInput(path, session), limits.scheduleDataBytes);
  const queue = client.queue(queueOf, { codec: bytesCodec });
  const given = givenOptions(flags);
  const { result, schedule } = await client.schedules.put(
    name,
    { queue, data: content, cron, timeZone, every, missedRuns, skipWhileRunning, pidPrefix, ...given },
    { signal },
  );
  if (out.json) await out.object({ result, ...scheduleObject(schedule) });
  else {
    const next = nextText(schedule, Date.now());
    await out.line(`${result}  ${schedule.name}  ${ruleText(schedule)}  ${next}`);
  }
  return exitCodes.ok;
}
