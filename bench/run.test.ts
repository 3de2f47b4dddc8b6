import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

/** As the build made it: `npm run bench` starts it like this. */
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

// Six processes start for a row, which takes long on a machine that is busy with other tests.
describe('npm run bench', { timeout: 120_000 }, () => {
  test('prints a row beside its baselines as JSON, and leaves nothing behind', async () => {
    const { code, stdout, stderr } = await start('enqueue-50', '--quick', '--json').ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = linesOf(stdout);
    expect(lines.map(({ variant, baseline }) => [variant, baseline])).toEqual([
      ['unary', 'noop-unary'],
      ['unary', 'raw-store'],
      ['client', 'noop-stream'],
      ['client', 'raw-store'],
    ]);
    for (const line of lines) {
      expect(line).toMatchObject({
        row: 'enqueue-50',
        tasks_per_s: expect.any(Number),
        p50_ms: expect.any(Number),
        p99_ms: expect.any(Number),
        baseline_per_s: expect.any(Number),
        ratio: expect.any(Number),
        load: expect.any(Number),
        quick: true,
      });
      expect(line.tasks_per_s).toBeGreaterThan(0);
    }
    expect(await readdir(dir)).toEqual([]);
  });

  test('ends its processes and deletes their data when it is interrupted', async () => {
    const { child, ended } = start('memory-1m', '--json');
    await untilThereIs('data', dir);
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    expect(await readdir(dir)).toEqual([]);
  });

  test('says which rows there are when it is asked for another one', async () => {
    const { code, stderr } = await start('enqueue-5').ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(/no row is named enqueue-5; there are: enqueue-single-unary, /);
  });

  test('says why a row cannot be measured, and goes on', async () => {
    const { code, stdout } = await start('memory-1m', 'idle-polls', '--json', '--quick', '--node-flag', 'nonsense')
      .ended;
    expect(code).toBe(1);
    expect(linesOf(stdout)).toEqual([
      expect.objectContaining({ row: 'memory-1m', error: expect.stringMatching(/the node ended with 2: .*nonsense/) }),
      expect.objectContaining({ row: 'idle-polls', error: expect.stringContaining('the node ended with 2') }),
    ]);
  });
});

/** Waits until the node has made its files somewhere below a directory. */
async function untilThereIs(name: string, below: string): Promise<void> {
  for (;;) {
    const found = await readdir(below, { recursive: true });
    if (found.some((path) => path.endsWith(name))) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
