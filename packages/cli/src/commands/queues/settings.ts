import type { QueueSettings } from '@taskmaster/client';
import { limits, parseQueueName } from '@taskmaster/proto';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { groupName, leaseDurationOption, pattern, queueName, someTime, wholeNumber } from '../../input/arguments.ts';
import { modeOption, retryOptions, type TaskFlags, taskOptions, timeLimitOption } from '../../input/task-flags.ts';
import type { Runner, Session } from '../../session/session.ts';
import { CommandFailedError, UsageError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { notesOf } from '../../views/help.ts';
import { settingsColumns, settingsObject } from '../../views/settings-view.ts';
import { tableOf } from '../../views/table.ts';

const notes = `
Settings belong to the queues of a group that match a pattern, in which * stands for any number of characters. They last, also
while a queue has no tasks. What a task says itself wins. If several settings match, each field comes from the most specific
ones that have it: those without *, then those with more other characters.

Examples:
  $ taskmaster settings put 'shop#*' --max-attempts 5 --dead-letter-queue shop#failed
  $ taskmaster settings put shop#mail --backoff 10s,30m --lease-duration 2m
  $ taskmaster settings put shop#clicks --max-backlog 10000 --when-full drop-oldest
  $ taskmaster settings list shop
  $ taskmaster settings show shop#mail
  $ taskmaster settings delete 'shop#*'`;

type PutFlags = Pick<TaskFlags, 'mode' | 'maxAttempts' | 'backoff' | 'deadLetterQueue' | 'timeLimit'> & {
  readonly leaseDuration?: number;
  readonly resultRetention?: number;
  readonly keepOut?: number;
  readonly maxBacklog?: number;
  readonly maxKeyBacklog?: number;
  readonly whenFull?: QueueSettings['whenFull'];
  readonly fairTurns?: true;
  readonly weight?: Readonly<Record<string, number>>;
};

export function addSettings(program: Command, runner: Runner): void {
  const settings = program
    .command('settings')
    .summary('show and change the settings of queues')
    .description('Lists, shows, puts or deletes settings of queues: defaults for their tasks.')
    .helpCommand(false)
    .addHelpText('after', notesOf(`Without a subcommand it lists settings and has the arguments of list.\n${notes}`));
  settings
    .command('list', { isDefault: true })
    .summary('list the settings of a group (the default)')
    .description('Lists the settings of a group, the most specific ones first.')
    .argument('[group]', 'the group (default: the default group)', groupName, '')
    .addHelpText('after', notesOf(notes))
    .action((group: string) => runner.connected((session) => list(session, group), [`${group}#`]));
  settings
    .command('show')
    .summary('show what applies to a queue')
    .description('Shows what applies to a queue, from all settings and the defaults. The queue need not exist.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName)
    .addHelpText('after', notesOf(notes))
    .action((queue: string) => runner.connected((session) => show(session, queue), [queue]));
  const put = settings
    .command('put')
    .summary('create or replace settings')
    .description(
      'Creates settings, or replaces those that were put for the same pattern. What is not given is not set.',
    )
    .argument('<queues>', 'group#pattern, or a pattern in the default group', pattern);
  for (const option of retryOptions()) put.addOption(option);
  put
    .addOption(modeOption())
    .addOption(leaseDurationOption('how long leases last if a request does not say'))
    .addOption(timeLimitOption())
    .option(
      '--result-retention <duration>',
      'how long results are kept if a completion does not say (default: that of the queue, or 1h)',
      someTime,
    )
    .option(
      '--keep-out <duration>',
      'after a completion, enqueues of the same PID add nothing for this time (default: not at all)',
      someTime,
    )
    .option(
      '--max-backlog <n>',
      'how many tasks may wait in a queue, available or delayed (default: any number)',
      wholeNumber(1, limits.maxBacklog),
    )
    .option(
      '--max-key-backlog <n>',
      'how many tasks with the same limit key may wait in a queue (default: any number)',
      wholeNumber(1, limits.maxBacklog),
    )
    .addOption(
      new Option(
        '--when-full <rule>',
        'what an enqueue does then: it is refused, or drops the first available task or the new one (default: refuse)',
      ).choices(['refuse', 'drop-oldest', 'drop-newest']),
    )
    .option('--fair-turns', 'lease tasks in turns of their limit keys (default: in the order of the PIDs)')
    .option(
      '--weight <key=n>',
      'with fair turns: the weight of a limit key, or of a pattern of such keys; may be given many times (default: 1)',
      collectWeights,
    )
    .addHelpText('after', notesOf(notes))
    .action((queues: string, flags: PutFlags) =>
      runner.connected((session) => change(session, queues, flags), [queues]),
    );
  settings
    .command('delete')
    .summary('delete settings')
    .description('Deletes the settings that were put for exactly this pattern.')
    .argument('<queues>', 'group#pattern, or a pattern in the default group', queueName)
    .addHelpText('after', notesOf(notes))
    .action((queues: string) => runner.connected((session) => remove(session, queues), [queues]));
}

function collectWeights(text: string, before: Readonly<Record<string, number>> = {}): Record<string, number> {
  const at = text.lastIndexOf('=');
  if (at < 1) throw new InvalidArgumentError(`'${text}' is not KEY=N.`);
  return { ...before, [text.slice(0, at)]: wholeNumber(1, limits.weight)(text.slice(at + 1)) };
}

async function list({ client, out, signal }: Session, group: string): Promise<ExitCode> {
  const settings = await client.queueSettings.list(group, { signal });
  if (out.json) for (const one of settings) await out.object(settingsObject(one));
  else if (settings.length === 0) await out.line(`no settings in ${groupText(group)}: the defaults apply`);
  else await out.block(tableOf(settings, settingsColumns, out.stream));
  return exitCodes.ok;
}

export const groupText = (group: string): string => (group === '' ? 'the default group' : group);

async function show({ client, out, signal }: Session, queue: string): Promise<ExitCode> {
  const effective = await client.queueSettings.of(queue, { signal });
  if (out.json) await out.object(settingsObject(effective));
  else await out.block(tableOf([effective], settingsColumns, out.stream));
  return exitCodes.ok;
}

async function change({ client, out, signal }: Session, queues: string, flags: PutFlags): Promise<ExitCode> {
  const { deadLetterQueue, leaseDuration, resultRetention, keepOut, timeLimit, ...others } = flags;
  const { maxBacklog, maxKeyBacklog, whenFull, fairTurns, weight, ...ofTasks } = others;
  // The dead-letter queue is a setting of its own, and not a part of the policy.
  const { retry: policy, mode } = taskOptions(ofTasks);
  const settings: QueueSettings = {
    retry: policy,
    deadLetterQueue,
    leaseDuration,
    mode,
    resultRetention,
    keepOut,
    timeLimit,
    maxBacklog,
    maxKeyBacklog,
    whenFull,
    fairTurns: fairTurns || weight ? { weights: weight } : undefined,
  };
  if (Object.values(settings).every((value) => value === undefined)) {
    throw new UsageError('give at least one setting: `taskmaster settings put --help` lists them');
  }
  await client.queueSettings.put(queues, settings, { signal });
  if (out.json) await out.object({ queues, put: true });
  else await out.line(`${queues}: settings put`);
  return exitCodes.ok;
}

async function remove({ client, out, signal }: Session, queues: string): Promise<ExitCode> {
  if (!(await client.queueSettings.delete(queues, { signal }))) {
    const { group } = parseQueueName(queues);
    const hint = `\`taskmaster settings list ${group}\` lists the settings of ${groupText(group)}`.replace('  ', ' ');
    throw new CommandFailedError('UNKNOWN_SETTINGS', `no settings were put for ${queues}`, { hint });
  }
  if (out.json) await out.object({ queues, deleted: true });
  else await out.line(`${queues}: settings deleted`);
  return exitCodes.ok;
}
