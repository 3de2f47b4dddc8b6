import { pidText, type ScheduleInfo } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import type { Command } from 'commander';
import { groupName, queueName, wholeNumber } from '../../input/arguments.ts';
import type { Runner, Session } from '../../session/session.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { duration } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';
import { MissingNodes } from '../../views/missing-nodes.ts';
import { tableOf } from '../../views/table.ts';
import { addPutSchedule } from './put-schedule.ts';
import { nextText, scheduleColumns, scheduleObject } from './schedule-view.ts';

/** Rows of one table, so that memory is bounded. */
const TABLE_ROWS = 1_000;
const NEXT_RUNS = 10;

const listNotes = `
RUNS were enqueued, MISSED ones were not because no node could and the policy is to leave them, SKIPPED ones because an earlier run
was still in the queue. --json also has the payload, the policies and the instants.

Examples:
  $ taskmaster schedule
  $ taskmaster schedule list shop
  $ taskmaster schedule list ''
  $ taskmaster schedule list shop --json | jq -r '.nextRuns[0]'`;

const pauseNotes = `
A paused schedule enqueues nothing until it is resumed. Then it goes on with the first run after that; runs of the pause are not
missed. To put it again does not resume it.

Examples:
  $ taskmaster schedule pause shop#nightly
  $ taskmaster schedule resume shop#nightly`;

const triggerNotes = `
The run is an extra one: the others come as before. It comes also if the schedule is paused or an earlier run is in the queue.

Examples:
  $ taskmaster schedule trigger shop#nightly`;

const nextNotes = `
Times are UTC. Clocks that go forward or back are taken into account.

Examples:
  $ taskmaster schedule next shop#nightly --limit 5`;

const deleteNotes = `
Tasks that it has enqueued stay. The command exits with 4 if there is no such schedule.

Examples:
  $ taskmaster schedule delete shop#nightly`;

export function addSchedule(program: Command, runner: Runner): void {
  const schedule = program
    .command('schedule')
    .summary('enqueue tasks again and again: by cron expressions or intervals')
    .description('Lists, puts, pauses, resumes, triggers or deletes schedules. Each enqueues a task again and again.')
    .helpCommand(false)
    .addHelpText('after', notesOf(`Without a subcommand it lists schedules, as list does.\n${listNotes}`));
  schedule
    .command('list', { isDefault: true })
    .summary('list the schedules (the default)')
    .description('Lists the schedules of all groups, or of one, by name.')
    .argument('[group]', "only schedules of this group; '' is the default group", groupName)
    .addHelpText('after', notesOf(listNotes))
    .action((group: string | undefined) =>
      runner.connected((session) => list(session, group), group === undefined ? [] : [`${group}#`]),
    );
  addPutSchedule(schedule, runner);
  named(schedule, 'next', 'show the next runs of a schedule', nextNotes)
    .option('-n, --limit <n>', 'largest number of runs', wholeNumber(1, limits.listNextRuns), NEXT_RUNS)
    .action((name: string, { limit }: { readonly limit: number }) =>
      runner.connected((session) => showNext(session, name, limit), [name]),
    );
  named(schedule, 'pause', 'stop the runs of a schedule until it is resumed', pauseNotes).action((name: string) =>
    runner.connected((session) => pause(session, name, 'pause'), [name]),
  );
  named(schedule, 'resume', 'go on with the runs of a paused schedule', pauseNotes).action((name: string) =>
    runner.connected((session) => pause(session, name, 'resume'), [name]),
  );
  named(schedule, 'trigger', 'enqueue an extra run now', triggerNotes).action((name: string) =>
    runner.connected((session) => trigger(session, name), [name]),
  );
  named(schedule, 'delete', 'delete a schedule', deleteNotes).action((name: string) =>
    runner.connected((session) => remove(session, name), [name]),
  );
}

const named = (schedule: Command, name: string, summary: string, notes: string): Command =>
  schedule
    .command(name)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`)
    .argument('<schedule>', 'group#name, or a name in the default group', queueName)
    .addHelpText('after', notesOf(notes));

async function list({ client, out, err, signal }: Session, group: string | undefined): Promise<ExitCode> {
  let rows: ScheduleInfo[] = [];
  let listed = 0;
  const missing = new MissingNodes();
  const print = async (): Promise<void> => {
    await out.block(tableOf(rows, scheduleColumns(Date.now()), out.stream, { header: listed === 0 }));
    listed += rows.length;
    rows = [];
  };
  for await (const schedule of client.schedules.list({ group, signal, onUnreachable: missing.note })) {
    if (out.closed.aborted) return exitCodes.ok;
    if (out.json) await out.object(scheduleObject(schedule));
    else rows.push(schedule);
    if (rows.length === TABLE_ROWS) await print();
  }
  if (rows.length > 0) await print();
  if (listed === 0 && !out.json && missing.isEmpty) err.line('no schedules');
  return missing.report({ out, err }, 'schedules', exitCodes.ok);
}

async function showNext({ client, out, err, signal }: Session, name: string, limit: number): Promise<ExitCode> {
  const schedule = await client.schedules.get(name, { nextRuns: limit, signal });
  if (schedule === undefined) {
    err.line(`no schedule ${name}`);
    return exitCodes.nothing;
  }
  if (out.json) {
    await out.object({ name: schedule.name, nextRuns: schedule.nextRuns.map((at) => at.toISOString()) });
    return exitCodes.ok;
  }
  const now = Date.now();
  for (const at of schedule.nextRuns) {
    await out.line(`${at.toISOString()}  in ${duration(at.getTime() - now)}`);
  }
  if (schedule.nextRuns.length === 0) await out.line(nextText(schedule, now));
  return exitCodes.ok;
}

async function pause({ client, out, signal }: Session, name: string, how: 'pause' | 'resume'): Promise<ExitCode> {
  const schedule = await client.schedules[how](name, { signal });
  if (out.json) await out.object(scheduleObject(schedule));
  else {
    const next = schedule.paused ? 'paused' : `resumed, next run ${nextText(schedule, Date.now())}`;
    await out.line(`${schedule.name}: ${next}`);
  }
  return exitCodes.ok;
}

async function trigger({ client, out, signal }: Session, name: string): Promise<ExitCode> {
  const { queue, pid } = await client.schedules.trigger(name, { signal });
  if (out.json) await out.object({ queue, pid: pidText(pid) });
  else await out.line(`created  ${queue}  ${pidText(pid)}`);
  return exitCodes.ok;
}

async function remove({ client, out, err, signal }: Session, name: string): Promise<ExitCode> {
  const deleted = await client.schedules.delete(name, { signal });
  if (out.json) await out.object({ schedule: name, deleted });
  else if (deleted) await out.line(`${name}: deleted`);
  else err.line(`no schedule ${name}`);
  return deleted ? exitCodes.ok : exitCodes.nothing;
}
