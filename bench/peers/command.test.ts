import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseResults } from './results.ts';

/** The built program, which `npm run bench` starts. */
const program = fileURLToPath(new URL('../dist/run.js', import.meta.url));

let dir = '';
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'taskmaster-bench-test-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

// Only this system, which needs no other server and no additional library.
test('the comparison prints and stores a result for each workload, and leaves no files or processes', {
  timeout: 180_000,
}, async () => {
  const data = join(dir, 'data');
  const out = join(dir, 'peers.jsonl');
  const workloads = ['enqueue-to-waiting', 'enqueue-50'];
  const flags = workloads.flatMap((name) => ['--workload', name]);
  const args = [program, 'peers', 'taskmaster', '--quick', '--json', '--dir', data, '--out', out, ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(await readFile(out, 'utf8')).toBe(stdout);
  const results = parseResults(stdout);
  expect(results.map(({ workload }) => workload)).toEqual(workloads);
  expect(results.every(({ peer, confirmed }) => peer === 'taskmaster' && confirmed)).toBe(true);
  expect(results.map(({ tasksPerS = 0 }) => tasksPerS > 0)).toEqual([false, true]);
  expect(await readdir(data)).toEqual([]);
});
