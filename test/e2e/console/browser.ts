import { existsSync } from 'node:fs';
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core';

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/google-chrome'];
export const browserPath = BROWSERS.find((path) => existsSync(path));
/** For the titles of tests that need a browser. */
export const reason = browserPath ? '' : ' (skipped: no Chromium on this machine)';

export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: browserPath ?? '',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
  });

/** A console in a browser. */
export interface OpenConsole {
  readonly page: Page;
  /** Errors of scripts, what the content security policy has blocked, and failed requests. */
  readonly complaints: string[];
  /** Goes to a place of the console, as in `#/queues`. */
  go(hash: string): Promise<void>;
}

/** Opens the console of the server at this `host:port`, in a session of its own. */
export async function openConsole(
  browser: Browser,
  http: string,
  options: BrowserContextOptions & { readonly hash?: string } = {},
): Promise<OpenConsole> {
  const { hash = '#/overview', ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...rest });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', ({ message }) => complaints.push(message));
  page.on('dialog', (dialog) => {
    complaints.push(`a script opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  await page.goto(`http://${http}/console/${hash}`);
  return {
    page,
    complaints,
    go: async (to) => {
      await page.evaluate(`location.hash = ${JSON.stringify(to)}`);
    },
  };
}

/** Whether the page is wider than the window. */
export const isTooWide = (page: Page): Promise<boolean> =>
  page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth');

/** Links and buttons that reach out of the window or of their cell of a table, by their texts. */
export const cutControls = (page: Page): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('main a, main button, nav a')]
    .filter((control) => {
      const cell = control.closest('td') ?? document.documentElement;
      return control.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1;
    })
    .map((control) => control.textContent)`);

/**
 * Presses a button that opens a dialog, and the button that confirms. Resolves with the title of the dialog and the toast.
 * Rejects if a part of the dialog cannot be seen.
 */
export async function act(
  page: Page,
  button: string | Locator,
  confirm: string | RegExp,
  fill?: (dialog: ReturnType<Page['getByRole']>) => Promise<void>,
): Promise<{ readonly title: string; readonly toast: string }> {
  await (typeof button === 'string' ? page.getByRole('button', { name: button, exact: true }).first() : button).click();
  const dialog = page.getByRole('dialog');
  await fill?.(dialog);
  const yes = dialog.getByRole('button', { name: confirm });
  await yes.waitFor();
  const title = (await dialog.getByRole('heading').textContent()) ?? '';
  if (
    await page.evaluate(
      "(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)(document.querySelector('dialog'))",
    )
  ) {
    throw new Error(`the text of the dialog "${title}" is cut`);
  }
  // So that the next one is that of the action.
  await closeToasts(page);
  await yes.click();
  const toast = (await page.locator('.toast').locator('span').first().textContent()) ?? '';
  await dialog.waitFor({ state: 'detached' });
  await closeToasts(page);
  return { title, toast };
}

/** Not by clicks, which wait for ever for a toast that has just closed itself. */
async function closeToasts(page: Page): Promise<void> {
  await page.evaluate("document.querySelectorAll('.toast button').forEach((close) => close.click())");
  await page.locator('.toast').first().waitFor({ state: 'detached' });
}
