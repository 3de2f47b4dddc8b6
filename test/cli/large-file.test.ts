import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, textCodec } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { startNode } from '../support/processes/start-node.ts';
import { openShell } from './shell.ts';

const MINUTE_MS = 60_000;

describe('a large file', () => {
  test('keeps the order of its lines when the node assigns the PIDs', async () => {
    await using node = await startNode();
    await using shell = await openShell(node.endpoint);
    const numbers = Array.from({ length: 5_000 }, (_, i) => String(i));
    await writeFile(join(shell.dir, 'numbers.txt'), numbers.join('\n'));
    const ended = await shell.run('taskmaster enqueue order#lines --lines --batch 50 --file numbers.txt');
    expect(ended.code, ended.stderr).toBe(0);
    await using client = await connect(node.endpoint);
    const tasks = await client.queue('order#lines', { codec: textCodec }).lease({ max: numbers.length });
    expect(tasks.map(({ data }) => data)).toEqual(numbers);
  });

  test('of lines is enqueued in memory that does not grow with its size', { timeout: 3 * MINUTE_MS }, async () => {
    const lines = 100_000;
    const lineBytes = 1_000;
    await using node = await startNode();
    await using shell = await openShell(node.endpoint);
    const file = join(shell.dir, 'large.txt');
    const numbered = (number: number): string => String(number).padStart(lineBytes - 1, '0');
    await writeFile(file, lineGenerator(lines, numbered));
    const memory = join(shell.dir, 'memory.txt');
    const probe = join(shell.dir, 'probe.mjs');
    // On Linux `maxRSS` is at least what the process that started this one used then.
    await writeFile(
      probe,
      `import { existsSync, readFileSync, writeFileSync } from 'node:fs';
       const status = '/proc/self/status';
       const peakKib = () =>
         existsSync(status) ? /VmHWM:\\s*(\\d+)/.exec(readFileSync(status, 'utf8'))[1] : process.resourceUsage().maxRSS;
       process.on('exit', () => writeFileSync(${JSON.stringify(memory)}, String(peakKib())));`,
    );
    const ended = await shell.run(`taskmaster enqueue large#lines --lines --in-flight 8 --json --file ${file}`, {
      // A small heap, so that garbage does not count.
      NODE_OPTIONS: `--import=${probe} --max-old-space-size=48 --max-semi-space-size=2`,
    });
    expect(ended.code, ended.stderr).toBe(0);
    expect(JSON.parse(ended.stdout)).toMatchObject({ tasks: lines, created: lines, bytes: lines * lineBytes });
    // Node itself takes about 85 MB.
    const peakBytes = Number(await readFile(memory, 'utf8')) * 1024;
    expect(peakBytes).toBeLessThan(85e6 + 0.8 * lines * lineBytes);
    await using client = await connect(node.endpoint);
    expect((await client.queue('large#lines').stats()).available).toBe(lines);
  });
});

function* lineGenerator(count: number, line: (number: number) => string): Generator<string> {
  for (let i = 0; i < count; i += 100) {
    yield Array.from({ length: 100 }, (_, at) => `${line(i + at)}\n`).join('');
  }
}
