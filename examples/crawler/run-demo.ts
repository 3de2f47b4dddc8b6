import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, pidText, type TaskMasterClient } from '@taskmaster/client';
import { addPages } from './add-pages.ts';
import { placementOf, whenSettled } from './cluster/placement.ts';
import { Servers } from './cluster/servers.ts';
import { WorkerPool } from './cluster/worker-pool.ts';
import { watchCrawl } from './crawl.ts';
import { readIndex } from './index/read-index.ts';
import { SearchIndex } from './index/search.ts';
import type { DemoOptions } from './options.ts';
import { count } from './progress/draw.ts';
import { Observer } from './progress/observe.ts';
import type { Screen } from './progress/screen.ts';
import { CLUSTER_SHARDS, CrawlQueues } from './queues.ts';
import type { Summary } from './report.ts';
import { checkReports, scheduleReports } from './reports.ts';
import { readCorpus } from './site/corpus.ts';
import { SiteServer } from './site/site-server.ts';
import { audit } from './verify/audit.ts';
import { type GivenUp, verify, verifyPlacement } from './verify/verify.ts';
import type { WorkerAssignment } from './worker-messages.ts';

/** URLs of a live site that are asked for without `--max-pages`. */
const LIVE_PAGES = 100;
/** Least time between two requests to a live site by one of its two fetching workers, in ms. */
const LIVE_PAUSE_MS = 500;
const LIVE_FETCHERS = 2;
const LATENCY_MS = [30, 400] as const;
const HITS = 3;

const localQueries = ['stream backpressure', 'validate a schema', 'grpc deadline exceeded', 'range delete iterator'];

/** Where the crawl goes. */
interface Target {
  readonly start: string;
  /** The server of the local site. */
  readonly site: SiteServer | undefined;
  /** How many pages there are, as far as that is known; when to kill depends on it. */
  readonly pages: number;
}

/** Runs the demo from nothing to its summary, and leaves nothing behind, however it ends. */
export async function runDemo(options: DemoOptions, screen: Screen, signal: AbortSignal): Promise<Summary> {
  const startedAt = performance.now();
  await using cleanUp = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'taskmaster-demo-'));
  if (!options.keep) cleanUp.defer(() => rm(dir, { recursive: true, force: true }));
  const segments = join(dir, 'segments');
  await mkdir(segments);

  const target = await openTarget(options, screen, cleanUp);
  signal.throwIfAborted();
  const broken = new AbortController();
  const ended = AbortSignal.any([signal, broken.signal]);
  const fail = (error: Error): void => broken.abort(error);
  const form = options.single ? 'one' : 'cluster';
  const servers = cleanUp.use(new Servers({ form, dir, say: (line) => screen.say(line), onFailure: fail }));
  await servers.start(ended);
  // A killed node may take a while on a busy machine. Calls to its queues wait until it is back.
  const client = cleanUp.use(await connect({ endpoints: servers.endpoints, timeout: '1m' }, { signal: ended }));
  if (servers.isCluster) await whenSettled(client, servers.nodes.length, ended);
  for (const { name, endpoint, pid, http } of servers.nodes) {
    screen.say(`${name} serves at ${endpoint} (process ${pid}); the queues are at http://${http}/`);
  }
  const { proxy } = servers;
  if (proxy !== undefined) screen.say(`${proxy.name} serves at ${proxy.endpoint} (process ${proxy.pid})`);

  const live = target.site === undefined;
  const shards = live || options.single ? 1 : CLUSTER_SHARDS;
  const queues = new CrawlQueues(client, shards);
  const context = { client, queues, bounded: live, known: new Set<string>() };
  if (live)
    await queues.first.permits.enqueueMany(
      Array.from({ length: target.pages }, () => ({ data: null })),
      { signal: ended },
    );
  await addPages(context, { links: [target.start], foundOn: null, depth: 0 });

  const pool = cleanUp.use(
    new WorkerPool({
      size: options.workers,
      assignment: (name, number): WorkerAssignment => ({
        name,
        endpoints: servers.endpoints,
        shards,
        segments,
        concurrency: { fetch: live ? (number <= LIVE_FETCHERS ? 1 : 0) : 4, extract: 4, index: 4 },
        pauseMs: live ? LIVE_PAUSE_MS : 0,
        bounded: live,
      }),
      onError: (name, message) => screen.say(screen.paint('red', `${name}: ${message}`)),
      onBroken: fail,
    }),
  );
  const expected = live ? undefined : target.pages;
  const now = (): number => performance.now();
  const observer = new Observer({
    client,
    queues,
    servers: (lookSignal) => servers.look(client, lookSignal),
    workers: () => pool.workers,
    expected,
    now,
  });
  await scheduleReports(client, queues.first);
  screen.say(`${options.workers} worker processes crawl ${target.start}\n`);
  pool.start();
  const { status, events } = await watchCrawl({
    context: { client, servers, pool, queues, observer, say: (line) => screen.say(line), signal: ended },
    screen,
    pages: options.kill ? target.pages : undefined,
  });
  screen.release();
  const say = (line: string): void => screen.say(line);
  say(`\nDone. ${live ? 'Reading the index' : 'A worker crawls the site once more, the plain way, to compare'} ...`);
  target.site?.calmDown();
  const again = { start: target.start, file: join(dir, 'reference.json') };
  const reference = live ? undefined : await audit(queues.first.audits, again, say, ended);
  const reports = await checkReports(client, queues.first, ended);
  await pool.stop();
  const givenUp = await deadLettersOf(client, queues);
  const index = await readIndex(segments, queues);
  const cluster = servers.isCluster ? await placementOf(client, ended) : undefined;
  const checks = [
    ...verify(index, status, givenUp, reference),
    reports.check,
    ...(cluster === undefined ? [] : verifyPlacement(cluster)),
  ];
  const search = new SearchIndex();
  for (const page of index.pages.values()) search.add(page);
  const tasksCompleted = status.stages.reduce((sum, { completed }) => sum + completed, 0);
  const counts = pool.counts;
  return {
    ok: checks.every(({ ok }) => ok),
    site: target.start,
    workers: options.workers,
    crawlMs: status.elapsedMs,
    totalMs: performance.now() - startedAt,
    urlsFound: status.found,
    pagesIndexed: index.pages.size,
    linksToNowhere: status.skipped,
    givenUp,
    reports: reports.written,
    tasksCompleted,
    tasksPerSecond: tasksCompleted / (status.elapsedMs / 1000),
    retries: {
      siteUnavailable: target.site?.unavailableAnswers,
      attemptsRepeated: counts.retried,
      callsRepeated: counts.callsRepeated,
      leasesLost: counts.leasesLost,
      entriesUncommitted: index.uncommitted,
    },
    events,
    cluster,
    checks,
    index: { words: search.words },
    searches: queriesOf(options, search, target).map((query) => ({ query, hits: search.search(query, HITS) })),
    dataDir: options.keep ? dir : undefined,
  };
}

async function openTarget(options: DemoOptions, screen: Screen, cleanUp: AsyncDisposableStack): Promise<Target> {
  const { url, seed, maxPages } = options;
  if (url !== undefined) return { start: url, site: undefined, pages: maxPages ?? LIVE_PAGES };
  const corpus = await readCorpus(maxPages ?? Number.POSITIVE_INFINITY);
  const site = cleanUp.use(await SiteServer.start(corpus, { seed, latencyMs: LATENCY_MS }));
  screen.say(`The documentation of the installed packages, ${count(corpus.size)} pages, is served at ${site.url}`);
  return { start: site.url, site, pages: corpus.size };
}

/** The pages that were given up, with their last errors. */
async function deadLettersOf(client: TaskMasterClient, { shards }: CrawlQueues): Promise<GivenUp[]> {
  const found: GivenUp[] = [];
  for (const { dead } of shards) {
    for await (const { pid, attempts, failures } of client.deadLetters(dead).list()) {
      found.push({ url: pidText(pid), attempts, error: failures.at(-1)?.error?.message ?? 'its lease expired' });
    }
  }
  return found;
}

/** Without `--query`, a live site is searched for what its start page is called. */
function queriesOf({ query }: DemoOptions, search: SearchIndex, { site, start }: Target): readonly string[] {
  if (query.length > 0) return query;
  return site === undefined ? [search.titleOf(start) ?? 'documentation'] : localQueries;
}
