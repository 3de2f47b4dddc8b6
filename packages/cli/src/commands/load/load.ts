import type { Command } from 'commander';
import type { Runner } from '../../session/session.ts';
import { notesOf } from '../../views/help.ts';
import { addLoadFlags, type LoadFlags, processesOf } from './load-flags.ts';

const notes = `
The load is made in groups of its own: load-0, load-1 and so on, which are deleted at the end, also after Ctrl-C. It is refused
if one of its queues holds tasks.

Operations: enqueue adds tasks, and delay adds hidden ones. work leases tasks and completes them, renew renews their leases in
between, and pipeline completes them and adds as many to another queue, atomically. release gives them back, and abandon lets
their leases expire. peek and stats read.

With --rate the latency of an operation counts from when it was due, so that a pause of the cluster shows. With --depth it counts
from its start.

With --verify the exit code is 1 if an acknowledged task was lost or came twice, two workers had a valid lease of one task, an
update was applied in part, or a count was wrong.

Processes of several commands start together: give each its --instance and the number of --instances. JOB_COMPLETION_INDEX, which
Kubernetes sets in an Indexed Job, is the default of --instance. load-report joins their reports.

Examples:
  $ taskmaster load --html load.html
  $ taskmaster load --rate 5000 --duration 5m --processes 4 --report load.json
  $ taskmaster load --verify --mix enqueue=1,work=1 --payload 100-4KiB --skew 1
  $ taskmaster load --verify --duration 10m --kill-every 30s \\
      --kill-command 'kubectl delete pod taskmaster-1 --grace-period=0 --force'
  $ taskmaster load --instances 3 --instance 0 --report report-0.json`;

const reportNotes = `
The reports must be of one load: of instances that were started with the same options. Their latencies are added, so percentiles
are those of all calls.

Examples:
  $ taskmaster load-report report-0.json report-1.json report-2.json --report all.json
  $ taskmaster load-report report-0.json report-1.json --html all.html`;

export function addLoad(program: Command, runner: Runner): void {
  const command = program
    .command('load')
    .summary('measure a cluster under load, and check that it keeps its contract')
    .description('Measures a cluster under load, and with --verify checks that it keeps its contract.');
  addLoadFlags(command);
  command.addHelpText('after', notesOf(notes)).action((flags: LoadFlags) => {
    processesOf(flags);
    return runner.local(async (shell) => {
      // Loaded only now, because other commands need nothing of it.
      const { runLoad } = await import('./run-load.ts');
      return runLoad(shell, runner.reach, flags);
    });
  });
  program
    .command('load-report')
    .summary('show reports of `load`, or join those of several instances')
    .description('Shows a report of `load`, or joins the reports of several instances.')
    .argument('<file...>', 'reports that `load --report` has written')
    .option('--report <path>', 'write the joined report as JSON')
    .option('--html <path>', 'write the joined report as a page with charts')
    .addHelpText('after', notesOf(reportNotes))
    .action((paths: readonly string[], flags: Pick<LoadFlags, 'report' | 'html'>) =>
      runner.local(async (shell) => {
        const { joinReports } = await import('./join-reports.ts');
        return joinReports(shell, paths, flags);
      }),
    );
}
