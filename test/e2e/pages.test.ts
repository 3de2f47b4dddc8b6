import { existsSync } from 'node:fs';
import { connect } from '@taskmaster/client';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/google-chrome'];
const browserPath = BROWSERS.find((path) => existsSync(path));
const reason = browserPath ? '' : ' (skipped: no Chromium on this machine)';

describe.skipIf(browserPath === undefined)(`the pages of queues and schedules in a browser${reason}`, () => {
  let node: RunningNode;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];

  beforeAll(async () => {
    node = await startNode();
    browser = await chromium.launch({
      executablePath: browserPath ?? '',
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
    });
    page = await browser.newPage();
    page.on('pageerror', ({ message }) => complaints.push(message));
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await node?.[Symbol.asyncDispose]();
  });

  test('shows queues, refreshes itself, and shows names as text', { timeout: 60_000 }, async () => {
    const hostile = '<img src=x onerror=document.title="taken">';
    await using client = await connect(node.endpoint);
    await client.queue('crawl#fetch').enqueueMany([{ data: 1 }, { data: 2 }]);
    await client.queue(hostile).enqueue('x');

    await page.goto(`http://127.0.0.1:${node.httpPort}/`);
    await page.getByRole('row', { name: /crawl#fetch/ }).waitFor();
    expect(await page.getByText(hostile).count()).toBe(1);
    await page.evaluate('window.notReloaded = true');

    await client.queue('mail').enqueue('later');
    await page.getByRole('row', { name: /mail/ }).waitFor();
    expect(await page.evaluate('window.notReloaded')).toBe(true);
    expect(await page.title()).not.toBe('taken');
    expect(complaints).toEqual([]);
  });

  test('links a page of schedules, which refreshes itself', { timeout: 60_000 }, async () => {
    await using client = await connect(node.endpoint);
    await client.schedules.put('crawl#nightly', { queue: 'crawl#fetch', data: 1, cron: '0 3 * * *' });
    await page.goto(`http://127.0.0.1:${node.httpPort}/`);
    await page.getByRole('link', { name: 'Schedules' }).click();
    await page.getByRole('row', { name: /crawl#nightly.*0 3 \* \* \*/ }).waitFor();
    await page.evaluate('window.notReloaded = true');
    await client.schedules.pause('crawl#nightly');
    await page.getByRole('row', { name: /crawl#nightly.*paused/ }).waitFor();
    expect(await page.evaluate('window.notReloaded')).toBe(true);
    expect(complaints).toEqual([]);
  });

  test('shows a flow, with hostile names as text, and follows it', { timeout: 60_000 }, async () => {
    const hostile = '<img src=x onerror=document.title="taken">';
    await using client = await connect(node.endpoint);
    const [cuts, films] = [client.queue('film#cuts'), client.queue(`film#${hostile}`)];
    await client
      .flow()
      .add('cut', cuts, 1, { pid: 'cut' })
      .add('sound', cuts, 1, { pid: 'sound', onFailure: 'continue' })
      .add('film', films, 1, { pid: hostile, after: ['cut', 'sound'], collect: true })
      .add('shown', 'film#shown', 1, { pid: 'shown', after: 'film', signals: 1 })
      .commit();
    await page.goto(`http://127.0.0.1:${node.httpPort}/`);
    await page.getByRole('link', { name: 'Flows' }).click();
    await page.getByLabel('Queue').fill('film#cuts');
    await page.getByLabel('PID').fill('cut');
    await page.getByRole('button').click();
    await page.getByRole('row', { name: /film#shown.*shown.*waiting.*2 signals.*fails/ }).waitFor();
    await page.getByRole('link', { name: hostile }).click();
    await (await cuts.lease())[0]?.complete();
    await page.getByRole('row', { name: /film#cuts.*cut.*completed/ }).waitFor();
    const shots = process.env.TASKMASTER_SHOTS;
    if (shots !== undefined) await page.screenshot({ path: `${shots}/flow.png` });
    expect(await page.title()).toBe('Flows · TaskMaster');
    expect(complaints).toEqual([]);
  });
});
