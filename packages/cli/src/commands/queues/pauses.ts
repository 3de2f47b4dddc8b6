import { type Command, Option } from 'commander';
import { groupName, instant, pattern, queueName, someTime } from '../../input/arguments.ts';
import type { Runner, Session } from '../../session/session.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { notesOf } from '../../views/help.ts';
import { pauseColumns, pauseObject, pauseText } from '../../views/pause-view.ts';
import { tableOf } from '../../views/table.ts';
import { groupText } from './settings.ts';

const notes = `
Workers get no tasks of a paused queue; everything else goes on: enqueues, running tasks, delays, retries. A pattern pauses the
queues of its group that match it, also those that are created later: * stands for any number of characters, and group#* are all
queues of the group. To pause again changes the reason and the end. To resume, give the queues exactly as they were paused.

Examples:
  $ taskmaster queues pause shop#mail --for 30m --reason 'mail server is down'
  $ taskmaster queues pause 'shop#*' --until 2030-01-01T06:00:00Z
  $ taskmaster queues pauses shop
  $ taskmaster queues resume shop#mail`;

interface PauseFlags {
  readonly reason?: string;
  readonly for?: number;
  readonly until?: Date;
}

/** Commands below `queues`. */
export function addPauses(queues: Command, runner: Runner): void {
  queues
    .command('pause')
    .summary('lease no more tasks of queues until they are resumed')
    .description('Pauses a queue, or all queues of a group that match a pattern.')
    .argument('<queues>', 'group#pattern, or a pattern in the default group', pattern)
    .option('--reason <text>', 'why; listings show it (default: no reason)')
    .addOption(
      new Option('--for <duration>', 'how long the pause lasts (default: until the queues are resumed)').argParser(
        someTime,
      ),
    )
    .addOption(
      new Option('--until <time>', 'when the pause ends, as in 2030-01-01T09:00:00Z')
        .argParser(instant)
        .conflicts('for'),
    )
    .addHelpText('after', notesOf(notes))
    .action((names: string, flags: PauseFlags) => runner.connected((session) => pause(session, names, flags), [names]));
  queues
    .command('resume')
    .summary('end a pause')
    .description('Ends the pause of exactly these queues. Exits with 4 if there is none.')
    .argument('<queues>', 'group#pattern, as they were paused', queueName)
    .addHelpText('after', notesOf(notes))
    .action((names: string) => runner.connected((session) => resume(session, names), [names]));
  queues
    .command('pauses')
    .summary('list the pauses of a group')
    .description('Lists the pauses of a group, the most specific ones first, also of queues that hold no tasks.')
    .argument('[group]', 'the group (default: the default group)', groupName, '')
    .addHelpText('after', notesOf(notes))
    .action((group: string) => runner.connected((session) => list(session, group), [`${group}#`]));
}

async function pause({ client, out, signal }: Session, queues: string, flags: PauseFlags): Promise<ExitCode> {
  const paused = await client.pauseQueues(queues, { ...flags, signal });
  if (out.json) await out.object(pauseObject(paused));
  else await out.line(`${queues}: paused ${pauseText(paused, Date.now())}`);
  return exitCodes.ok;
}

async function resume({ client, out, err, signal }: Session, queues: string): Promise<ExitCode> {
  const { resumed, stillPausedBy } = await client.resumeQueues(queues, { signal });
  if (out.json) await out.object({ queues, resumed, stillPausedBy: stillPausedBy.map(pauseObject) });
  else {
    if (resumed) await out.line(`${queues}: resumed`);
    else err.line(`no pause of ${queues}`);
    for (const { queues: other } of stillPausedBy) err.line(`${queues} stays paused by the pause of ${other}`);
  }
  return resumed ? exitCodes.ok : exitCodes.nothing;
}

async function list({ client, out, err, signal }: Session, group: string): Promise<ExitCode> {
  const pauses = await client.pauses(group, { signal });
  if (out.json) for (const one of pauses) await out.object(pauseObject(one));
  else if (pauses.length === 0) err.line(`no pauses in ${groupText(group)}`);
  else await out.block(tableOf(pauses, pauseColumns(Date.now()), out.stream));
  return exitCodes.ok;
}
