import { escapeControls } from '@taskmaster/proto';
import type { CountsByReason } from '../../load/measure/call-figures.ts';
import type { LoadReport, Verification } from '../../load/report/load-report.ts';
import { count, countOf, duration } from '../../views/format.ts';
import type { OutputStream } from '../../views/output.ts';
import { callsTable } from './calls-table.ts';
import { latency } from './latency.ts';

/** The report of a load for people. */
export function summaryOf(report: LoadReport, stream: OutputStream): string {
  const { elapsedMs, total, workload, instances, notStarted, longestPause, kills, verification } = report;
  const { pace } = workload;
  const paced =
    pace.kind === 'rate' ? `${count(pace.perSecond)} operations/s` : `${count(pace.depth)} operations in progress`;
  const by = instances.length === 1 ? '' : ` by ${instances.length} processes`;
  const early = report.isComplete ? '' : ', interrupted';
  const lines = [`${duration(elapsedMs)} of ${paced}${by}${early}`, '', callsTable(total.calls, elapsedMs, stream), ''];
  for (const [kind, { errors }] of Object.entries(total.calls)) {
    if (Object.keys(errors).length > 0) lines.push(`failed ${kind}: ${countsText(errors)}`);
  }
  if (Object.keys(total.retries).length > 0) lines.push(`repeated attempts: ${countsText(total.retries)}`);
  if (notStarted > 0) lines.push(`not started in time: ${countOf(notStarted, 'operation')}, the rate was too high`);
  if (longestPause !== undefined) {
    const { ms, group, endedAtMs } = longestPause;
    lines.push(
      `longest wait of a group for an answer: ${latency(ms)}, ${escapeControls(group)}, ${duration(endedAtMs)} after the start`,
    );
  }
  if (kills.length > 0)
    lines.push(`kills: ${kills.map(({ atMs, ended }) => `${duration(atMs)} (${escapeControls(ended)})`).join(', ')}`);
  if (verification !== undefined) lines.push(...verificationLines(verification));
  return lines.join('\n');
}

function verificationLines(verification: Verification): string[] {
  if (verification.kind === 'failed') {
    return [`NOT CHECKED: what is left in the queues could not be read: ${escapeControls(verification.reason)}`];
  }
  const { tasks, calls, tasksLeft, violations, shown } = verification;
  const known = `${count(calls.succeeded)} calls succeeded, ${count(calls.refused)} were refused`;
  const checked = `${countOf(tasks, 'task')}; ${known}, ${count(calls.unknown)} have an unknown outcome; ${count(tasksLeft)} tasks left`;
  if (verification.kind === 'kept') {
    return [
      `checked: ${checked}`,
      'kept: nothing lost, nothing doubled, no two valid leases of a task, no update in part, exact counts',
    ];
  }
  const lines = [`checked: ${checked}`, `BROKEN: ${countOf(violations, 'violation')} of the contract`];
  for (const { message, history } of shown) {
    lines.push(
      '',
      escapeControls(message),
      ...history
        .split('\n')
        .filter(Boolean)
        .map((line) => `  ${escapeControls(line)}`),
    );
  }
  if (violations > shown.length) lines.push('', `and ${countOf(violations - shown.length, 'more violation')}`);
  return lines;
}

function countsText(counts: CountsByReason): string {
  return Object.entries(counts)
    .map(([reason, number]) => `${reason} ${count(number)}`)
    .join(', ');
}
