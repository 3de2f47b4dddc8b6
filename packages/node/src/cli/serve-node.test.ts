import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type Command, memoryBoundsOf, readyLine, runCommand } from '@taskmaster/proxy/testing';
import { MIB } from '@taskmaster/server/memory';
import { aLease, anEnqueue, anUpdate, grpcClient } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { completeConfig } from '../config.ts';
import { nodeBoundsOf } from '../memory.ts';

const CLI = { source: fileURLToPath(new URL('../node-cli.ts', import.meta.url)), name: 'node' } as const;

const command = (...args: string[]): Command => runCommand(CLI, args);

function temporaryDirectory(): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'taskmaster-serve-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

const onFreePorts = (dir: string): string[] => [
  `--data-dir=${join(dir, 'data')}`,
  '--grpc-port=0',
  '--http-port=0',
  '--store-reserve-bytes=1MiB',
];

const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(':') + 1));

/** The environment of a node with less than 1 GiB. */
const ALLOCATOR = ['MALLOC_ARENA_MAX=2', 'MALLOC_MMAP_THRESHOLD_=131072'];

describe('taskmaster-node', () => {
  test('sets its memory bounds, in the same process, unless they are chosen', async () => {
    const boundsOf = async (...execArgv: string[]): Promise<readonly string[]> => {
      using dir = temporaryDirectory();
      using node = runCommand(CLI, [...onFreePorts(dir.path), '--memory=512MiB', '--json'], {
        execArgv,
        asShipped: true,
      });
      await readyLine(node);
      return memoryBoundsOf(node);
    };
    const { youngMib, oldGrowthPercent, oldMostMib, oldLeastMib } = nodeBoundsOf(
      completeConfig({ memory: 512 * MIB }).memory,
    );
    const young = `--max-semi-space-size=${youngMib}`;
    const old = [
      `--heap-growing-percent=${oldGrowthPercent}`,
      `--max-old-space-size=${oldMostMib}`,
      `--initial-old-space-size=${oldLeastMib}`,
    ];
    expect(await boundsOf()).toEqual([young, ...old, ...ALLOCATOR]);
    for (const chosen of ['--max-semi-space-size=4', '--max_semi_space_size=4']) {
      expect(await boundsOf(chosen)).toEqual([...old, chosen, ...ALLOCATOR]);
    }
  });

  test('divides its memory, says how, and keeps to it', async () => {
    using dir = temporaryDirectory();
    writeFileSync(join(dir.path, 'node.yaml'), 'memory: 400MiB\nengine: { cacheBytes: 10MiB }\n');
    const args = [...onFreePorts(dir.path), `--config=${join(dir.path, 'node.yaml')}`, '--json'];
    using node = runCommand(CLI, args, { asShipped: true });
    const { http } = await readyLine(node);
    const metrics = await (await fetch(`http://${http}/metrics`)).text();
    const figure = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
    expect(figure('taskmaster_memory_bytes')).toBe(400 * MIB);
    expect(figure('taskmaster_memory_part_bytes{part="engine.cacheBytes"}')).toBe(10 * MIB);
    expect(figure('process_resident_memory_bytes')).toBeLessThan(400 * MIB);
    const { memory } = completeConfig({ memory: 400 * MIB, engine: { cacheBytes: 10 * MIB } });
    expect(memoryBoundsOf(node)).toContain(`--max-old-space-size=${nodeBoundsOf(memory).oldMostMib}`);
    node.child.kill();
    const { stderr } = await node.ended;
    const [told] = stderr.split('\n').flatMap((line) => (line.includes('memory is divided') ? [JSON.parse(line)] : []));
    expect(told).toMatchObject({ bytes: 400 * MIB, source: 'setting', parts: memory.parts });
  });

  test('refuses too little memory before it changes anything', async () => {
    using dir = temporaryDirectory();
    using node = command(...onFreePorts(dir.path), '--memory=100MiB');
    const { code, stderr } = await node.ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^taskmaster-node: memory: 100MiB is too little: a node needs at least \d+MiB \(from --memory\)\n$/,
    );
    expect(readdirSync(dir.path)).toEqual([]);
  });

  test('checks its settings and the files that they name, without a start', async () => {
    using dir = temporaryDirectory();
    const keyFile = join(dir.path, 'keys');
    writeFileSync(keyFile, 'a key of more than sixteen characters\n', { mode: 0o640 });
    const check = async (...args: string[]) => {
      using checking = command('config', 'check', ...args);
      if (checking.child.stdout === null) throw new TypeError('the child has no standard output');
      const [{ code, stderr }, stdout] = await Promise.all([checking.ended, text(checking.child.stdout)]);
      return { code, stderr, stdout };
    };
    const right = await check(`--cluster-key-file=${keyFile}`, '--grpc-port=7500');
    expect(right).toMatchObject({ code: 0 });
    expect(right.stdout).toContain('grpcPort: 7500 (default: 7400)');
    expect(right.stdout).not.toContain('sixteen');
    writeFileSync(keyFile, 'short\n');
    const wrong = await check(`--cluster-key-file=${keyFile}`);
    expect(wrong).toMatchObject({ code: 2 });
    expect(wrong.stderr).toContain('shorter than 16 characters');
    chmodSync(keyFile, 0o644);
    const open = await check(`--cluster-key-file=${keyFile}`);
    expect(open).toMatchObject({ code: 2 });
    expect(open.stderr).toContain('change its mode to 0600');
  });

  test('prints its addresses, serves, and ends cleanly after a signal', async () => {
    using dir = temporaryDirectory();
    using node = command(...onFreePorts(dir.path), '--json');
    const ready = await readyLine(node);
    expect(ready).toMatchObject({ ready: true, grpc: expect.stringMatching(/^127\.0\.0\.1:\d+$/) });
    using client = grpcClient(portOf(ready.grpc));
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue()] }));
    expect((await fetch(`http://${ready.http}/readyz`)).status).toBe(200);

    // A long poll ends at once, with no tasks.
    const polled = client.leaseTasks(aLease({ queues: ['shop#empty'], waitMs: 60_000 }));
    await expect.poll(async () => (await fetch(`http://${ready.http}/metrics`)).text()).toContain('waiting_leases 1');
    node.child.kill('SIGTERM');
    expect(await polled).toEqual({ tasks: [], moreQueues: [] });
    const { code, stderr } = await node.ended;
    expect(code).toBe(0);
    for (const line of stderr.trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('msg');
  });

  test('refuses a directory that another node uses', async () => {
    using dir = temporaryDirectory();
    using first = command(...onFreePorts(dir.path), '--json');
    await readyLine(first);
    using second = command(...onFreePorts(dir.path), '--log-level=silent');
    const { code, stderr } = await second.ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^taskmaster-node: .*in use by another process.*\n$/);
  });

  test('names the taken port and the flag to choose another', async () => {
    using dir = temporaryDirectory();
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const address = taken.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    using node = command(...onFreePorts(dir.path), `--http-port=${port}`, '--log-level=silent');
    const { code, stderr } = await node.ended;
    taken.close();
    expect(code).toBe(1);
    expect(stderr).toBe(
      `taskmaster-node: port ${port} of 127.0.0.1 is in use: stop the program that listens there, or choose another port with --http-port\n`,
    );
  });

  test('ends with 2 when its settings are wrong, one line each', async () => {
    using node = command('--grpc-port=x', '--durability=maybe');
    const { code, stderr } = await node.ended;
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(/^taskmaster-node: grpcPort: .*--grpc-port/),
      expect.stringMatching(/^taskmaster-node: durability: .*--durability/),
    ]);
  });
});
