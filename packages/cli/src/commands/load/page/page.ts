import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { CALL_KINDS } from '../../../load/measure/call-figures.ts';
import type { LoadReport, ReportedCalls, Verification } from '../../../load/report/load-report.ts';
import { bytes, count, countOf, duration, rate } from '../../../views/format.ts';
import { latency } from '../latency.ts';
import { mixText } from '../load-arguments.ts';
import { type Chart, chartsOf } from './charts.ts';
import { pageScript } from './page-script.ts';
import { pageStyle } from './page-style.ts';

/** What the script of the page shows. All texts are shown as they are. */
interface PageData {
  readonly subtitle: string;
  readonly verdict: { readonly state: 'good' | 'bad' | 'none'; readonly text: string };
  readonly figures: readonly { readonly name: string; readonly value: string; readonly about: string }[];
  readonly charts: readonly Chart[];
  /** In seconds since the start. */
  readonly kills: readonly { readonly from: number; readonly to: number; readonly ended: string }[];
  readonly table: { readonly titles: readonly string[]; readonly rows: readonly (readonly string[])[] };
  readonly violations: readonly { readonly message: string; readonly history: string }[];
  readonly settings: readonly (readonly [string, string])[];
}

const require = createRequire(import.meta.url);

/** A page with the report, which needs nothing but itself. */
export async function pageOf(report: LoadReport): Promise<string> {
  const [uplot, uplotStyle] = await Promise.all([
    readFile(require.resolve('uplot/dist/uPlot.iife.min.js'), 'utf8'),
    readFile(require.resolve('uplot/dist/uPlot.min.css'), 'utf8'),
  ]);
  // No text of the report can end the element.
  const data = JSON.stringify(dataOf(report)).replaceAll('<', String.raw`\u003c`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>Load test · TaskMaster</title>
<link rel="icon" href="data:,">
<style>${uplotStyle}${pageStyle}</style>
</head>
<body>
<header><h1>Load test</h1><span id="verdict" class="state"></span><span id="subtitle" class="facts"></span></header>
<dl id="figures"></dl>
<section id="violations"></section>
<main id="charts"></main>
<h2>All calls</h2>
<div class="wide"><table id="calls"></table></div>
<details><summary>Options of the load</summary><table id="settings"></table></details>
<noscript>The charts need JavaScript.</noscript>
<script id="data" type="application/json">${data}</script>
<script>${uplot}</script>
<script>${pageScript}</script>
</body>
</html>
`;
}

function dataOf(report: LoadReport): PageData {
  const { startedAt, elapsedMs, release, instances, verification, kills, isComplete } = report;
  const by = instances.length === 1 ? '1 process' : `${count(instances.length)} processes`;
  const ended = isComplete ? '' : ', interrupted';
  return {
    subtitle: `${startedAt} · ${duration(elapsedMs)}${ended} · ${by} · release ${release}`,
    verdict: verdictOf(verification),
    figures: figuresOf(report),
    charts: chartsOf(report),
    kills: kills.map((kill) => ({ from: kill.atMs / 1_000, to: kill.endedAtMs / 1_000, ended: kill.ended })),
    table: tableOf(report),
    violations: verification === undefined || verification.kind === 'failed' ? [] : verification.shown,
    settings: settingsOf(report),
  };
}

function verdictOf(verification: Verification | undefined): PageData['verdict'] {
  if (verification === undefined) return { state: 'none', text: 'not checked' };
  if (verification.kind === 'kept') return { state: 'good', text: 'contract kept' };
  if (verification.kind === 'failed') return { state: 'bad', text: `not checked: ${verification.reason}` };
  return { state: 'bad', text: `contract broken: ${countOf(verification.violations, 'violation')}` };
}

function figuresOf({
  total,
  elapsedMs,
  longestPause,
  kills,
  verification,
  notStarted,
}: LoadReport): PageData['figures'] {
  const calls = Object.values(total.calls);
  const seconds = Math.max(elapsedMs, 1) / 1_000;
  const completed = (total.calls.complete?.tasks ?? 0) + (total.calls.pipeline?.tasks ?? 0);
  const sum = (of: (one: ReportedCalls) => number): number => calls.reduce((all, one) => all + of(one), 0);
  const failed = sum(({ errors }) => totalOf(errors));
  const figures = [
    {
      name: 'Calls',
      value: `${rate(sum((one) => one.count) / seconds)}/s`,
      about: `${count(sum((one) => one.count))} in all`,
    },
    { name: 'Completed tasks', value: `${rate(completed / seconds)}/s`, about: `${count(completed)} in all` },
    {
      name: 'Enqueue p99',
      value: latency(total.calls.enqueue?.p99Ms ?? 0),
      about: `p50 ${latency(total.calls.enqueue?.p50Ms ?? 0)}`,
    },
    { name: 'Failed calls', value: count(failed), about: `${count(totalOf(total.retries))} repeated attempts` },
    {
      name: 'Longest wait',
      value: latency(longestPause?.ms ?? 0),
      about:
        longestPause === undefined
          ? 'of a group for an answer'
          : `${longestPause.group}, after ${duration(longestPause.endedAtMs)}`,
    },
  ];
  if (kills.length > 0) figures.push({ name: 'Kills', value: count(kills.length), about: kills[0]?.ended ?? '' });
  if (notStarted > 0)
    figures.push({ name: 'Not started', value: count(notStarted), about: 'operations: the rate was too high' });
  if (verification !== undefined && verification.kind !== 'failed') {
    const { tasks, calls: checked, violations } = verification;
    const about = `${count(checked.succeeded + checked.refused)} calls with an outcome, ${count(checked.unknown)} without`;
    figures.push({ name: 'Checked tasks', value: count(tasks), about });
    figures.push({
      name: 'Violations',
      value: count(violations),
      about: `${count(verification.tasksLeft)} tasks were left`,
    });
  }
  return figures;
}

function tableOf({ total, elapsedMs }: LoadReport): PageData['table'] {
  const seconds = Math.max(elapsedMs, 1) / 1_000;
  const rows = CALL_KINDS.flatMap((kind) => {
    const one = total.calls[kind];
    if (one === undefined) return [];
    const latencies = [one.meanMs, one.p50Ms, one.p90Ms, one.p99Ms, one.p999Ms, one.maxMs].map(latency);
    const failed = Object.entries(one.errors).map(([reason, number]) => `${reason} ${count(number)}`);
    return [
      [
        kind,
        count(one.count),
        rate(one.count / seconds),
        rate(one.tasks / seconds),
        ...latencies,
        failed.join(', ') || '0',
      ],
    ];
  });
  return {
    titles: ['Call', 'Calls', 'Per second', 'Tasks per second', 'Mean', 'p50', 'p90', 'p99', 'p99.9', 'Max', 'Failed'],
    rows,
  };
}

function settingsOf({ workload }: LoadReport): PageData['settings'] {
  const { pace, payloadMinBytes: min, payloadMaxBytes: max } = workload;
  return [
    pace.kind === 'rate' ? ['--rate', String(pace.perSecond)] : ['--depth', String(pace.depth)],
    ['--duration', duration(workload.durationMs)],
    ['--mix', mixText(workload.mix)],
    ['--batch', String(workload.batch)],
    ['--group', workload.group],
    ['--groups', String(workload.groups)],
    ['--queues', String(workload.queues)],
    ['--payload', min === max ? bytes(min) : `${bytes(min)} to ${bytes(max)}`],
    ['--skew', String(workload.skew)],
    ['--pids', workload.pids],
    ['--lease-duration', duration(workload.leaseDurationMs)],
    ['--wait', duration(workload.waitMs)],
    ['--max-delay', duration(workload.delayMs)],
    ['--backlog', count(workload.backlog)],
    ['--seed', String(workload.seed)],
  ];
}

function totalOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, number) => sum + number, 0);
}
