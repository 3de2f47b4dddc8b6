import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { hashOfToken } from '@taskmaster/proto';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningNode, startNode } from '../../support/processes/start-node.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { browserPath, launch, openConsole, reason } from './browser.ts';

const OWNER = 'tm_owner';
const READER = 'tm_reader';
/** Enough that only a part is drawn and listed at a time. The figures of 100,000 are in docs/operate/console.md. */
const QUEUES = Number(process.env.TASKMASTER_CONSOLE_QUEUES ?? 12_000);
const AT_ONCE = 3_000;

describe.skipIf(browserPath === undefined)(`the console with rules of access${reason}`, () => {
  const opened = new AsyncDisposableStack();
  let node: RunningNode;
  let browser: Browser;
  let accessFile: string;

  const allow = (rights: readonly string[]): void => {
    const principals = [
      {
        name: 'owner',
        tokens: [hashOfToken(OWNER)],
        rights: [
          { groups: ['*'], allow: ['enqueue', 'lease', 'read', 'manage-queues'] },
          { allow: ['manage-cluster'] },
        ],
      },
      ...(rights.length === 0
        ? []
        : [{ name: 'reader', tokens: [hashOfToken(READER)], rights: [{ groups: ['*'], allow: rights }] }]),
    ];
    writeFileSync(accessFile, JSON.stringify({ principals }), { mode: 0o600 });
  };

  beforeAll(async () => {
    const directory = opened.use(await temporaryDirectory());
    accessFile = join(directory.path, 'access.yaml');
    allow(['read']);
    node = opened.use(await startNode({ flags: [`--access-file=${accessFile}`] }));
    browser = await launch();
    opened.defer(() => browser.close());
    await using client = await connect({ endpoints: node.endpoint, token: OWNER });
    for (let at = 0; at < QUEUES; at += AT_ONCE) {
      const names = Array.from(
        { length: Math.min(AT_ONCE, QUEUES - at) },
        (_, nth) => `g${nth % 16}#queue-${at + nth}`,
      );
      await Promise.all(names.map((name) => client.queue(name).enqueue(1)));
    }
    await client.queue('mail').enqueueMany([{ data: 1 }, { data: 2 }]);
  }, 120_000);
  afterAll(() => opened.disposeAsync());

  const logIn = async (page: Page, token: string): Promise<void> => {
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
  };

  test('a token lets in, stays out of addresses, and is gone after logging out', async () => {
    const { page } = await openConsole(browser, `127.0.0.1:${node.httpPort}`, { hash: '#/queues' });
    const addresses: string[] = [];
    page.on('request', (request) => addresses.push(request.url()));
    await logIn(page, 'tm_wrong');
    await page.getByRole('alert').filter({ hasText: 'not valid' }).waitFor();
    await logIn(page, OWNER);
    await page.getByRole('heading', { name: 'Queues' }).waitFor();
    expect(page.url()).not.toContain(OWNER);
    expect(addresses.filter((address) => address.includes(OWNER))).toEqual([]);
    await page.reload();
    await page.getByRole('heading', { name: 'Queues' }).waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('Token').waitFor();
    expect(await page.evaluate('JSON.stringify([sessionStorage, localStorage, document.cookie])')).toBe('[{},{},""]');
    await page.context().close();
  });

  test('without a right its buttons say so, and rights that are revoked are told', async () => {
    const { page } = await openConsole(browser, `127.0.0.1:${node.httpPort}`, { hash: '#/queue/mail' });
    await logIn(page, READER);
    const pause = page.getByRole('button', { name: 'Pause…' });
    await pause.waitFor();
    expect(await pause.getAttribute('aria-disabled')).toBe('true');
    expect(await pause.getAttribute('title')).toBe(
      'This takes the right manage-queues on the default group, which reader does not have.',
    );
    // The browser does press it: it is no disabled button, so that a screen reader finds it with its reason.
    await pause.dispatchEvent('click');
    await page.locator('.toast', { hasText: 'This takes the right manage-queues' }).waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);

    // The page may know of a right that is gone: the server refuses, and the dialog says it.
    allow(['read', 'manage-queues']);
    await page.reload();
    await expect.poll(() => pause.getAttribute('aria-disabled')).not.toBe('true');
    await pause.click();
    allow(['read']);
    // The server takes the new rules within half a second. The page does not know yet.
    const rightsOfReader = (): Promise<number> =>
      page.evaluate(
        `fetch('../api/me', { headers: { authorization: 'Bearer ${READER}' } }).then((reply) => reply.json()).then((me) => me.grants[0].rights.length)`,
      );
    await expect.poll(rightsOfReader).toBe(1);
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Pause', exact: true }).click();
    await dialog
      .getByRole('alert')
      .filter({ hasText: 'reader has no right manage-queues on the default group' })
      .waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });

    // Without the right to read the page keeps what it has, and says why it is old.
    allow(['enqueue']);
    const banner = page.getByRole('alert').filter({ hasText: 'You do not have the right to see this.' });
    await banner.waitFor();
    expect(await banner.textContent()).toMatch(/reader has no right read on the default group.*The page shows data of/);
    allow([]);
    const tryNow = page.getByRole('button', { name: 'Try now' });
    await expect
      .poll(async () => {
        if (await tryNow.isVisible()) await tryNow.click();
        return tryNow.count();
      })
      .toBe(0);
    const out = page.getByRole('alert').filter({ hasText: 'You are logged out.' });
    await out.waitFor();
    await page.getByRole('heading', { name: 'mail', exact: true }).waitFor();
    await out.getByRole('button', { name: 'Log in again' }).click();
    await logIn(page, OWNER);
    await page.getByText('live').waitFor();
    await page.context().close();
  });

  test('of many queues a page has a few rows, goes to any of them, and sorts all', async () => {
    const { page, complaints } = await openConsole(browser, `127.0.0.1:${node.httpPort}`, { hash: '#/queues' });
    await logIn(page, OWNER);
    const row = (at: number) => page.locator(`tr[data-at="${at}"]`);
    await row(0).waitFor();
    const total = new Intl.NumberFormat('en-US').format(QUEUES + 1);
    await page.getByText(`${total} queues`).waitFor();
    expect(await page.locator('tr[data-at]').count()).toBeLessThan(100);
    const rows = async (): Promise<number> => Number(await page.locator('table').getAttribute('aria-rowcount')) - 1;
    expect(await rows()).toBe(200);
    await page.evaluate('scrollTo(0, document.body.scrollHeight)');
    await expect.poll(rows).toBe(400);
    await page.evaluate('scrollTo(0, 0)');
    await page.getByRole('button', { name: 'Available' }).click();
    await expect.poll(() => row(0).locator('td').first().textContent()).toBe('mail');
    await expect.poll(rows).toBe(QUEUES + 1);
    await page.evaluate('scrollTo(0, document.body.scrollHeight / 2)');
    await row(Math.floor(QUEUES / 2)).waitFor();
    // Columns that a phone does not show take no room there.
    await page.setViewportSize({ width: 390, height: 844 });
    await expect.poll(async () => (await page.locator('th.c-name').boundingBox())?.width ?? 0).toBeGreaterThan(150);
    await page.setViewportSize({ width: 1400, height: 900 });
    expect(await page.locator('tr[data-at]').count()).toBeLessThan(100);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
