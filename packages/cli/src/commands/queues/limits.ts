import type { LeaseRate } from '@taskmaster/client';
import { limits as most } from '@taskmaster/proto';
import { type Command, InvalidArgumentError } from 'commander';
import { groupName, pattern, queueName, someText, someTime, wholeNumber } from '../../input/arguments.ts';
import type { Runner, Session } from '../../session/session.ts';
import { UsageError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { notesOf } from '../../views/help.ts';
import { limitColumns, limitedText, limitObject, limitText } from '../../views/limit-view.ts';
import { tableOf } from '../../views/table.ts';
import { groupText } from './settings.ts';

const notes = `
Workers get no more tasks of the queues than the limit allows, and wait for the next one. A pattern limits the queues of its group
that match it, all of them together, also those that are created later: * stands for any number of characters, and group#* are
all queues of the group. With --keys it is a limit of each limit key that matches, one by one. To limit again replaces the limit.
To end it, give the queues and keys exactly as they were limited.

Examples:
  $ taskmaster queues limit shop#mail --max-leased 5
  $ taskmaster queues limit 'shop#*' --rate 100/1m --burst 10
  $ taskmaster queues limit 'shop#*' --keys 'customer/*' --max-leased 2
  $ taskmaster queues limits shop
  $ taskmaster queues unlimit shop#mail`;

interface KeysFlags {
  readonly keys?: string;
}

interface LimitFlags extends KeysFlags {
  readonly maxLeased?: number;
  readonly rate?: Pick<LeaseRate, 'tasks' | 'per'>;
  readonly burst?: number;
}

/** Commands below `queues`. */
export function addLimits(queues: Command, runner: Runner): void {
  queues
    .command('limit')
    .summary('limit how many tasks of queues are leased')
    .description('Limits a queue, or all queues of a group that match a pattern.')
    .argument('<queues>', 'group#pattern, or a pattern in the default group', pattern)
    .option(
      '--max-leased <n>',
      'how many of their tasks are leased at once, together (default: any number)',
      wholeNumber(1, most.maxLeased),
    )
    .option(
      '--rate <n>/<duration>',
      'how many of their tasks are leased in a time, as in 100/1m (default: any number)',
      rateOf,
    )
    .option(
      '--burst <n>',
      'with --rate: how many may be leased at once after a time without leases (default: n of --rate)',
      wholeNumber(1, most.rateTasks),
    )
    .option('--keys <pattern>', 'limit each limit key that matches, one by one (default: all tasks together)', someText)
    .addHelpText('after', notesOf(notes))
    .action((names: string, flags: LimitFlags) => {
      assertConsistent(flags);
      return runner.connected((session) => limit(session, names, flags), [names]);
    });
  queues
    .command('unlimit')
    .summary('end a limit')
    .description('Ends the limit of exactly these queues. Exits with 4 if there is none.')
    .argument('<queues>', 'group#pattern, as they were limited', queueName)
    .option('--keys <pattern>', 'the keys, as they were limited', someText)
    .addHelpText('after', notesOf(notes))
    .action((names: string, { keys }: KeysFlags) =>
      runner.connected((session) => unlimit(session, names, keys), [names]),
    );
  queues
    .command('limits')
    .summary('list the limits of a group')
    .description('Lists the limits of a group, the most specific ones first, also of queues that hold no tasks.')
    .argument('[group]', 'the group (default: the default group)', groupName, '')
    .addHelpText('after', notesOf(notes))
    .action((group: string) => runner.connected((session) => list(session, group), [`${group}#`]));
}

function rateOf(text: string): Pick<LeaseRate, 'tasks' | 'per'> {
  const [tasks = '', per = '', ...rest] = text.split('/');
  if (rest.length > 0 || per === '') throw new InvalidArgumentError(`'${text}' is not a rate such as 100/1m.`);
  return { tasks: wholeNumber(1, most.rateTasks)(tasks), per: someTime(per) };
}

function assertConsistent({ maxLeased, rate, burst }: LimitFlags): void {
  if (maxLeased === undefined && rate === undefined) throw new UsageError('give --max-leased or --rate');
  if (rate === undefined && burst !== undefined) throw new UsageError('--burst is for --rate');
}

async function limit({ client, out, signal }: Session, queues: string, flags: LimitFlags): Promise<ExitCode> {
  const { maxLeased, rate, burst, keys } = flags;
  const limited = await client.limitQueues(queues, { maxLeased, rate: rate && { ...rate, burst }, keys, signal });
  if (out.json) await out.object(limitObject(limited));
  else await out.line(`${limitedText(limited)}: ${limitText(limited)}`);
  return exitCodes.ok;
}

async function unlimit(
  { client, out, err, signal }: Session,
  queues: string,
  keys: string | undefined,
): Promise<ExitCode> {
  const { removed, stillLimitedBy } = await client.unlimitQueues(queues, { keys, signal });
  if (out.json) await out.object({ queues, keys, removed, stillLimitedBy: stillLimitedBy.map(limitObject) });
  else {
    if (removed) await out.line(`${queues}: unlimited`);
    else err.line(`no limit of ${queues}`);
    for (const other of stillLimitedBy) err.line(`${queues} stays limited by the limit of ${limitedText(other)}`);
  }
  return removed ? exitCodes.ok : exitCodes.nothing;
}

async function list({ client, out, err, signal }: Session, group: string): Promise<ExitCode> {
  const limits = await client.limits(group, { signal });
  if (out.json) for (const one of limits) await out.object(limitObject(one));
  else if (limits.length === 0) err.line(`no limits in ${groupText(group)}`);
  else await out.block(tableOf(limits, limitColumns(Date.now()), out.stream));
  return exitCodes.ok;
}
