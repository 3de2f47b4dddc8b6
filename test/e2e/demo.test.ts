import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { startExample } from './support.ts';

/** The parts of the demo's `--json` that these tests read. */
interface Summary {
  readonly ok: boolean;
  readonly pagesIndexed: number;
  readonly urlsFound: number;
  readonly linksToNowhere: number;
  readonly givenUp: readonly { readonly url: string; readonly attempts: number; readonly error: string }[];
  readonly reports: number;
  readonly tasksCompleted: number;
  readonly retries: { readonly siteUnavailable: number; readonly attemptsRepeated: number };
  readonly events: readonly {
    readonly kind: string;
    readonly name: string;
    readonly partitionsHeld?: number;
    readonly partitionsMoved?: number;
  }[];
  readonly cluster?: {
    readonly partitions: number;
    readonly nodes: readonly { readonly name: string; readonly state: string; readonly partitionsHeld: number }[];
  };
  readonly checks: readonly { readonly what: string; readonly ok: boolean }[];
  readonly searches: readonly { readonly query: string; readonly hits: readonly { readonly url: string }[] }[];
}

/** The start page has these words. Which other pages a short crawl has depends on the installed packages. */
const QUERY = 'documentation of packages';

/** The least pages of the local site. Some of them answer 503 at first. */
const PAGES = 24;
const FEW_PAGES = ['--max-pages', `${PAGES}`];

/** Starts the demo with its own directory for temporary files. */
async function demo(args: readonly string[]) {
  await using onFailure = new AsyncDisposableStack();
  const temporary = onFailure.use(await temporaryDirectory());
  const running = onFailure.use(
    await startExample('crawler/demo', args, { env: { ...process.env, TMPDIR: temporary.path } }),
  );
  const resources = onFailure.move();
  return {
    running,
    /** Processes that it has started, directly or indirectly. */
    processes: async () => descendants(await processes(), running.pid),
    /** Its files that still exist, and the processes whose command lines name such files. */
    async leftOver(): Promise<string[]> {
      const told = (await processes()).filter(({ command }) => command.includes(temporary.path));
      return [...(await readdir(temporary.path)), ...told.map(({ command }) => command)];
    },
    async summary(): Promise<Summary> {
      const { code, stdout, stderr } = await running.ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return JSON.parse(stdout) as Summary;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

interface ProcessLine {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

async function processes(): Promise<ProcessLine[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-ww', '-o', 'pid=,ppid=,args='], { maxBuffer: 2 ** 24 });
  return stdout.split('\n').flatMap((line) => {
    const [, pid, parent, command] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    return command === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), command }];
  });
}

function descendants(all: readonly ProcessLine[], ancestor: number): number[] {
  const children = all.filter(({ parent }) => parent === ancestor).map(({ pid }) => pid);
  return children.flatMap((pid) => [pid, ...descendants(all, pid)]);
}

/** Checks a crawl of about `pages` pages of the local site, after any faults. */
function expectComplete(summary: Summary, pages: number): void {
  expect(summary.checks.filter(({ ok }) => !ok)).toEqual([]);
  expect(summary.ok).toBe(true);
  expect(summary.pagesIndexed).toBeGreaterThanOrEqual(pages);
  const [broken] = summary.givenUp;
  expect(summary.givenUp).toHaveLength(1);
  expect(broken?.attempts).toBeGreaterThanOrEqual(3);
  expect(broken?.error).toContain(`${broken?.url}: status 500`);
  expect(summary.urlsFound).toBe(summary.pagesIndexed + summary.linksToNowhere + 1);
  expect(summary.tasksCompleted).toBe(summary.urlsFound - 1 + 2 * summary.pagesIndexed);
  expect(summary.reports).toBeGreaterThan(0);
  expect(summary.retries.siteUnavailable).toBeGreaterThan(0);
  expect(summary.retries.attemptsRepeated).toBeGreaterThan(0);
  for (const { hits } of summary.searches) expect(hits.length).toBeGreaterThan(0);
}

describe('the demo', () => {
  test('indexes every page exactly once in a cluster whose nodes are killed, join and leave', {
    timeout: 150_000,
  }, async () => {
    await using run = await demo(['--json', ...FEW_PAGES, '--workers', '2', '--query', QUERY]);
    const summary = await run.summary();

    expectComplete(summary, PAGES);
    expect(summary.events.map(({ kind }) => kind)).toEqual([
      'worker-killed',
      'node-killed',
      'node-joined',
      'node-drained',
    ]);
    const [, killed, joined, drained] = summary.events;
    expect(killed?.partitionsHeld).toBeGreaterThan(0);
    expect(joined?.name).toBe('node-4');
    expect(joined?.partitionsMoved).toBeGreaterThanOrEqual(joined?.partitionsHeld ?? 0);
    expect(drained?.partitionsMoved).toBeGreaterThanOrEqual(drained?.partitionsHeld ?? 0);
    expect(drained?.name).not.toBe(killed?.name);
    const states = new Map(summary.cluster?.nodes.map(({ name, state }) => [name, state]));
    expect(states.size).toBe(4);
    for (const [name, state] of states)
      expect({ name, state }).toEqual({ name, state: name === drained?.name ? 'left' : 'active' });
    expect(summary.cluster?.nodes.reduce((sum, { partitionsHeld }) => sum + partitionsHeld, 0)).toBe(64);
    expect(await run.leftOver()).toEqual([]);
  });

  test('indexes every page exactly once on one node, although it and a worker are killed', {
    timeout: 90_000,
  }, async () => {
    await using run = await demo(['--single', '--json', ...FEW_PAGES, '--workers', '2', '--query', QUERY]);
    const summary = await run.summary();

    expectComplete(summary, PAGES);
    expect(summary.events.map(({ kind }) => kind)).toEqual(['worker-killed', 'node-killed']);
    expect(summary.cluster).toBeUndefined();
    expect(await run.leftOver()).toEqual([]);
  });

  test('continues when a user kills the proxy and a node', { timeout: 120_000 }, async () => {
    await using run = await demo(['--no-kill', ...FEW_PAGES, '--workers', '2']);
    const { running } = run;
    await eventually(() => expect(running.stdout).toMatch(/[1-9]\d*\/\d+ indexed/), { withinMs: 60_000 });
    for (const name of ['proxy', 'node-2']) {
      const [, pid] = new RegExp(`${name} serves at \\S+ \\(process (\\d+)\\)`).exec(running.stdout) ?? [];
      process.kill(Number(pid), 'SIGKILL');
    }

    const { code, stdout, stderr } = await running.ended;

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const name of ['proxy', 'node-2']) expect(stdout).toContain(`${name} was killed with SIGKILL`);
    expect(stdout).toMatch(/each indexed exactly once/);
    expect(await run.leftOver()).toEqual([]);
  });

  test('leaves neither processes nor files behind when it is interrupted while its cluster starts', {
    timeout: 150_000,
  }, async () => {
    await using run = await demo([...FEW_PAGES, '--workers', '2']);
    await eventually(() => expect(run.running.stdout).toMatch(/is served at/), { withinMs: 120_000 });
    const pids = await run.processes();
    expect(pids.length).toBeGreaterThan(0);

    const { code, stderr } = await run.running.kill('SIGINT');

    expect({ code, stderr }).toEqual({ code: 130, stderr: 'interrupted; everything is cleaned up\n' });
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    expect(await run.leftOver()).toEqual([]);
  });

  test('leaves neither processes nor files behind when its terminal is closed, which sends several signals, while it crawls and a killed node starts', {
    timeout: 150_000,
  }, async () => {
    await using run = await demo([...FEW_PAGES, '--workers', '2']);
    const { running } = run;
    const restarting = /node-\d, with its share of queues/;
    await eventually(() => expect(running.stdout).toMatch(restarting), { withinMs: 120_000 });
    const pids = await run.processes();
    expect(pids.length).toBeGreaterThan(0);
    const hangingUp = setInterval(() => running.process.kill('SIGHUP'), 50);
    const { code, signal, stderr } = await running.ended;
    clearInterval(hangingUp);
    expect(stderr).toBe('interrupted; everything is cleaned up\n');
    // After this line it no longer handles signals: the next SIGHUP may end it.
    expect([130, 'SIGHUP']).toContain(code ?? signal);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    expect(await run.leftOver()).toEqual([]);
  });

  test('crawls a live site within its host, by robots.txt, and up to its limit', {
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
      await using run = await demo([
        '--single',
        '--json',
        '--no-kill',
        '--workers',
        '2',
        '--url',
        url,
        '--max-pages',
        '8',
      ]);
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

  test('has a help text, and refuses unknown options', async () => {
    await using help = await startExample('crawler/demo', ['--help']);
    await using wrong = await startExample('crawler/demo', ['--workers', 'many']);

    expect((await help.ended).stdout).toMatch(/--max-pages/);
    expect((await wrong.ended).code).toBe(2);
    expect((await wrong.ended).stderr).toMatch(/whole number/);
  });
});

/** A page with links to the next pages, to a private page and to another host. */
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
