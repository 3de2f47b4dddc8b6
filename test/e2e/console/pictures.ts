/**
 * Takes the pictures of the console that the documents show, and every page in two widths, light and dark:
 *
 *     node test/e2e/console/pictures.ts DIRECTORY [MINUTES]
 *
 * Three nodes serve, workers work, and some things go wrong. A node serves the light pages, and a proxy the dark ones. MINUTES:
 * how long until the pictures are taken, so that charts have something to show; default 5.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { TestCluster } from '../../support/processes/start-cluster.ts';
import { startProxy } from '../../support/processes/start-proxy.ts';
import { launch, openConsole } from './browser.ts';

const [directory, minutes = '5'] = process.argv.slice(2);
if (directory === undefined) throw new TypeError('usage: node test/e2e/console/pictures.ts DIRECTORY [MINUTES]');
await mkdir(directory, { recursive: true });

await using cluster = await TestCluster.start({ nodes: 3 });
await using proxy = await startProxy(cluster.endpoints, ['--name=front']);
await using client = await connect(cluster.endpoints);
await using europe = await connect({ endpoints: cluster.endpoints, workerLabel: 'crawler-eu-1' });
await using america = await connect({ endpoints: cluster.endpoints, workerLabel: 'crawler-us-2' });
await using browser = await launch();

for (const [name, count] of Object.entries({
  'billing#invoices': 37,
  'media#transcode': 9,
  'orders#ship': 3,
  'search#reindex': 1_200,
})) {
  await client
    .queue(name)
    .enqueueMany(Array.from({ length: count }, (_, at) => ({ pid: `${name}-${1_000 + at}`, data: { number: at } })));
}
await letterToNobody(client);
await client.schedules.put('reports#nightly', { queue: 'reports#daily', data: { digest: true }, cron: '0 3 * * *' });
await client.schedules.put('crawl#refresh', {
  queue: 'crawl#sitemaps',
  data: { url: 'https://example.org/sitemap.xml' },
  every: '30s',
});
await client.topic('orders#placed').subscribe('orders#ship');
await client.topic('orders#placed').subscribe('orders#thank');
await client
  .flow()
  .add('cut', client.queue('film#cuts'), { reel: 1 }, { pid: 'cut-1' })
  .add('film', client.queue('film#films'), { title: 'Metropolis' }, { pid: 'film-1', after: 'cut' })
  .commit();

const ending = new AbortController();
const crawl = client.queue<{ readonly url: string }>('crawl#fetch');
const fetching = [europe, america].map((each) =>
  each.worker(
    each.queue<{ readonly url: string }>('crawl#fetch'),
    async (task) => {
      for (const share of [25, 50, 75]) {
        await sleep(400, undefined, { signal: task.signal });
        await task.reportProgress(`${share} %`);
      }
      if (task.attempt === 1 && Number(task.data.url.split('/').at(-1)) % 40 === 0) throw new Error('connection reset');
    },
    { concurrency: 6 },
  ),
);
await using workers = new AsyncDisposableStack();
for (const worker of fetching) {
  worker.start();
  workers.use(worker);
}
const producing = produce();

const served = { light: `127.0.0.1:${cluster.node('a').httpPort}`, dark: proxy.http };
// The history of a queue begins when somebody looks at it.
await openConsole(browser, served.light, { hash: '#/queue/crawl%23fetch' });
await sleep(Number(minutes) * 60_000);
const [head] = await client.queue('mail.dead').peek({ limit: 1 });
const pages: Readonly<Record<string, string>> = {
  overview: '#/overview',
  queues: '#/queues',
  queue: '#/queue/crawl%23fetch?tab=leased',
  delayed: '#/queue/crawl%23fetch?tab=delayed',
  settings: '#/queue/crawl%23fetch?tab=settings',
  dead: '#/queue/mail?tab=dead',
  task: `#/task/mail.dead/${encodeURIComponent(head?.id ?? '')}`,
  workers: '#/workers',
  schedules: '#/schedules',
  topics: '#/topics',
  flow: '#/flow?queue=film%23cuts&pid=cut-1',
  cluster: '#/cluster',
};
for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1400, 390]) {
    const viewport = { width, height: width === 390 ? 844 : 900 };
    const { page, go } = await openConsole(browser, served[colorScheme], { colorScheme, viewport });
    for (const [name, hash] of Object.entries(pages)) {
      await go(hash);
      // Rates of workers and charts come with the second look.
      await sleep(4_000);
      await page.screenshot({ path: join(directory, `${name}-${width}-${colorScheme}.png`), fullPage: width === 390 });
    }
    if (width === 1400) {
      await go('#/queue/mail?tab=dead');
      await page.getByRole('button', { name: 'Retry…' }).first().click();
      await sleep(1_000);
      await page.screenshot({ path: join(directory, `retry-${width}-${colorScheme}.png`) });
    }
    await page.context().close();
  }
}
ending.abort();
await producing;

/** More and fewer tasks in turn, so that the backlog rises and falls. */
async function produce(): Promise<void> {
  for (let second = 0; !ending.signal.aborted; second += 1) {
    const many = Math.round(7 + 5 * Math.sin(second / 15));
    await crawl.enqueueMany(
      Array.from({ length: many }, (_, at) => ({
        data: { url: `https://example.org/${second * 20 + at}` },
        ...(at === 0 && { delay: '20s' }),
      })),
    );
    await sleep(1_000);
  }
}

/** Tasks that fail for good, for two reasons. */
async function letterToNobody(to: TaskMasterClient): Promise<void> {
  const mail = to.queue('mail');
  await mail.enqueueMany(
    Array.from({ length: 43 }, (_, at) => ({
      pid: `letter-${1_000 + at}`,
      data: { to: `customer-${at}@example.org`, template: 'welcome' },
      headers: { tenant: at % 2 === 0 ? 'north' : 'south' },
    })),
  );
  for (const [at, task] of (await mail.lease({ max: 31 })).entries()) {
    await task.deadLetter(new Error(at % 3 === 0 ? 'refused: 550 relaying denied' : `no mailbox ${at}`));
  }
}
