import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { expect, test } from 'vitest';
import { openNodeUser } from '../cli/shell.ts';

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/google-chrome'];
const browserPath = BROWSERS.find((path) => existsSync(path));
const reason = browserPath ? '' : ' (skipped: no Chromium on this machine)';

test.skipIf(browserPath === undefined)(
  `the page of a load draws its charts in a browser${reason}`,
  { timeout: 60_000 },
  async () => {
    await using user = await openNodeUser();
    const { code, stderr } = await user.shell.run('taskmaster load -d 2s --rate 200 --verify --html load.html');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    await using browser = await chromium.launch({
      executablePath: browserPath ?? '',
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
    });
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on('pageerror', ({ message }) => complaints.push(message));
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
    });
    await page.goto(`file://${join(user.shell.dir, 'load.html')}`);
    await page.getByText('contract kept').waitFor();
    for (const title of ['Rates', 'Latencies', 'Open tasks', 'Distribution of latencies']) {
      expect(await page.getByRole('heading', { name: title, exact: true }).count()).toBe(1);
    }
    expect(await page.locator('canvas').count()).toBe(4);
    await page.getByRole('button', { name: 'enqueue' }).click();
    expect(await page.locator('canvas').count()).toBe(4);
    expect(complaints).toEqual([]);
  },
);
