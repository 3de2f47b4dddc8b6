import { escapeControls, type ListSchedulesResponse, type Schedule } from '@taskmaster/proto';
import type { Reply, ScheduleReads } from '@taskmaster/server/http';
import { formatCount, formatDuration } from './format.ts';
import { type Html, html } from './html.ts';
import { nameCell, shownName } from './name-cell.ts';
import { type PageOptions, type PageParts, pageReply, refusedPart } from './page-frame.ts';

export interface SchedulesPageOptions extends PageOptions {
  readonly reads: ScheduleReads;
  /** The system clock, in ms since 1970. */
  readonly wall: number;
}

const MAX_ROWS = 500;

interface Column {
  readonly title: string;
  readonly about: string;
  readonly show: (schedule: Schedule, wall: number) => Html | string;
}

const columns: readonly Column[] = [
  {
    title: 'Queue',
    about: 'The queue of its tasks',
    show: ({ spec }) => html`<bdi>${shownName(spec?.queue ?? '')}</bdi>`,
  },
  { title: 'Rule', about: 'A cron expression, or the time between two runs', show: rule },
  {
    title: 'Time zone',
    about: 'The time zone of the cron expression',
    show: ({ spec }) => escapeControls(spec?.timeZone || '–'),
  },
  { title: 'Next run', about: 'When it enqueues a task next', show: nextRun },
  { title: 'Last run', about: 'When it enqueued a task last', show: lastRun },
  { title: 'Runs', about: 'Runs that were enqueued', show: ({ runs }) => formatCount(runs) },
  {
    title: 'Missed',
    about: 'Runs that were not enqueued because no node could in time',
    show: ({ missed }) => formatCount(missed),
  },
  {
    title: 'Skipped',
    about: 'Runs that were not enqueued because an earlier one was in the queue',
    show: ({ skipped }) => formatCount(skipped),
  },
  { title: 'Triggered', about: 'Extra runs that someone asked for', show: ({ triggered }) => formatCount(triggered) },
];

function rule({ spec }: Schedule): string {
  if (spec === undefined) return '–';
  return spec.cron === '' ? `every ${formatDuration(spec.intervalMs)}` : escapeControls(spec.cron);
}

function nextRun({ paused, nextRunsUnixMs: [next] }: Schedule, wall: number): Html | string {
  if (paused) return html`<span class="warn">paused</span>`;
  return next === undefined ? 'never' : instant(next, next <= wall ? 'now' : `in ${formatDuration(next - wall)}`);
}

function lastRun({ lastRunUnixMs: last }: Schedule, wall: number): Html | string {
  return last === 0 ? '–' : instant(last, `${formatDuration(Math.max(0, wall - last))} ago`);
}

const instant = (at: number, shown: string): Html => {
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}" title="${iso}">${shown}</time>`;
};

/** `GET /schedules`: a table of the schedules, for people. */
export async function schedulesPage(options: SchedulesPageOptions): Promise<Reply> {
  return pageReply(options, { title: 'Schedules', filter: filterForm(options.query), ...(await read(options)) });
}

async function read(options: SchedulesPageOptions): Promise<Pick<PageParts, 'status' | 'content'>> {
  const { reads, access, query, wall } = options;
  const group = query.get('group') || undefined;
  const pageToken = query.get('page_token') ?? '';
  try {
    const request = { schedule: '', group, nextRuns: 1, limit: MAX_ROWS, pageToken };
    const page = await reads.listSchedules(request, access);
    const isShown = page.schedules.length > 0 || page.nextPageToken !== '';
    return { status: 200, content: isShown ? table(page, query, wall) : nothing(group !== undefined) };
  } catch (thrown) {
    return refusedPart(thrown, options, '/schedules');
  }
}

function filterForm(query: URLSearchParams): Html {
  const group = query.get('group') ?? '';
  return html`<form method="get" action="/schedules" role="search">
<input class="group" id="group" name="group" value="${group}" placeholder="Group" aria-label="Group" spellcheck="false" autocomplete="off">
<button>Filter</button>${group ? html` <a href="/schedules">Show all</a>` : undefined}
</form>`;
}

function table({ schedules, nextPageToken }: ListSchedulesResponse, query: URLSearchParams, wall: number): Html {
  const next = new URLSearchParams(query);
  next.set('page_token', nextPageToken);
  const more =
    nextPageToken === '' ? undefined : html`<span><a href="/schedules?${next.toString()}">Next page</a></span>`;
  const heads = columns.map(({ title, about }) => html`<th scope="col" title="${about}">${title}</th>`);
  return html`<div class="table"><table>
<thead><tr><th scope="col" title="group#name">Schedule</th>${heads}</tr></thead>
<tbody>${schedules.map((schedule) => row(schedule, wall))}</tbody>
</table></div>
<footer>${more}<span>The schedules of the groups that this node holds.</span><span><a href="/api/schedules">JSON</a> · <a href="/metrics">Metrics</a></span></footer>`;
}

function row(schedule: Schedule, wall: number): Html {
  const cells = columns.map(({ show }) => {
    const shown = show(schedule, wall);
    return html`<td${shown === '0' ? html` class="zero"` : undefined}>${shown}</td>`;
  });
  return html`<tr>${nameCell(schedule.schedule)}${cells}</tr>
`;
}

function nothing(isFiltered: boolean): Html {
  if (isFiltered) {
    return html`<div class="empty"><h2>No schedule matches</h2><p>The group has no schedules here. <a href="/schedules">Show all</a></p></div>`;
  }
  return html`<div class="empty"><h2>No schedules</h2>
<p>A schedule enqueues a task again and again. Put one:</p>
<pre>taskmaster schedule put 'shop#nightly' 'shop#reports' '{"kind":"sales"}' --cron '0 3 * * *'</pre></div>`;
}
