import type { StatsOptions, StatsReport } from '@taskmaster/client';
import { foldShards } from '@taskmaster/client/internal';
import type { QueueStats } from '@taskmaster/proto';
import type { Command } from 'commander';
import { queueName } from '../../input/arguments.ts';
import { addFilterFlags, assertNamesOrFilter, type FilterFlags, filterOf } from '../../input/filter-flags.ts';
import { shardsOf } from '../../input/shard-flags.ts';
import type { Runner, Session } from '../../session/session.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { count } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';
import { MissingNodes } from '../../views/missing-nodes.ts';
import { statsColumns, statsObject, totalsObject, totalsRow } from '../../views/queue-view.ts';
import { tableOf } from '../../views/table.ts';
import { addLimits } from './limits.ts';
import { addPauses } from './pauses.ts';

const columnNotes = `
AVAILABLE tasks can be leased now. LEASED tasks are with workers. DELAYED tasks are hidden by a delay or a backoff. COMPLETED
counts since the queue began. Rates are per second, averaged over about a minute. MEAN LEASE is the mean time from lease to
completion. OLDEST is the age of the oldest task that is not delayed. PAUSED says for how long a queue is paused, by whom, until
when and why, HELD BACK which limit holds its tasks back, and for how long. With --sharded a sharded queue is one row, with the number of its shards that hold tasks.`;

const queuesNotes = `${columnNotes}

Examples:
  $ taskmaster queues --group shop
  $ taskmaster queues --regex '\\.dead$' --min-available 1
  $ taskmaster queues --json | jq -r .queue`;

const statsNotes = `${columnNotes}

With --json the last line is {"totals": {...}}, with "incomplete": true if some nodes did not answer.

Examples:
  $ taskmaster stats shop#mail shop#mail.dead
  $ taskmaster stats crawl --sharded
  $ taskmaster stats --group shop --json | jq .available
  $ taskmaster stats`;

/** Rows of one table. Further rows are a new table without a header, so that memory is bounded. */
const TABLE_ROWS = 1_000;

export function addQueues(program: Command, runner: Runner): void {
  const queues = program
    .command('queues')
    .summary('list the queues that hold tasks; pause and limit queues')
    .description(
      'Lists the queues that hold tasks, pauses queues and resumes them, and limits how many of their tasks are leased.',
    )
    .helpCommand(false)
    .addHelpText('after', notesOf(`Without a subcommand it lists queues and has the options of list.\n${queuesNotes}`));
  const list = queues
    .command('list', { isDefault: true })
    .summary('list the queues that hold tasks (the default)')
    .description('Lists the queues that hold tasks, by name, with their statistics. A queue must match all filters.');
  addFilterFlags(list);
  list
    .addHelpText('after', notesOf(queuesNotes))
    .action((flags: FilterFlags) => runner.connected((session) => listQueues(session, flags)));
  addPauses(queues, runner);
  addLimits(queues, runner);
  const stats = program
    .command('stats')
    .summary('show statistics of queues and their sums')
    .description('Shows statistics and sums of the named queues, of queues that match filters, or of all queues.')
    .argument('[queue...]', 'names of queues; a queue without tasks has zeros');
  addFilterFlags(stats);
  stats.addHelpText('after', notesOf(statsNotes)).action((names: readonly string[], flags: FilterFlags) => {
    const choice = queueChoice(names, flags);
    return runner.connected((session) => showStats(session, choice, flags));
  });
}

/** Queues by name or by filter. @throws UsageError when both are given. */
export function queueChoice(names: readonly string[], flags: FilterFlags): StatsOptions {
  assertNamesOrFilter(names, flags);
  if (names.length === 0) return { filter: filterOf(flags) };
  return { queues: flags.sharded ? names.flatMap((name) => shardsOf(queueName(name))) : names.map(queueName) };
}

/** The report with the sums of each sharded queue in the place of its shards, if the flags ask for it. */
export function folded(report: StatsReport, { sharded }: FilterFlags): StatsReport {
  if (!sharded) return report;
  const queues = foldShards(report.queues);
  return { ...report, queues, totals: { ...report.totals, queues: queues.length } };
}

async function listQueues({ client, out, err, signal }: Session, flags: FilterFlags): Promise<ExitCode> {
  let rows: QueueStats[] = [];
  let listed = 0;
  const missing = new MissingNodes();
  const filter = filterOf(flags);
  const listing = client.listQueues({ filter, signal, onUnreachable: missing.note });
  let titles = '';
  const print = async (): Promise<void> => {
    const columns = statsColumns(rows);
    const before = titles;
    titles = columns.map(({ title }) => title).join();
    // The columns follow the queues of a part, so they may change.
    await out.block(tableOf(rows, columns, out.stream, { header: titles !== before }));
    listed += rows.length;
    rows = [];
  };
  for await (const queue of flags.sharded ? foldedListing(listing) : listing) {
    if (out.closed.aborted) return exitCodes.ok;
    if (out.json) {
      await out.object(statsObject(queue));
    } else {
      rows.push(queue);
      if (rows.length === TABLE_ROWS) await print();
    }
  }
  if (rows.length > 0) await print();
  if (listed === 0 && !out.json && missing.isEmpty) err.line('no queues');
  return missing.report({ out, err }, 'queues', exitCodes.ok);
}

/** The listing with sharded queues instead of their shards, which are not next to each other. */
async function* foldedListing(listing: AsyncIterable<QueueStats>): AsyncGenerator<QueueStats, void> {
  const all: QueueStats[] = [];
  for await (const queue of listing) all.push(queue);
  yield* foldShards(all);
}

async function showStats(
  { client, out, err, signal }: Session,
  choice: StatsOptions,
  flags: FilterFlags,
): Promise<ExitCode> {
  const { queues, totals, unreachable } = folded(await client.stats({ ...choice, signal }), flags);
  const missing = new MissingNodes();
  missing.note(unreachable);
  if (out.json) {
    for (const queue of queues) await out.object(statsObject(queue));
    await out.object({ totals: totalsObject(totals), incomplete: missing.isEmpty ? undefined : true });
    return missing.report({ out, err }, 'queues', exitCodes.ok);
  }
  await out.block(tableOf(queues, statsColumns(queues), out.stream, { footer: totalsRow(totals) }));
  if (queues.length < totals.queues) {
    err.line(`only the first ${count(queues.length)} are shown; \`taskmaster queues\` lists them all`);
  }
  return missing.report({ out, err }, 'queues', exitCodes.ok);
}
