import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

/** The built program, which `npm run bench` starts. */
const program = fileURLToPath(new URL('./dist/run.js', import.meta.url));

let dir = '';
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'taskmaster-bench-test-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

function start(...args: string[]) {
  const child = spawn(process.execPath, [program, ...args, '--dir', dir], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  return {
    child,
    ended: ended.then(([[code], stdout, stderr]) => ({ code: code as unknown, stdout, stderr })),
  };
}

const linesOf = (stdout: string): Record<string, unknown>[] =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

// A row starts six processes, which takes long on a machine that runs other tests.
describe('npm run bench', { timeout: 120_000 }, () => {
  test('prints a row with its baselines as JSON, and leaves no files or processes', async () => {
    const { code, stdout } = await start('B5', '--quick', '--json').ended;
    expect(code).toBe(0);
    const lines = linesOf(stdout);
    expect(lines.map(({ row, variant, baseline, target }) => [row, variant, baseline, target])).toEqual([
      ['B5', 'unary', 'no-op unary', null],
      ['B5', 'client', 'no-op stream', null],
    ]);
    for (const line of lines) {
      expect(line).toMatchObject({
        tasks_per_s: expect.any(Number),
        p50_ms: expect.any(Number),
        p99_ms: expect.any(Number),
        baseline_per_s: expect.any(Number),
        ratio: expect.any(Number),
        raw_store_ratio: expect.any(Number),
        load: expect.any(Number),
        quick: true,
      });
      expect(line.tasks_per_s).toBeGreaterThan(0);
    }
    expect(await readdir(dir)).toEqual([]);
  });

  test('compares its rates with those of other queues', async () => {
    const file = join(dir, 'peers.jsonl');
    const peer = { peer: 'other', workload: 'enqueue-single', durability: 'fsync', confirmed: true, versions: '1' };
    await writeFile(file, JSON.stringify({ ...peer, tasks_per_s: 1 }));
    const { code, stdout } = await start('B3', '--quick', '--json', '--peer-results', file).ended;
    await rm(file);
    expect(code).toBe(0);
    expect(linesOf(stdout)).toEqual([
      expect.objectContaining({ row: 'B3', baseline: 'other', baseline_per_s: 1, target: 2, met: true }),
    ]);
  });

  test('ends its processes and deletes their data when it is interrupted', async () => {
    const { child, ended } = start('B10', '--json');
    await untilThereIs('data', dir);
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    expect(await readdir(dir)).toEqual([]);
  });

  test('lists the rows if it is asked for an unknown one', async () => {
    const { code, stderr } = await start('B0').ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(/there is no row B0; the rows are: B1, B2, /);
  });

  test.each([
    [['pair'], /needs a commit/],
    [['pair', 'no-such-commit'], /no-such-commit/],
    [['pair', 'HEAD', 'B0'], /there is no row B0/],
  ])('refuses a pair that cannot be compared: %s', async (args, problem) => {
    const { code, stderr } = await start(...args).ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(problem);
  });

  test('says why a row cannot be measured, and continues', async () => {
    const { code, stdout } = await start('B11', 'B15', '--json', '--quick', '--node-flag', 'nonsense').ended;
    expect(code).toBe(1);
    expect(linesOf(stdout)).toEqual([
      expect.objectContaining({ row: 'B11', error: expect.stringMatching(/the node ended with 2: .*nonsense/) }),
      expect.objectContaining({ row: 'B15', error: expect.stringContaining('the node ended with 2') }),
    ]);
  });
});

/** Waits until the node has created its files somewhere below a directory. */
async function untilThereIs(name: string, below: string): Promise<void> {
  for (;;) {
    const found = await readdir(below, { recursive: true });
    if (found.some((path) => path.endsWith(name))) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
