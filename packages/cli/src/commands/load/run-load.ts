import { randomBytes } from 'node:crypto';
import { open, writeFile } from 'node:fs/promises';
import { sleep, systemTiming } from '@taskmaster/client/internal';
import { ProcessFailedError, runProcesses } from '../../load/processes/children.ts';
import type { ProcessJob } from '../../load/processes/messages.ts';
import { type JobHooks, type JobResult, runJob } from '../../load/processes/run-job.ts';
import type { Kill, LoadReport } from '../../load/report/load-report.ts';
import { QueuesInUseError } from '../../load/run/load-queues.ts';
import { RendezvousError } from '../../load/run/rendezvous.ts';
import type { Reach } from '../../session/session.ts';
import { version } from '../../session/version.ts';
import { AlreadyReportedError, CommandFailedError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { countOf } from '../../views/format.ts';
import type { Shell } from '../../views/output.ts';
import { commandEndText, runCommand } from '../run-command.ts';
import { LiveView } from './live-view.ts';
import { type LoadFlags, processesOf } from './load-flags.ts';
import { pageOf } from './page/page.ts';
import { summaryOf } from './summary.ts';

/** Names of the kills in the environment of their command. */
const KILL_NUMBER = 'TASKMASTER_KILL';

/** Runs a load, shows it, and writes its report. */
export async function runLoad(shell: Shell, reach: Reach, flags: LoadFlags): Promise<ExitCode> {
  // Known before the load, and not only after an hour of it.
  for (const path of [flags.report, flags.html]) if (path !== undefined) await (await open(path, 'a')).close();
  const { report, notCleaned } = await measured(shell, reach, flags);
  await showReport(shell, report);
  await writeReport(report, flags);
  if (notCleaned.length > 0) {
    const [first = ''] = notCleaned;
    shell.err.line(`${countOf(notCleaned.length, 'queue')} could not be deleted, ${first} among them`);
  }
  if (report.verification !== undefined && report.verification.kind !== 'kept') {
    throw new AlreadyReportedError('the contract was not kept, or could not be checked');
  }
  shell.signal.throwIfAborted();
  return exitCodes.ok;
}

/** The files that a report is written to. */
export type ReportFiles = Pick<LoadFlags, 'report' | 'html'>;

/** Writes the report of a load into the files that the flags name. */
export async function writeReport(report: LoadReport, { report: path, html }: ReportFiles): Promise<void> {
  if (path !== undefined) await writeFile(path, `${JSON.stringify(report)}\n`);
  if (html !== undefined) await writeFile(html, await pageOf(report));
}

/** Shows the report of a load. With `--json` as one object, without the intervals. */
export async function showReport({ out }: Shell, report: LoadReport): Promise<void> {
  const { intervals, ...rest } = report;
  if (out.json) await out.object(rest);
  else await out.block(summaryOf(report, out.stream));
}

async function measured(shell: Shell, reach: Reach, flags: LoadFlags): Promise<JobResult> {
  const jobs = processesOf(flags).map((settings): ProcessJob => {
    return { settings, ...reach, runId: randomBytes(4).toString('hex'), release: version() };
  });
  const over = new AbortController();
  using view = new LiveView({ shell, processes: jobs.length, durationMs: flags.duration });
  let killing: Promise<readonly Kill[]> = Promise.resolve([]);
  const hooks: JobHooks = {
    signal: shell.signal,
    onStart: () => {
      view.started();
      killing = killsOf(shell, flags, view, AbortSignal.any([shell.signal, over.signal]));
    },
    onTick: (tick) => view.tick(tick),
  };
  try {
    const [alone, ...others] = jobs;
    const { report, notCleaned } =
      alone !== undefined && others.length === 0 ? await runJob(alone, hooks) : await runProcesses(jobs, hooks);
    over.abort();
    return { report: { ...report, kills: await killing }, notCleaned };
  } catch (error) {
    throw commandError(error);
  } finally {
    over.abort();
    await killing;
  }
}

/**
 * Runs the command of `--kill-command` again and again while the load lasts. Of several instances only the first one does.
 * Resolves with what it did, when the last run has ended.
 */
async function killsOf(shell: Shell, flags: LoadFlags, view: LiveView, over: AbortSignal): Promise<readonly Kill[]> {
  const { killCommand, killEvery, duration, instance } = flags;
  if (killCommand === undefined || instance > 0) return [];
  const lasts = AbortSignal.any([over, AbortSignal.timeout(duration)]);
  const start = systemTiming.now();
  const kills: Kill[] = [];
  for (let number = 1; ; number++) {
    const due = start + number * killEvery;
    await sleep(systemTiming, Math.max(0, due - systemTiming.now()), lasts).catch(() => undefined);
    if (lasts.aborted) return kills;
    const atMs = systemTiming.now() - start;
    const end = await runCommand(killCommand, new Uint8Array(0), {
      env: { [KILL_NUMBER]: String(number) },
      stdout: process.stderr,
      signal: shell.signal,
    });
    kills.push({ atMs, endedAtMs: systemTiming.now() - start, ended: commandEndText(end) });
    view.killed();
  }
}

function commandError(error: unknown): unknown {
  const { name, reason } =
    error instanceof ProcessFailedError
      ? { name: error.failedWith, reason: error.reason }
      : { name: '', reason: undefined };
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof QueuesInUseError || name === QueuesInUseError.name) {
    const hint = 'use --force to delete what is there, or another --group';
    return new CommandFailedError('QUEUES_IN_USE', message, { hint, cause: error });
  }
  if (error instanceof RendezvousError || name === RendezvousError.name) {
    const hint = 'start all instances with the same --group and --instances, or use a longer --start-timeout';
    return new CommandFailedError('RENDEZVOUS_FAILED', message, { hint, cause: error });
  }
  if (error instanceof ProcessFailedError)
    return new CommandFailedError(reason ?? 'PROCESS_FAILED', message, { cause: error });
  return error;
}
