import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { connect } from '@taskmaster/client';
import { keptLog } from '@taskmaster/node/grpc/testing';
import { expect, test } from 'vitest';
import { LearnedRoutes } from './learned-routes.ts';
import { startProxy } from './proxy.ts';

const NODE = fileURLToPath(import.meta.resolve('@taskmaster/node/package.json')).replace('package.json', 'src/cli.ts');

async function startNodeProcess(dir: string, port: number): Promise<{ child: ChildProcess; address: string }> {
  const args = ['--data-dir', dir, '--grpc-port', String(port), '--http-port', '0', '--json', '--log-level', 'warn'];
  const child = spawn(process.execPath, ['--conditions=source', NODE, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface(child.stdout)) {
    return { child, address: (JSON.parse(line) as { grpc: string }).grpc };
  }
  return expect.unreachable('the node ended without a word');
}

test('a node is killed and comes back, again and again: nothing acknowledged is lost', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'taskmaster-proxy-'));
  let node = await startNodeProcess(dir, 0);
  const port = Number(node.address.split(':')[1]);
  try {
    await using proxy = await startProxy(
      { grpcPort: 0, httpPort: 0 },
      { openRoutes: async () => new LearnedRoutes([node.address]), log: keptLog() },
    );
    await using client = await connect({ endpoints: proxy.grpcAddress, timeout: '30s' });
    const acknowledged = new Set<string>();
    const done = new Set<string>();
    let over = false;
    const queue = client.queue<string>('shop#orders');
    const producers = [0, 1, 2, 3].map(async (producer) => {
      for (let i = 0; !over; i++) {
        const pid = `${producer}-${i}`;
        // FIFO: without a request id, which the client adds, a repetition would be a second task.
        await queue.enqueue(pid, {}).then(
          () => acknowledged.add(pid),
          () => {},
        );
      }
    });
    const worker = client.worker(
      queue,
      async (task) => {
        done.add(task.data);
      },
      // Leases whose answers are lost with the node end by themselves.
      { lease: '2s' },
    );
    worker.start();
    for (let round = 0; round < 3; round++) {
      await new Promise((resolve) => setTimeout(resolve, 700));
      node.child.kill('SIGKILL');
      await once(node.child, 'exit');
      node = await startNodeProcess(dir, port);
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
    over = true;
    await Promise.all(producers);
    const until = performance.now() + 40_000;
    while ([...acknowledged].some((pid) => !done.has(pid)) && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await worker.stop();
    expect(acknowledged.size).toBeGreaterThan(50);
    expect([...acknowledged].filter((pid) => !done.has(pid))).toEqual([]);
    const { totals } = await client.stats({ queues: [queue.name] });
    expect(totals).toMatchObject({ available: 0, leased: 0 });
  } finally {
    node.child.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  }
}, 90_000);
