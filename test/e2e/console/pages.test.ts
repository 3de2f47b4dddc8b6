import { connect, type TaskMasterClient } from '@taskmaster/client';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestCluster } from '../../support/processes/start-cluster.ts';
import { type RunningProxy, startProxy } from '../../support/processes/start-proxy.ts';
import { act, browserPath, cutControls, isTooWide, launch, type OpenConsole, openConsole, reason } from './browser.ts';

const HOSTILE = '<img src=x onerror="document.title=\'taken\'">';
const RTL = `gnp\u202e${'x'.repeat(200)}\u0007`;

/** Every page and every action, on a cluster of two nodes. A proxy serves the pages. */
describe.skipIf(browserPath === undefined)(`the console${reason}`, () => {
  const opened = new AsyncDisposableStack();
  let cluster: TestCluster;
  let proxy: RunningProxy;
  let client: TaskMasterClient;
  let worker: TaskMasterClient;
  let browser: Browser;
  let shown: OpenConsole;

  beforeAll(async () => {
    cluster = opened.use(await TestCluster.start({ nodes: 2 }));
    proxy = opened.use(await startProxy(cluster.endpoints));
    client = opened.use(await connect(cluster.endpoints));
    worker = opened.use(await connect({ endpoints: cluster.endpoints, workerLabel: HOSTILE }));
    browser = await launch();
    opened.defer(() => browser.close());
    const mail = client.queue('mail');
    await mail.enqueueMany(
      Array.from({ length: 8 }, (_, at) => ({
        pid: `m${at}`,
        data: { to: HOSTILE, at },
        headers: { tenant: HOSTILE },
      })),
    );
    await client.queue(HOSTILE).enqueue(1);
    await client.queue(`long#${RTL}`).enqueue(2);
    const leased = await worker.queue('mail').lease({ max: 6, leaseDuration: '1h' });
    for (const [at, task] of leased.slice(0, 4).entries()) {
      await task.deadLetter(new Error(at < 3 ? `no mailbox ${at} ${HOSTILE}` : 'refused'));
    }
    await leased[4]?.reportProgress(`${HOSTILE} 50 %`);
    await client.schedules.put('nightly', { queue: 'mail', data: { digest: true }, cron: '0 3 * * *' });
    await client.topic('news').subscribe('mail');
    await client
      .flow()
      .add('cut', client.queue('film#cuts'), 1, { pid: 'cut' })
      .add('film', client.queue('film#films'), 1, { pid: HOSTILE, after: 'cut' })
      .commit();
    shown = await openConsole(browser, proxy.http);
  }, 90_000);
  afterAll(() => opened.disposeAsync());

  const see = async (hash: string, text: string | RegExp): Promise<void> => {
    await shown.go(hash);
    await shown.page.getByText(text).first().waitFor();
  };

  test('overview: what needs attention, figures, charts and members', async () => {
    const { page } = shown;
    await page.getByRole('listitem').filter({ hasText: 'tasks die' }).filter({ hasText: 'since' }).waitFor();
    expect(await page.getByRole('img', { name: /^Tasks per second: enqueued/ }).count()).toBe(1);
    for (const name of ['a', 'b']) await page.getByRole('row', { name: new RegExp(`^${name} serving`) }).waitFor();
    await page.getByRole('link', { name: 'mail' }).click();
    await page.getByRole('heading', { name: 'mail', exact: true }).waitFor();
  });

  test('queues: the worst first, searched, sorted, with hostile names as text', async () => {
    const { page } = shown;
    await see('#/queues', 'film#');
    const names = page.locator('tbody td.c-name a');
    await expect.poll(() => names.first().textContent()).toBe('mail');
    expect(await page.getByText(HOSTILE).count()).toBe(1);
    expect(await page.locator('.unseen').allTextContents()).toContain('\\u{202e}');
    await page.keyboard.press('/');
    await page.keyboard.type('^film#c');
    await expect.poll(() => names.allTextContents()).toEqual(['film#cuts']);
    await page.keyboard.press('Escape');
    await shown.go('#/queues');
    await page.getByRole('button', { name: 'Available' }).click();
    await page.locator('th[aria-sort=descending]', { hasText: 'Available' }).waitFor();
    await expect.poll(() => names.first().textContent()).toBe('mail.dead');
  });

  test('keys: rows, pages and help', async () => {
    const { page } = shown;
    await see('#/queues', 'film#');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    expect(await page.evaluate("document.activeElement.closest('tr').dataset.at")).toBe('1');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.locator('h1 .name').waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('g');
    await page.keyboard.press('c');
    await page.getByRole('heading', { name: 'Cluster', exact: true }).waitFor();
  });

  test('a queue: leased tasks with worker, progress and time left', async () => {
    await see('#/queue/mail?tab=leased', `${HOSTILE} 50 %`);
    const row = shown.page.getByRole('row').filter({ hasText: '50 %' });
    expect(await row.textContent()).toMatch(/127\.0\.0\.1:\d+.*59 min/);
  });

  test('a queue is paused and resumed', async () => {
    const { page } = shown;
    await see('#/queue/mail', 'm6');
    const paused = await act(page, 'Pause…', 'Pause', (dialog) => dialog.getByLabel('Why').fill(HOSTILE));
    expect(paused).toEqual({ title: 'Pause mail', toast: 'Paused mail' });
    await page.getByText(HOSTILE).first().waitFor();
    expect(await act(page, 'Resume…', 'Resume')).toEqual({ title: 'Resume mail', toast: 'Resumed mail' });
    await page.getByRole('button', { name: 'Pause…' }).waitFor();
  });

  test('dead letters by error: some are retried, others dropped, with their number', async () => {
    const { page } = shown;
    await see('#/queue/mail?tab=dead', 'no mailbox …');
    const group = page.locator('.groups > li').filter({ hasText: 'no mailbox' });
    expect(await group.locator('.many').textContent()).toBe('3');
    await group.getByRole('button', { name: 'Retry…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('heading', { name: 'Retry 3 tasks of mail.dead' }).waitFor();
    await dialog.getByLabel('Error contains').fill('mailbox 1');
    await dialog.getByRole('button', { name: 'Retry 1 task' }).click();
    await page.locator('.toast', { hasText: 'Put back 1 task' }).waitFor();
    await expect.poll(() => group.locator('.many').textContent()).toBe('2');
    const dropped = await act(page, 'Drop by filter…', 'Drop 1 task', (open) =>
      open.getByLabel('Error contains').fill('refused'),
    );
    expect(dropped).toEqual({ title: 'Drop 1 task of mail.dead', toast: 'Dropped 1 task' });
    await see('#/queue/mail.dead?tab=runs', 'done');
  });

  test('a dead letter: payload, headers, failures; edited and retried', async () => {
    const { page } = shown;
    await see('#/task/mail.dead/m0', 'Came from');
    await page.getByText(`"to": ${JSON.stringify(HOSTILE)}`).waitFor();
    await page.getByText(`Error: no mailbox 0 ${HOSTILE}`).first().waitFor();
    await page.getByRole('tab', { name: 'Hex' }).click();
    await page.getByText('7b 22 74 6f').waitFor();
    const edited = await act(page, 'Edit and retry…', /Retry/, (dialog) =>
      dialog.getByLabel('Payload').fill('{"to":"ada"}'),
    );
    expect(edited.title).toBe('Edit and retry m0');
    const [task] = await client.queue('mail').get(['m0'], { data: true });
    expect(task).toMatchObject({ state: 'available', data: { to: 'ada' }, headers: { tenant: HOSTILE } });
    await see('#/task/mail.dead/m0', 'not in its queue');
    await see('#/task/mail.dead/m2', 'Came from');
    expect((await act(page, 'Retry…', 'Retry')).toast).toBe('m2 is back in mail');
  });

  test('a task is rescheduled and cancelled', async () => {
    const { page } = shown;
    await see('#/task/mail/m6', 'available');
    const moved = await act(page, 'Reschedule…', 'Reschedule', async (dialog) => {
      await dialog.getByLabel('When').selectOption('in an hour');
    });
    expect(moved.toast).toBe('m6 is available in 1 h');
    await page.getByText('delayed').first().waitFor();
    const ended = await act(page, 'Cancel…', 'Cancel the task', (dialog) => dialog.getByLabel('Why').fill(HOSTILE));
    expect(ended).toEqual({ title: 'Cancel m6', toast: 'Cancelled m6' });
    await page.getByText('Cancelled because').waitFor();
  });

  test('a completed task shows its result', async () => {
    await client.queue('done').enqueue(1, { pid: 'one' });
    const [task] = await client.queue('done').lease();
    await task?.complete({ result: { sum: 3 } });
    await see('#/task/done/one', 'completed');
    await shown.page.getByText('"sum": 3').waitFor();
  });

  test('workers with what they hold', async () => {
    await see('#/workers', 'leased tasks');
    await shown.page.getByRole('row').filter({ hasText: HOSTILE }).filter({ hasText: 'mail' }).waitFor();
  });

  test('leases are reset, and a queue deleted', async () => {
    const { page } = shown;
    await see('#/queue/mail', 'Head');
    const reset = await act(page, 'Reset leases…', 'Reset 2 leases');
    expect(reset).toEqual({ title: 'Reset 2 leases of mail', toast: 'Reset 2 leases of mail' });
    await shown.go(`#/queue/${encodeURIComponent(HOSTILE)}`);
    const gone = await act(page, 'Delete…', 'Delete the queue and 1 task');
    expect(gone.title).toBe(`Delete ${HOSTILE} with 1 task`);
    expect(await client.queue(HOSTILE).stats()).toMatchObject({ available: 0 });
  });

  test('a schedule is paused, run and deleted', async () => {
    const { page } = shown;
    await see('#/schedules', 'nightly');
    await page.getByRole('button', { name: 'nightly' }).click();
    expect(await page.locator('.runs li').count()).toBe(5);
    expect((await act(page, 'Pause…', 'Pause')).toast).toBe('Paused nightly');
    await page.getByRole('row', { name: /nightly.*paused/ }).waitFor();
    expect((await act(page, 'Run now…', 'Enqueue a task')).toast).toMatch(/^Enqueued .*!nightly in mail$/);
    expect((await act(page, 'Resume…', 'Resume')).toast).toBe('Resumed nightly');
    expect((await act(page, 'Delete…', 'Delete the schedule')).toast).toBe('Deleted nightly');
    await page.getByText('There are no schedules').waitFor();
  });

  test('topics: a queue is unsubscribed', async () => {
    await see('#/topics', 'all tasks');
    const ended = await act(shown.page, 'Unsubscribe…', 'Unsubscribe');
    expect(ended.toast).toBe('Unsubscribed mail from news');
    await shown.page.getByText('No queue is subscribed').waitFor();
  });

  test('a flow', async () => {
    await see('#/flow?queue=film%23cuts&pid=cut', '1 signal');
    const named = shown.page.getByLabel('PID');
    expect(await named.inputValue()).toBe('cut');
    await see('#/flow', 'The flow of a task');
    expect(await named.inputValue()).toBe('');
    await shown.page.getByLabel('Queue').fill('film#cuts');
    await named.fill('cut');
    await shown.page.getByRole('button', { name: 'Show' }).click();
    await shown.page.getByText('1 signal').waitFor();
    expect(new URL(shown.page.url()).hash).toBe('#/flow?queue=film%23cuts&pid=cut');
    await shown.page.getByRole('link', { name: HOSTILE }).click();
    await shown.page.getByText('waits for 1 signal').waitFor();
    const moved = await act(shown.page, 'Reschedule…', /^(Reschedule|Run it now)$/);
    expect(moved.toast).toBe(`${HOSTILE} is available now at the earliest: it waits for 1 signal`);
  });

  test('390 px have no sideways scroll, and show all that can be pressed, in light and dark', async () => {
    await client.topic('news').subscribe('mail');
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page, go, complaints } = await openConsole(browser, proxy.http, {
        viewport: { width: 390, height: 844 },
        colorScheme,
      });
      const places = ['#/overview', '#/queues', `#/queue/long%23${encodeURIComponent(RTL)}`, '#/queue/mail?tab=dead'];
      for (const place of [
        ...places,
        '#/workers',
        '#/schedules',
        '#/topics',
        '#/flow',
        '#/cluster',
        '#/task/mail/m0',
      ]) {
        await go(place);
        await page.locator('main h1').first().waitFor();
        await page.getByText('live').waitFor();
        expect(await isTooWide(page), place).toBe(false);
        expect(await cutControls(page), place).toEqual([]);
      }
      const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor');
      expect(ground).toBe(colorScheme === 'light' ? 'rgb(245, 246, 248)' : 'rgb(15, 19, 23)');
      expect(complaints).toEqual([]);
      await page.context().close();
    }
  });

  test('a hidden tab asks for nothing', async () => {
    const { page } = shown;
    await see('#/queues', 'film#');
    await page.evaluate(`
      Object.defineProperty(document, 'hidden', { value: true, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    `);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    // Longer than the interval of the poll.
    await page.waitForTimeout(2_500);
    expect(asked).toEqual([]);
    await page.evaluate(`
      delete document.hidden;
      document.dispatchEvent(new Event('visibilitychange'));
    `);
    await expect.poll(() => asked.length).toBeGreaterThan(0);
  });

  test('no script of a name, a payload or an error has run', async () => {
    expect(await shown.page.title()).not.toContain('taken');
    expect(shown.complaints).toEqual([]);
  });

  test('a member is drained, and a node that dies is named while the page is open', async () => {
    const { page } = shown;
    await see('#/cluster', 'Partitions');
    await page.getByRole('img', { name: /a holds \d+, b holds \d+/ }).waitFor();
    const ofB = await openConsole(browser, `127.0.0.1:${cluster.node('b').httpPort}`, { hash: '#/queues' });
    await ofB.page
      .getByRole('link', { name: 'mail.dead' })
      .or(ofB.page.getByRole('link', { name: 'mail' }))
      .first()
      .waitFor();
    await cluster.node('a').kill();
    await page.getByText('Not answering').waitFor();
    await page
      .getByRole('listitem')
      .filter({ hasText: /Member a (is down|does not answer)/ })
      .first()
      .waitFor();
    await see('#/overview', 'not answering');
    await see('#/cluster', 'Members');
    // The drain waits for the member that is down, so it can be taken back.
    const drainB = page.getByRole('row', { name: /^b / }).getByRole('button');
    expect((await act(page, drainB, 'Drain b')).toast).toMatch(/^b hands \d+ partitions over and leaves$/);
    await page.getByText('b is being drained').waitFor();
    expect((await act(page, 'Resume…', 'Keep b')).toast).toMatch(
      /^b stays, with \d+ partitions; its share comes back$/,
    );
    await page.getByText('b is being drained').waitFor({ state: 'detached' });
    await cluster.start('a', ['--name=a']);
    await page.getByText('Not answering').waitFor({ state: 'detached' });
    const drained = await act(page, 'Drain…', /^Drain .$/);
    expect(drained.title).toMatch(/^Drain [ab]$/);
    await page
      .getByText('is being drained')
      .or(page.getByText('is draining'))
      .or(page.getByText(/^left/))
      .first()
      .waitFor();

    const log = page.getByRole('table', { name: 'What was done in the cluster' });
    await log
      .getByText(/^Member [ab]: /)
      .first()
      .waitFor();

    // The page of a node that is gone keeps its data, and says how old it is.
    await cluster.node('b').kill();
    const banner = ofB.page.getByRole('alert').filter({ hasText: 'The data is not up to date.' });
    await banner.waitFor();
    expect(await banner.textContent()).toMatch(/cannot be reached.*The page shows data of .* old/);
    await ofB.page.getByRole('table', { name: 'Queues' }).waitFor();
    await cluster.start('b', ['--name=b']);
    await banner.getByRole('button', { name: 'Try now' }).click();
    await banner.waitFor({ state: 'detached' });
  });
});
