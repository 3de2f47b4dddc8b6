import {
  bytesCodec,
  type HeaderFilter,
  type Pid,
  type PublishedTask,
  pidText,
  type Subscription,
} from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { type Command, Option } from 'commander';
import { groupName, payload, pid, queueName, queueToFill, someTime } from '../input/arguments.ts';
import { filterOption, filterText } from '../input/header-filter.ts';
import { openInput, readWhole } from '../input/read-input.ts';
import { addTaskFlags, type TaskFlags, taskOptions } from '../input/task-flags.ts';
import type { Runner, Session } from '../session/session.ts';
import { CommandFailedError, UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { countOf, duration } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import { type Column, tableOf } from '../views/table.ts';

const notes = `
A task that is published to a topic goes to all queues that are subscribed to it. A topic and its queues are of one group. A topic
exists while it has subscriptions, and is no queue.

Examples:
  $ taskmaster topic subscribe shop#orders shop#mail
  $ taskmaster topic subscribe shop#orders shop#audit --where tenant=acme --where tenant=globex --where 'type^=order.'
  $ taskmaster topic publish shop#orders '{"order":17}' --pid order-17 --header tenant=acme
  $ taskmaster topic list shop#orders
  $ taskmaster topic unsubscribe shop#orders shop#mail`;

const TOPIC = 'group#name, or a name in the default group';

interface PublishFlags extends TaskFlags {
  readonly file?: string;
  readonly pid?: Pid;
}

interface SubscribeFlags {
  readonly where?: HeaderFilter;
  readonly ttl?: number;
  readonly deleteQueue?: true;
}

export function addTopic(program: Command, runner: Runner): void {
  const topic = program
    .command('topic')
    .summary('publish tasks to several queues, and subscribe queues')
    .description(
      'Publishes a task to the queues that are subscribed to a topic; subscribes queues; lists subscriptions.',
    )
    .helpCommand(false)
    .addHelpText(
      'after',
      notesOf(`Without a subcommand it lists subscriptions and has the arguments of list.\n${notes}`),
    );
  addPublish(topic, runner);
  topic
    .command('subscribe')
    .summary('subscribe a queue, or renew its subscription')
    .description('Subscribes a queue to a topic, or replaces the filter and the time to live of its subscription.')
    .argument('<topic>', TOPIC, queueName)
    .argument('<queue>', 'queue of the same group', queueName)
    .addOption(filterOption())
    .option('--ttl <duration>', 'end the subscription after this time, unless it is renewed (default: never)', someTime)
    .option('--delete-queue', 'delete the queue with its tasks when the subscription ends')
    .addHelpText('after', notesOf(notes))
    .action((name: string, queue: string, flags: SubscribeFlags) =>
      runner.connected((session) => subscribe(session, name, queue, flags), [name]),
    );
  topic
    .command('unsubscribe')
    .summary('end the subscription of a queue')
    .description(
      'Ends the subscription of a queue. What it has got stays, unless it was subscribed with --delete-queue.',
    )
    .argument('<topic>', TOPIC, queueName)
    .argument('<queue>', 'queue of the same group', queueName)
    .addHelpText('after', notesOf(notes))
    .action((name: string, queue: string) => runner.connected((session) => unsubscribe(session, name, queue), [name]));
  topic
    .command('list', { isDefault: true })
    .summary('list the subscriptions of a topic, or of a group')
    .description('Lists subscriptions. It exits with 4 if there are none.')
    .argument('[topic]', `${TOPIC} (default: all topics of --group)`, queueName)
    .addOption(new Option('--group <group>', "all topics of this group; '' is the default group").argParser(groupName))
    .addHelpText('after', notesOf(notes))
    .action((name: string | undefined, { group }: { group?: string }) => {
      if ((name === undefined) === (group === undefined)) throw new UsageError('give TOPIC or --group');
      const listed = name ?? `${group}#`;
      return runner.connected((session) => list(session, listed, name === undefined), [listed]);
    });
}

function addPublish(topic: Command, runner: Runner): void {
  const publish = topic
    .command('publish')
    .summary('publish a task')
    .description(
      'Enqueues a task in all queues that are subscribed, or in none of them. It is on disk when the command ends.',
    )
    .argument('<topic>', TOPIC, queueToFill)
    .argument('[data]', 'the payload; - reads it from stdin (default: stdin)')
    .option('-f, --file <path>', 'read the payload from a file; - is stdin')
    .option('-p, --pid <pid>', 'priority and identity of the task in each queue (default: behind all others)', pid);
  // A dead letter goes to the dead-letter queue of its queue.
  addTaskFlags(publish, { withDeadLetters: false });
  publish.addHelpText('after', notesOf(notes)).action((name: string, data: string | undefined, flags: PublishFlags) => {
    if (data !== undefined && flags.file !== undefined) throw new UsageError('give DATA or --file, not both');
    return runner.connected((session) => publishOne(session, name, data, flags), [name]);
  });
}

async function publishOne(
  session: Session,
  name: string,
  data: string | undefined,
  flags: PublishFlags,
): Promise<ExitCode> {
  const { client, out, signal } = session;
  const path = flags.file ?? (data === undefined || data === '-' ? '-' : undefined);
  const content =
    path === undefined ? payload(data ?? '') : await readWhole(await openInput(path, session), limits.dataBytes);
  const topic = client.topic(name, { codec: bytesCodec });
  const published = await topic.publish(content, { ...taskOptions(flags), pid: flags.pid, signal });
  if (out.json) {
    await out.object({ topic: topic.name, queues: published.map(publishedObject) });
    return exitCodes.ok;
  }
  for (const { queue, pid: inQueue, result, leased } of published) {
    await out.line(`${result}  ${queue}  ${pidText(inQueue)}${leased ? '  leased' : ''}`);
  }
  session.err.line(`published to ${countOf(published.length, 'queue')}`);
  return exitCodes.ok;
}

async function subscribe(session: Session, name: string, queue: string, flags: SubscribeFlags): Promise<ExitCode> {
  const { client, out, signal } = session;
  const { where: filter, ttl, deleteQueue } = flags;
  const { created, expiresAt } = await client.topic(name).subscribe(queue, { filter, ttl, deleteQueue, signal });
  if (out.json) {
    await out.object({ topic: name, queue, created, expiresAt: expiresAt?.toISOString() });
  } else {
    const end = expiresAt === undefined ? '' : `  until ${expiresAt.toISOString()}`;
    await out.line(`${created ? 'subscribed' : 'renewed'}  ${name}  ${queue}${end}`);
  }
  return exitCodes.ok;
}

async function unsubscribe({ client, out, signal }: Session, name: string, queue: string): Promise<ExitCode> {
  if (!(await client.topic(name).unsubscribe(queue, { signal }))) {
    throw new CommandFailedError('NOT_SUBSCRIBED', `${queue} is not subscribed to ${name}`, {
      exitCode: exitCodes.nothing,
    });
  }
  if (out.json) await out.object({ topic: name, queue, unsubscribed: true });
  else await out.line(`unsubscribed  ${name}  ${queue}`);
  return exitCodes.ok;
}

async function list(session: Session, listed: string, isGroup: boolean): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const subscriptions = isGroup
    ? await client.subscriptions(listed.slice(0, -1), { signal })
    : await client.topic(listed).subscriptions({ signal });
  if (out.json) for (const one of subscriptions) await out.object(subscriptionObject(one));
  else if (subscriptions.length === 0) err.line(`${listed}: no subscriptions`);
  else await out.block(tableOf(subscriptions, subscriptionColumns(Date.now()), out.stream));
  return subscriptions.length === 0 ? exitCodes.nothing : exitCodes.ok;
}

const subscriptionColumns = (now: number): readonly Column<Subscription>[] => [
  { title: 'TOPIC', cell: ({ topic }) => topic },
  { title: 'QUEUE', cell: ({ queue }) => queue },
  { title: 'FILTER', cell: ({ filter }) => filterText(filter) },
  {
    title: 'ENDS IN',
    align: 'right',
    cell: ({ expiresAt }) => (expiresAt === undefined ? 'never' : duration(expiresAt.getTime() - now)),
  },
  { title: 'THEN', cell: ({ deleteQueue }) => (deleteQueue ? 'queue deleted' : '') },
];

/** A subscription for programs. What does not apply is left out. */
const subscriptionObject = ({ filter, expiresAt, ...rest }: Subscription): object => ({
  ...rest,
  filter: Object.keys(filter).length === 0 ? undefined : filter,
  expiresAt: expiresAt?.toISOString(),
});

/** A published task for programs. */
const publishedObject = ({ queue, pid, result, leased }: PublishedTask): object => ({
  queue,
  pid: pidText(pid),
  result,
  leased,
});
