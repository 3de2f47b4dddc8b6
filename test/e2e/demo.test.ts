import { readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { startExample } from './support.ts';

/** What these tests read of the demo's `--json`. */
interface Summary {
  readonly ok: boolean;
  readonly pagesIndexed: number;
  readonly urlsFound: number;
  readonly linksToNowhere: number;
  readonly tasksCompleted: number;
  readonly retries: { readonly siteUnavailable: number; readonly attemptsRepeated: number };
  readonly kills: readonly { readonly kind: string; readonly recoveredMs?: number; readonly workingMs?: number }[];
  readonly checks: readonly { readonly what: string; readonly ok: boolean }[];
  readonly searches: readonly { readonly query: string; readonly hits: readonly { readonly url: string }[] }[];
}

/** Starts the demo with a directory of its own for temporary files. */
async function demo(args: readonly string[]) {
  await using onFailure = new AsyncDisposableStack();
  const temporary = onFailure.use(await temporaryDirectory());
  const running = onFailure.use(
    await startExample('crawler/demo', args, { env: { ...process.env, TMPDIR: temporary.path } }),
  );
  const resources = onFailure.move();
  return {
    running,
    leftOver: () => readdir(temporary.path),
    async summary(): Promise<Summary> {
      const { code, stdout, stderr } = await running.ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return JSON.parse(stdout) as Summary;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

describe('the demo', () => {
  test('indexes every page exactly once, though a worker and the node are killed on the way', {
    timeout: 90_000,
  }, async () => {
    await using run = await demo(['--json', '--max-pages', '150', '--workers', '2', '--query', 'schema validation']);
    const summary = await run.summary();

    expect(summary.checks.filter(({ ok }) => !ok)).toEqual([]);
    expect(summary.ok).toBe(true);
    expect(summary.pagesIndexed).toBeGreaterThanOrEqual(150);
    expect(summary.urlsFound).toBe(summary.pagesIndexed + summary.linksToNowhere);
    expect(summary.tasksCompleted).toBe(summary.urlsFound + 2 * summary.pagesIndexed);
    expect(summary.retries.siteUnavailable).toBeGreaterThan(0);
    expect(summary.retries.attemptsRepeated).toBeGreaterThan(0);
    expect(summary.kills.map(({ kind }) => kind)).toEqual(['worker', 'node']);
    expect(summary.searches).toHaveLength(1);
    expect(summary.searches[0]?.hits.length).toBeGreaterThan(0);
    expect(await run.leftOver()).toEqual([]);
  });

  test('leaves neither processes nor files behind when it is interrupted', { timeout: 60_000 }, async () => {
    await using run = await demo(['--no-kill', '--workers', '2']);
    const pids = await eventually(
      () => {
        const [, pid] = /A node serves at \S+ \(process (\d+)\)/.exec(run.running.stdout) ?? [];
        expect(run.running.stdout).toMatch(/\d+ indexed/);
        return [Number(pid)];
      },
      { withinMs: 30_000 },
    );

    const { code, stderr } = await run.running.kill('SIGINT');

    expect({ code, stderr }).toEqual({ code: 130, stderr: 'interrupted; everything is cleaned up\n' });
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    expect(await run.leftOver()).toEqual([]);
  });

  test('crawls a live site within its host, as robots.txt says, and no further than it may', {
    timeout: 60_000,
  }, async () => {
    const asked: string[] = [];
    const site = createServer((request, response) => {
      const path = request.url ?? '/';
      asked.push(path);
      const page = path === '/robots.txt' ? 'User-agent: *\nDisallow: /private' : livePage(path);
      response.writeHead(200, { 'content-type': path === '/robots.txt' ? 'text/plain' : 'text/html' }).end(page);
    });
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = site.address() as AddressInfo;
      const url = `http://127.0.0.1:${port}/`;
      await using run = await demo(['--json', '--no-kill', '--workers', '2', '--url', url, '--max-pages', '8']);
      const summary = await run.summary();

      expect(summary.ok).toBe(true);
      expect(summary.urlsFound).toBe(8);
      expect(summary.pagesIndexed).toBe(7);
      expect(asked.filter((path) => path.startsWith('/private'))).toEqual([]);
      const pages = asked.filter((path) => path !== '/robots.txt');
      expect(new Set(pages).size).toBe(pages.length);
    } finally {
      site.closeAllConnections();
      site.close();
    }
  });

  test('explains itself, and refuses options that it does not know', async () => {
    await using help = await startExample('crawler/demo', ['--help']);
    await using wrong = await startExample('crawler/demo', ['--workers', 'many']);

    expect((await help.ended).stdout).toMatch(/--max-pages/);
    expect((await wrong.ended).code).toBe(2);
    expect((await wrong.ended).stderr).toMatch(/whole number/);
  });
});

/** Each page links to the next ones, to something private, and to another host. */
function livePage(path: string): string {
  const number = Number(/\d+/.exec(path)?.[0] ?? 0);
  const links = [
    `/page/${2 * number + 1}`,
    `/page/${2 * number + 2}`,
    '/private/diary',
    'http://localhost:1/elsewhere',
  ];
  return `<title>Page ${number}</title>${links.map((link) => `<a href="${link}">${link}</a>`).join('')}`;
}
