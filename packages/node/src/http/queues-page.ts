import {
  escapeControls,
  limits,
  type QueueKinds,
  type QueueLimit,
  type QueuePause,
  type QueueStats,
  type QueueTotals,
} from '@taskmaster/proto';
import { filterOf, type QueueReads, type Reply } from '@taskmaster/server/http';
import { formatCount, formatDuration, formatRate } from './format.ts';
import { type Html, html } from './html.ts';
import { nameCell } from './name-cell.ts';
import { type NodeFacts, type PageOptions, type PageParts, pageReply, refusedPart } from './page-frame.ts';

export interface QueuesPageOptions extends PageOptions {
  readonly reads: QueueReads;
}

const MAX_ROWS = 500;

interface Column {
  readonly key: string;
  readonly title: string;
  readonly about: string;
  readonly value: (stats: QueueStats) => number;
  readonly show: (stats: QueueStats) => string;
}

const columns: readonly Column[] = [
  count('available', 'Available', 'Tasks that can be leased now', (stats) => stats.available),
  count('leased', 'Leased', 'Tasks under a lease', (stats) => stats.leased),
  count('delayed', 'Delayed', 'Tasks hidden by a delay or a backoff, or because they wait', (stats) => stats.delayed),
  count('waiting', 'Waiting', 'Delayed tasks that wait for signals or for their order', (stats) => stats.waiting),
  time(
    'oldest',
    'Oldest',
    'Time since the oldest task became due; delayed tasks do not count',
    (stats) => stats.oldestAgeMs,
  ),
  rate('enqueue', 'In /s', 'Tasks enqueued per second, averaged over about a minute', (stats) => stats.enqueueRate),
  rate('lease', 'Leased /s', 'Tasks leased per second, averaged over about a minute', (stats) => stats.leaseRate),
  rate(
    'complete',
    'Done /s',
    'Tasks completed per second, averaged over about a minute',
    (stats) => stats.completeRate,
  ),
  time('work', 'Work', 'Mean time from lease to completion', (stats) => stats.meanLeaseMs),
  count('completed', 'Completed', 'Tasks completed since the queue was created', (stats) => stats.completed),
];

type Of = (stats: QueueStats) => number;

function count(key: string, title: string, about: string, value: Of): Column {
  return { key, title, about, value, show: (stats) => formatCount(value(stats)) };
}

function rate(key: string, title: string, about: string, value: Of): Column {
  return { key, title, about, value, show: (stats) => formatRate(value(stats)) };
}

function time(key: string, title: string, about: string, value: Of): Column {
  return { key, title, about, value, show: (stats) => (value(stats) === 0 ? '–' : formatDuration(value(stats))) };
}

/** `GET /`: a table of the queues, for people. An invalid filter is explained on the page. */
export async function queuesPage(options: QueuesPageOptions): Promise<Reply> {
  return pageReply(options, { title: 'Queues', filter: filterForm(options.query), ...(await read(options)) });
}

async function read(options: QueuesPageOptions): Promise<Pick<PageParts, 'status' | 'summary' | 'content'>> {
  const { reads, access, query, facts } = options;
  const filter = { ...filterOf(query), group: query.get('group') || undefined };
  try {
    const { queues, totals } = await reads.getQueueStats({ queues: [], filter }, access);
    const filtered = filter.nameRegex !== '' || filter.group !== undefined;
    const content = queues.length > 0 ? table(queues, totals, query) : filtered ? nothingFound() : nothingYet(facts);
    return { status: 200, summary: totals && totalsList(totals, queues), content };
  } catch (thrown) {
    return refusedPart(thrown, options, '/');
  }
}

function filterForm(query: URLSearchParams): Html {
  const kept = ['sort', 'order'].map((name) => {
    const value = query.get(name);
    return value === null ? undefined : html`<input type="hidden" name="${name}" value="${value}">`;
  });
  const regex = query.get('regex') ?? '';
  const group = query.get('group') ?? '';
  return html`<form method="get" action="/" role="search">
<input id="regex" name="regex" value="${regex}" placeholder="Filter by name (RE2 expression)" aria-label="Filter by name" maxlength="${limits.regexBytes}" spellcheck="false" autocomplete="off">
<input class="group" id="group" name="group" value="${group}" placeholder="Group" aria-label="Group" spellcheck="false" autocomplete="off">
${kept}<button>Filter</button>${regex || group ? html` <a href="/">Show all</a>` : undefined}
</form>`;
}

function totalsList(totals: QueueTotals, queues: readonly QueueStats[]): Html {
  const sumOf = (of: Of): string => formatRate(queues.reduce((sum, stats) => sum + of(stats), 0));
  const tiles: readonly (readonly [string, string, string?])[] = [
    ['Queues', formatCount(totals.queues)],
    ['Available', formatCount(totals.available)],
    ['Leased', formatCount(totals.leased)],
    ['Delayed', formatCount(totals.delayed)],
    ['In', sumOf((stats) => stats.enqueueRate), '/s'],
    ['Done', sumOf((stats) => stats.completeRate), '/s'],
    ['Completed', formatCount(totals.completed)],
  ];
  return html`<dl>${tiles.map(([term, figure, unit]) => {
    return html`<div><dt>${term}</dt><dd>${figure}${unit && html` <small>${unit}</small>`}</dd></div>`;
  })}</dl>`;
}

function table(queues: readonly QueueStats[], totals: QueueTotals | undefined, query: URLSearchParams): Html {
  const sorted = columns.find(({ key }) => key === query.get('sort'));
  const descending = query.get('order') !== 'ascending';
  const rows = sorted === undefined ? [...queues] : sortBy(queues, sorted, descending);
  if (sorted === undefined && query.get('order') === 'descending') rows.reverse();
  const shown = rows.slice(0, MAX_ROWS);
  const heads = columns.map((column) =>
    head(column.key, column.title, column.about, column === sorted, descending, query),
  );
  const byName = sorted === undefined;
  return html`<div class="table"><table>
<thead><tr>${head('queue', 'Queue', 'group#name', byName, query.get('order') === 'descending', query)}${heads}</tr></thead>
<tbody>${shown.map(row)}</tbody>
</table></div>
<footer>${shown.length < (totals?.queues ?? 0) ? html`<span>${formatCount(shown.length)} of ${formatCount(totals?.queues ?? 0)} queues are shown. Use the filter to see others.</span>` : undefined}
<span>Rates are averages over about a minute.</span><span><a href="/api/queues">JSON</a> · <a href="/metrics">Metrics</a></span></footer>`;
}

function sortBy(queues: readonly QueueStats[], { value }: Column, descending: boolean): QueueStats[] {
  const direction = descending ? -1 : 1;
  return [...queues].sort((a, b) => direction * (value(a) - value(b)));
}

/** A link that sorts by the column; if the page is sorted by it already, a link that reverses the order. */
function head(
  key: string,
  title: string,
  about: string,
  sorted: boolean,
  descending: boolean,
  query: URLSearchParams,
): Html {
  const link = new URLSearchParams(query);
  // The first click shows the largest figures or the first names.
  const first = key === 'queue' ? 'ascending' : 'descending';
  const present = descending ? 'descending' : 'ascending';
  link.set('sort', key);
  link.set('order', sorted ? (descending ? 'ascending' : 'descending') : first);
  const order = sorted ? html` aria-sort="${present}"` : undefined;
  return html`<th scope="col"${order}><a id="sort-${key}" href="/?${link.toString()}" title="${about}">${title}</a></th>`;
}

function row(stats: QueueStats): Html {
  const cells = columns.map(({ value, show }) => {
    return html`<td${value(stats) === 0 ? html` class="zero"` : undefined}>${show(stats)}</td>`;
  });
  const note = stats.pause
    ? pauseNote(stats.pause)
    : stats.heldBy.length > 0
      ? html`${stats.heldBy.map(limitNote)}`
      : (heldKeysNote(stats) ?? unclaimedNote(stats.kinds));
  return html`<tr>${nameCell(stats.queue, note)}${cells}</tr>
`;
}

function pauseNote({ reason, pausedBy, sinceUnixMs, untilUnixMs }: QueuePause): Html {
  const end = untilUnixMs === 0 ? '' : ` until ${new Date(untilUnixMs).toISOString()}`;
  const text = `paused by ${pausedBy} since ${new Date(sinceUnixMs).toISOString()}${end}${reason && `: ${reason}`}`;
  return noteOf(text);
}

function limitNote({
  queues,
  leased,
  maxLeased,
  rate,
  usedUpSinceUnixMs,
  keys,
  heldKeys,
  heldTasks,
}: QueueLimit): Html {
  const since = new Date(usedUpSinceUnixMs).toISOString();
  const used = keys === '' ? `${leased} of ` : '';
  const slots = maxLeased === 0 ? [] : [`${used}at most ${maxLeased} leased`];
  const tokens = rate === undefined ? [] : [`at most ${rate.tasks} in ${formatDuration(rate.perMs)}`];
  const first = heldKeys.map(({ key, available }) => `${key} (${formatCount(available)})`).join(', ');
  const held = keys === '' ? [] : [`${formatCount(heldTasks)} tasks, first ${first}`];
  const limited = keys === '' ? queues : `each ${keys} of ${queues}`;
  return noteOf(`held back since ${since} by the limit of ${limited}: ${[...slots, ...tokens, ...held].join(', ')}`);
}

/** Of a queue that has other tasks that may be leased. */
function heldKeysNote({ heldKeys, heldTasks, heldSinceUnixMs }: QueueStats): Html | undefined {
  if (heldKeys === 0) return undefined;
  const since = new Date(heldSinceUnixMs).toISOString();
  return noteOf(`limits hold back ${formatCount(heldTasks)} tasks of ${formatCount(heldKeys)} keys since ${since}`);
}

function unclaimedNote(kinds: QueueKinds | undefined): Html | undefined {
  if (kinds === undefined || kinds.unclaimed === 0) return undefined;
  const texts = kinds.most.flatMap(({ kind, available, unclaimedSinceUnixMs: since }) =>
    since === undefined ? [] : [`${available} of ${kind} since ${new Date(since).toISOString()}`],
  );
  return noteOf(`no worker asks for ${formatCount(kinds.unclaimed)} tasks: ${texts.join(', ')}`);
}

const noteOf = (text: string): Html => html`<br><small class="warn"><bdi>${escapeControls(text)}</bdi></small>`;

function nothingFound(): Html {
  return html`<div class="empty"><h2>No queue matches</h2><p>No queue passes the filter. <a href="/">Show all</a></p></div>`;
}

function nothingYet({ grpcAddress }: NodeFacts): Html {
  const endpoint = grpcAddress ?? '127.0.0.1:7400';
  return html`<div class="empty"><h2>Nothing queued yet</h2>
<p>A queue exists while it holds tasks. Enqueue one:</p>
<pre>taskmaster enqueue 'shop#mail' '{"to":"ada"}' --endpoint ${endpoint}</pre></div>`;
}
