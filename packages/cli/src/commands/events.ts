import { type Pid, pidText, type QueueEvent, type QueueEventKind, queueEventKinds } from '@taskmaster/client';
import { type Command, Option } from 'commander';
import { pattern, pid, someText, wholeNumber } from '../input/arguments.ts';
import type { Runner, Session } from '../session/session.ts';
import { UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { countOf, duration } from '../views/format.ts';
import { notesOf } from '../views/help.ts';

const notes = `
In the pattern, * stands for any number of characters: 'group#*' are all queues of the group. With --json the lines have the
position of each event, and --after continues behind it. A node keeps the events of a group from its first reader on, until it has
had none for ten minutes. An event "missed" says that earlier ones are not kept any more.

Examples:
  $ taskmaster events 'shop#*' --follow
  $ taskmaster events shop#mail --follow --kind completed --kind dead-lettered
  $ taskmaster events shop#report --pid 2030-01 --follow --json`;

interface EventsFlags {
  readonly follow?: true;
  readonly after?: string;
  readonly kind?: readonly QueueEventKind[];
  readonly pid?: Pid;
  readonly key?: string;
  readonly count?: number;
}

export function addEvents(program: Command, runner: Runner): void {
  program
    .command('events')
    .summary('show what happens in queues')
    .description('Shows what happens in the queues of a group that match a pattern, until Ctrl-C.')
    .argument('<queues>', 'group#pattern, or a pattern in the default group', pattern)
    .option('-f, --follow', 'wait for further events')
    .option(
      '--after <position>',
      'begin behind the event with this position, or oldest: with all that are kept (default: from now on)',
    )
    .addOption(
      new Option('--kind <kind>', 'only events of this kind; may be given many times (default: all)').argParser(kinds),
    )
    .option('--pid <pid>', 'only events of the task with this PID', pid)
    .addOption(new Option('--key <key>', 'only events of the task with this key').argParser(someText).conflicts('pid'))
    .option('--count <n>', 'end after n events (default: never)', wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .addHelpText('after', notesOf(notes))
    .action((queues: string, flags: EventsFlags) => {
      if (flags.follow === undefined && flags.after === undefined) {
        throw new UsageError('give --follow, or --after with a position');
      }
      return runner.connected((session) => show(session, queues, flags), [queues]);
    });
}

function kinds(text: string, earlier: readonly string[] = []): readonly string[] {
  if (queueEventKinds.includes(text as QueueEventKind)) return [...earlier, text];
  throw new UsageError(`--kind: '${text}' is none of ${queueEventKinds.join(', ')}`);
}

async function show(session: Session, queues: string, flags: EventsFlags): Promise<ExitCode> {
  const { client, out } = session;
  const signal = AbortSignal.any([session.signal, out.closed]);
  const { follow = false, after, kind, pid, key, count = Number.POSITIVE_INFINITY } = flags;
  let shown = 0;
  try {
    for await (const event of client.events(queues, { follow, after, kinds: kind, pid, key, signal })) {
      if (out.json) await out.object(objectOf(event));
      else await out.line(lineOf(event));
      if (++shown >= count) break;
    }
  } catch (error) {
    // The reader has closed the pipe, as `| head` does.
    if (out.closed.aborted && !session.signal.aborted) return exitCodes.ok;
    throw error;
  }
  return exitCodes.ok;
}

/** An event for programs. What it does not have is left out. */
export function objectOf({ at, pid, id: _sameAsPid, movedTo, attempts, ...event }: QueueEvent): object {
  return {
    ...event,
    at: at?.toISOString(),
    pid: pid && pidText(pid),
    attempts: pid && attempts,
    movedTo: movedTo && { queue: movedTo.queue, pid: pidText(movedTo.pid) },
  };
}

/** An event for people. `tookMs`: how long the attempt took that has ended with it. */
export function lineOf(event: QueueEvent, tookMs?: number): string {
  const { kind, at, queue, pid, key, attempts, worker, text, movedTo, tasks } = event;
  const parts = [
    at?.toISOString(),
    kind,
    queue,
    pid && pidText(pid),
    key && `key ${key}`,
    attempts > 0 ? `attempt ${attempts}` : undefined,
    tookMs === undefined ? undefined : `took ${duration(tookMs)}`,
    worker && `by ${worker}`,
    movedTo && `to ${movedTo.queue} ${pidText(movedTo.pid)}`,
    tasks === undefined ? undefined : countOf(tasks, 'task'),
    text,
  ];
  return parts.filter((part) => part !== undefined && part !== '').join('  ');
}
