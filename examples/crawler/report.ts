import type { Kill } from './cluster/chaos.ts';
import type { Hit } from './index/search.ts';
import { count, type Paint, seconds } from './progress/draw.ts';
import type { Check } from './verify/verify.ts';

/** What the demo prints at the end; with `--json`, all it prints. Times in ms. */
export interface Summary {
  readonly ok: boolean;
  readonly site: string;
  readonly workers: number;
  readonly crawlMs: number;
  readonly totalMs: number;
  readonly urlsFound: number;
  readonly pagesIndexed: number;
  readonly linksToNowhere: number;
  /** URLs whose tasks failed too often. */
  readonly givenUp: number;
  readonly tasksCompleted: number;
  readonly tasksPerSecond: number;
  readonly retries: {
    /** Times the local site answered 503; of a live one that is not known. */
    readonly siteUnavailable: number | undefined;
    /** Attempts at tasks that had been attempted before. */
    readonly attemptsRepeated: number;
    /** Calls to the node that clients repeated, most of them while it was down. */
    readonly callsRepeated: number;
    readonly leasesLost: number;
    /** Entries that were written to the index but never committed. */
    readonly entriesUncommitted: number;
  };
  readonly kills: readonly Kill[];
  readonly checks: readonly Check[];
  readonly index: { readonly words: number };
  readonly searches: readonly { readonly query: string; readonly hits: readonly Hit[] }[];
  /** Where the data is, if it was kept. */
  readonly dataDir: string | undefined;
}

/** The summary for a reader. */
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
      [
        'URLs found',
        count(summary.urlsFound),
        `each once; ${count(summary.linksToNowhere)} lead to no page${givenUp(summary)}`,
      ],
      ...siteRows(summary),
      [
        'attempts repeated',
        count(summary.retries.attemptsRepeated),
        `${count(summary.retries.leasesLost)} leases lost, ${count(summary.retries.entriesUncommitted)} index entries written in vain`,
      ],
      ['calls repeated', count(summary.retries.callsRepeated), 'by the clients, each applied once'],
    ]),
    ...summary.kills.flatMap((kill) => [...title(killTitle(kill), paint), ...table(killRows(kill))]),
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

function givenUp({ givenUp: number }: Summary): string {
  return number === 0 ? '' : `, ${count(number)} were given up`;
}

function title(text: string, paint: Paint): string[] {
  return ['', paint('bold', text)];
}

function table(rows: readonly (readonly [string, string, string])[]): string[] {
  return rows.map(([what, value, note]) => `  ${what.padEnd(18)}${value.padStart(8)}  ${note}`);
}

function killTitle(kill: Kill): string {
  return kill.kind === 'worker' ? `kill -9 of ${kill.name}` : 'kill -9 of the node';
}

function killRows(kill: Kill): [string, string, string][] {
  if (kill.kind === 'worker') {
    return [
      ['tasks held', count(kill.tasksHeld), 'leased to it when it died, lost to nobody'],
      ['recovered after', seconds(kill.recoveredMs), 'when its leases had ended and its tasks were there for others'],
    ];
  }
  return [
    [
      'served again',
      seconds(kill.readyMs),
      `after its death, with the ${count(kill.tasksRecovered)} tasks that were left to do`,
    ],
    ['recovered after', seconds(kill.workingMs), 'when workers had found it again and completed the next task'],
  ];
}

function checkLines({ what, ok, against }: Check, paint: Paint): string[] {
  const mark = ok ? paint('green', '✓') : paint('red', '✗');
  return [`  ${mark} ${what}`, ...against.map((example) => `      ${paint('red', example)}`)];
}

function searchLines(query: string, hits: readonly Hit[], site: string, paint: Paint): string[] {
  const origin = new URL(site).origin;
  const found = hits.map(({ url, title: name }, at) => {
    const path = decodeURI(url.startsWith(origin) ? url.slice(origin.length) : url);
    return `    ${at + 1}. ${name.slice(0, 60)}${path.endsWith(name) ? '' : paint('dim', `  ${path}`)}`;
  });
  return [`  ${paint('cyan', query)}`, ...(found.length > 0 ? found : ['    nothing'])];
}

function perSecond(number: number, ms: number): string {
  return (number / (ms / 1000)).toFixed(0);
}
