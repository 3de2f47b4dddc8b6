import type { ChaosEvent } from './cluster/events.ts';
import type { Placement } from './cluster/placement.ts';
import type { Hit } from './index/search.ts';
import { count, type Paint, seconds } from './progress/draw.ts';
import type { Check } from './verify/check.ts';
import type { GivenUp } from './verify/verify.ts';

/** The result of the demo. With `--json` it is printed as it is. Times in ms. */
export interface Summary {
  readonly ok: boolean;
  readonly site: string;
  readonly workers: number;
  readonly crawlMs: number;
  readonly totalMs: number;
  readonly urlsFound: number;
  readonly pagesIndexed: number;
  readonly linksToNowhere: number;
  /** Pages in `dead`: their tasks failed too often. */
  readonly givenUp: readonly GivenUp[];
  /** Reports that the schedule asked for. */
  readonly reports: number;
  readonly tasksCompleted: number;
  readonly tasksPerSecond: number;
  readonly retries: {
    /** Number of answers 503 of the local site. Undefined for other sites. */
    readonly siteUnavailable: number | undefined;
    /** Attempts that were not the first of their task. */
    readonly attemptsRepeated: number;
    /** Calls that clients repeated, usually while a node was down. */
    readonly callsRepeated: number;
    readonly leasesLost: number;
    /** Entries that were written to the index but not committed. */
    readonly entriesUncommitted: number;
  };
  /** Kills, joins and drains. */
  readonly events: readonly ChaosEvent[];
  /** Where the partitions were at the end. Undefined with one node. */
  readonly cluster: Placement | undefined;
  readonly checks: readonly Check[];
  readonly index: { readonly words: number };
  readonly searches: readonly { readonly query: string; readonly hits: readonly Hit[] }[];
  /** Directory of the data, if it was kept. */
  readonly dataDir: string | undefined;
}

const GIVEN_UP_ROWS = 5;

/** The summary as text. */
export function reportLines(summary: Summary, paint: Paint): string[] {
  return [
    ...title('The crawl', paint),
    ...table([
      [
        'pages indexed',
        count(summary.pagesIndexed),
        `${perSecond(summary.pagesIndexed, summary.crawlMs)} per second, in ${seconds(summary.crawlMs)}`,
      ],
      [
        'tasks completed',
        count(summary.tasksCompleted),
        `${count(Math.round(summary.tasksPerSecond))} per second; worker processes: ${summary.workers}`,
      ],
      ['URLs found', count(summary.urlsFound), `each once; ${count(summary.linksToNowhere)} lead to no page`],
      ...siteRows(summary),
      ...givenUpRows(summary),
      [
        'attempts repeated',
        count(summary.retries.attemptsRepeated),
        `${count(summary.retries.leasesLost)} leases lost, ${count(summary.retries.entriesUncommitted)} index entries written in vain`,
      ],
      ['calls repeated', count(summary.retries.callsRepeated), 'by the clients, each applied once'],
      ['reports written', count(summary.reports), 'by a schedule, one every 2 s, whichever node had it just then'],
    ]),
    ...summary.events.flatMap((event) => [...title(eventTitle(event), paint), ...table(eventRows(event))]),
    ...placementLines(summary.cluster, paint),
    ...title('Is every page in the index exactly once?', paint),
    ...summary.checks.flatMap((check) => checkLines(check, paint)),
    ...title(`Searches in ${count(summary.pagesIndexed)} pages and ${count(summary.index.words)} words`, paint),
    ...summary.searches.flatMap(({ query, hits }) => searchLines(query, hits, summary.site, paint)),
    '',
    summary.ok
      ? paint(
          ['bold', 'green'],
          `${count(summary.pagesIndexed)} pages, each indexed exactly once. Took ${seconds(summary.totalMs)} in all.`,
        )
      : paint(['bold', 'red'], 'Something is missing or double: see above.'),
    ...(summary.dataDir === undefined ? [] : [`The data is in ${summary.dataDir}`]),
  ];
}

function siteRows({ retries: { siteUnavailable } }: Summary): [string, string, string][] {
  if (siteUnavailable === undefined) return [];
  return [['site unavailable', count(siteUnavailable), 'times; the pages were fetched later, after a backoff']];
}

function givenUpRows({ givenUp, site }: Summary): [string, string, string][] {
  return givenUp.slice(0, GIVEN_UP_ROWS).map(({ url, attempts, error }, at): [string, string, string] => {
    const why = `${pathOf(url, site)} after ${attempts} attempts: ${error.split(`${url}: `).at(-1)}`;
    return at === 0 ? ['pages given up', count(givenUp.length), why] : ['', '', why];
  });
}

function title(text: string, paint: Paint): string[] {
  return ['', paint('bold', text)];
}

function table(rows: readonly (readonly [string, string, string])[]): string[] {
  return rows.map(([what, value, note]) => `  ${what.padEnd(18)}${value.padStart(8)}  ${note}`);
}

function eventTitle(event: ChaosEvent): string {
  switch (event.kind) {
    case 'worker-killed':
    case 'node-killed':
      return `kill -9 of ${event.name}`;
    case 'node-joined':
      return `${event.name} joined`;
    case 'node-drained':
      return `${event.name} was drained and left`;
    default:
      return event satisfies never;
  }
}

function eventRows(event: ChaosEvent): [string, string, string][] {
  switch (event.kind) {
    case 'worker-killed':
      return [
        ['tasks held', count(event.tasksHeld), 'leased to it when it died, lost to nobody'],
        [
          'recovered after',
          seconds(event.recoveredMs),
          'when its leases had ended and its tasks were there for others',
        ],
      ];
    case 'node-killed':
      return [
        [
          'served again',
          seconds(event.readyMs),
          `after its death, with ${held(event.tasksRecovered, event.partitionsHeld)}`,
        ],
        [
          'recovered after',
          seconds(event.workingMs),
          'when every queue answered again and workers had completed the next task',
        ],
      ];
    case 'node-joined':
      return [
        ['started in', seconds(event.readyMs), 'until it was a member, and held nothing'],
        [
          'had its share in',
          seconds(event.balancedMs),
          `${held(event.tasksHeld, event.partitionsHeld)}; moved in all: ${event.partitionsMoved}`,
        ],
      ];
    case 'node-drained':
      return [
        [
          'had left in',
          seconds(event.drainedMs),
          `handed over ${held(event.tasksHeld, event.partitionsHeld)}; moved in all: ${event.partitionsMoved}`,
        ],
      ];
    default:
      return event satisfies never;
  }
}

/** Number of tasks in all queues, completed ones included. */
function held(tasks: number, partitions: number | undefined): string {
  const all = `the ${count(tasks)} tasks in its queues`;
  return partitions === undefined ? all : `${count(partitions)} partitions and ${all}`;
}

function placementLines(cluster: Placement | undefined, paint: Paint): string[] {
  if (cluster === undefined) return [];
  return [
    ...title(`${cluster.partitions} partitions, in the end`, paint),
    ...table(cluster.nodes.map(({ name, state, partitionsHeld }) => [name, count(partitionsHeld), state])),
  ];
}

function checkLines({ what, ok, against }: Check, paint: Paint): string[] {
  const mark = ok ? paint('green', '✓') : paint('red', '✗');
  return [`  ${mark} ${what}`, ...against.map((example) => `      ${paint('red', example)}`)];
}

function searchLines(query: string, hits: readonly Hit[], site: string, paint: Paint): string[] {
  const found = hits.map(({ url, title: name }, at) => {
    const path = pathOf(url, site);
    return `    ${at + 1}. ${name.slice(0, 60)}${path.endsWith(name) ? '' : paint('dim', `  ${path}`)}`;
  });
  return [`  ${paint('cyan', query)}`, ...(found.length > 0 ? found : ['    nothing'])];
}

/** A URL of the site without its origin. */
function pathOf(url: string, site: string): string {
  const { origin } = new URL(site);
  return decodeURI(url.startsWith(origin) ? url.slice(origin.length) : url);
}

function perSecond(number: number, ms: number): string {
  return (number / (ms / 1000)).toFixed(0);
}
