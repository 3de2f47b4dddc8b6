import { Command, InvalidArgumentError } from 'commander';

export interface DemoOptions {
  /** Start of the crawl. Undefined: the local site of the demo. */
  readonly url: string | undefined;
  readonly maxPages: number | undefined;
  readonly workers: number;
  readonly seed: number;
  /** One node instead of a cluster. */
  readonly single: boolean;
  readonly kill: boolean;
  readonly query: readonly string[];
  readonly json: boolean;
  readonly keep: boolean;
}

const description = `Crawls and indexes a site with TaskMaster: fetch, extract and index workers, joined by queues.

Without --url it serves the documentation of the packages that are installed here, several hundred real pages with
their real links, from a server that is slow and fails now and then. The queues are on a cluster of three nodes behind a
proxy. On the way a worker and a node are killed (kill -9) and started again, a fourth node joins, and one is drained and
leaves. With --single there is one node, and it is killed. At the end it checks that every page was indexed exactly once, and answers a few searches.`;

const examples = `
Examples:
  npm run demo
  npm run demo -- --single --workers 8
  npm run demo -- --url https://docs.example.org/ --max-pages 50 --query "getting started"

Exit code: 0 when every page was indexed exactly once, 1 if not, 2 for wrong options, 130 after Ctrl-C.`;

/** Reads the command line. For `--help` or a wrong option it prints a message and ends the process. */
export function readOptions(argv: readonly string[]): DemoOptions {
  return new Command('npm run demo --')
    .description(description)
    .option('--url <url>', 'crawl this live site instead; stays on its host and obeys its robots.txt', httpUrl)
    .option(
      '--max-pages <n>',
      'local site: about this number of pages (default: all); live site: at most this number of URLs (default: 100)',
      wholeNumber,
    )
    .option('--workers <n>', 'worker processes', wholeNumber, 4)
    .option('--seed <n>', 'which pages of the local site are slow and which fail at first', wholeNumber, 1)
    .option('--single', 'one node instead of a cluster', false)
    .option('--no-kill', 'no kills, joins or drains')
    .option('--query <words...>', 'search for this at the end, instead of the built-in examples', [])
    .option('--json', 'print only a summary, as JSON', false)
    .option('--keep', 'keep the data, and print where it is', false)
    .addHelpText('after', examples)
    .showHelpAfterError('(--help lists the options)')
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
    .parse(argv, { from: 'user' })
    .opts<DemoOptions>();
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It is not a whole number from 1.');
  return Number(text);
}

function httpUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidArgumentError('It is not an http(s) URL.');
  url.hash = '';
  return url.href;
}
