import { createHash } from 'node:crypto';
import { limits, parseQueueName, type QueueStats, type QueueTotals, type Error as WireError } from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import {
  explainHealth,
  filterOf,
  httpStatus,
  type NodeHealth,
  type QueueReads,
  type Reply,
} from '@taskmaster/server/http';
import { formatCount, formatDuration, formatRate } from './format.ts';
import { type Html, html, trusted, visible } from './html.ts';
import { pageScript } from './page-script.ts';
import { pageStyle } from './page-style.ts';

export interface NodeFacts {
  readonly version: string;
  /** `host:port`; undefined until gRPC listens. */
  readonly grpcAddress: string | undefined;
  readonly uptimeMs: number;
}

export interface QueuesPageOptions {
  readonly reads: QueueReads;
  readonly access: CallerAccess;
  readonly query: URLSearchParams;
  readonly health: NodeHealth;
  readonly facts: NodeFacts;
  readonly toWireError: (thrown: unknown) => WireError;
}

const MAX_ROWS = 500;
/** Longer groups and names are cut; a tooltip shows the full name. */
const NAME_CHARACTERS = 96;

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
  count('delayed', 'Delayed', 'Tasks hidden by a delay or a backoff', (stats) => stats.delayed),
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

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Allows only the page's own style and script, and requests to this server. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src ${hashOf(pageStyle)}`,
  `script-src ${hashOf(pageScript)}`,
  'img-src data:',
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** `GET /`: a table of the queues, for people. An invalid filter is explained on the page. */
export async function queuesPage(options: QueuesPageOptions): Promise<Reply> {
  const { query } = options;
  const { status, summary, queues } = await read(options);
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Queues · TaskMaster</title>
<link rel="icon" href="data:,">
<noscript><meta http-equiv="refresh" content="5"></noscript>
<style>${trusted(pageStyle)}</style>
</head>
<body>
<p class="note bad" id="lost" role="alert">The node does not answer. These figures are its last ones.</p>
<div id="summary" data-live>${header(options)}${summary}</div>
${filterForm(query)}
<main id="queues" data-live>${queues}</main>
<script>${trusted(pageScript)}</script>
</body>
</html>
`;
  return {
    status,
    type: 'text/html; charset=utf-8',
    body: page.text,
    headers: { 'content-security-policy': CONTENT_SECURITY_POLICY },
  };
}

interface Live {
  readonly status: number;
  readonly summary: Html | undefined;
  readonly queues: Html;
}

async function read({ reads, access, query, facts, toWireError }: QueuesPageOptions): Promise<Live> {
  const filter = { ...filterOf(query), group: query.get('group') || undefined };
  try {
    const { queues, totals } = await reads.getQueueStats({ queues: [], filter }, access);
    const filtered = filter.nameRegex !== '' || filter.group !== undefined;
    const content = queues.length > 0 ? table(queues, totals, query) : filtered ? nothingFound() : nothingYet(facts);
    return { status: 200, summary: totals && totalsList(totals, queues), queues: content };
  } catch (thrown) {
    const error = toWireError(thrown);
    const note = html`<p class="note bad" role="alert">${error.message} <small>(${error.reason})</small></p>`;
    return { status: httpStatus(error), summary: undefined, queues: note };
  }
}

const looks: Readonly<Record<NodeHealth['kind'], string>> = {
  starting: 'warn',
  joining: 'warn',
  waiting: 'warn',
  serving: 'good',
  full: 'warn',
  failed: 'bad',
  stopping: 'warn',
};

function header({ health, facts }: QueuesPageOptions): Html {
  const look = looks[health.kind];
  const note = html`<p class="note ${look}" role="status">${sentence(explainHealth(health))}</p>`;
  return html`<header>
<h1>TaskMaster</h1>
<span class="state ${look}" title="${sentence(explainHealth(health))}">${health.kind}</span>
<span class="facts"><span>${facts.grpcAddress ?? 'not listening yet'}</span><span>up ${formatDuration(facts.uptimeMs)}</span><span>version ${facts.version}</span></span>
</header>${look === 'good' ? undefined : note}`;
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
  const { group, name } = parseQueueName(stats.queue);
  const prefix = group === '' ? undefined : html`<span class="group">${shortened(visible(group))}#</span>`;
  const cells = columns.map(({ value, show }) => {
    return html`<td${value(stats) === 0 ? html` class="zero"` : undefined}>${show(stats)}</td>`;
  });
  const title = stats.queue.length > NAME_CHARACTERS ? html` title="${visible(stats.queue)}"` : undefined;
  return html`<tr><td${title}><bdi>${prefix}${shortened(visible(name))}</bdi></td>${cells}</tr>
`;
}

function shortened(text: string): string {
  return text.length > NAME_CHARACTERS ? `${text.slice(0, NAME_CHARACTERS)}…`.toWellFormed() : text;
}

function nothingFound(): Html {
  return html`<div class="empty"><h2>No queue matches</h2><p>No queue passes the filter. <a href="/">Show all</a></p></div>`;
}

function nothingYet({ grpcAddress }: NodeFacts): Html {
  const endpoint = grpcAddress ?? '127.0.0.1:7400';
  return html`<div class="empty"><h2>Nothing queued yet</h2>
<p>A queue exists while it holds tasks. Enqueue one:</p>
<pre>taskmaster enqueue 'shop#mail' '{"to":"ada"}' --endpoint ${endpoint}</pre></div>`;
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
