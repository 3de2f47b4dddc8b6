import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { connect } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import { startTestNode } from '../testing/test-cluster.ts';

const CLI = fileURLToPath(new URL('../cli.ts', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

/** Runs the command from its source; if it still runs at the end it is killed. */
function command(...args: string[]): { readonly child: ChildProcess; readonly ended: Promise<Ended> } & Disposable {
  const child = spawn(process.execPath, ['--conditions=source', CLI, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH },
  });
  const ended = Promise.all([once(child, 'exit'), text(child.stderr)]).then(([[code], stderr]) => ({ code, stderr }));
  return { child, ended, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

interface Ready {
  readonly grpc: string;
  readonly http: string;
}

async function ready({ stdout }: ChildProcess): Promise<Ready> {
  if (stdout === null) throw new TypeError('no standard output');
  for await (const line of createInterface(stdout)) return JSON.parse(line) as Ready;
  return expect.unreachable('the proxy ended without a word');
}

const serve = (join: string) =>
  command('serve', '--join', join, '--grpc-port', '0', '--http-port', '0', '--json', '--router-partitions', '16');
const readyz = async ({ http }: Ready): Promise<number> => (await fetch(`http://${http}/readyz`)).status;

describe('the command', () => {
  test('serves until it is told to stop; long polls end with nothing', async () => {
    await using node = await startTestNode();
    using proxy = serve(node.address);
    const addresses = await ready(proxy.child);
    expect(await readyz(addresses)).toBe(200);
    const metrics = await (await fetch(`http://${addresses.http}/metrics`)).text();
    expect(metrics).toContain('taskmaster_proxy_nodes{alive="true"} 1');

    await using client = await connect({ endpoints: addresses.grpc, retry: { maxAttempts: 1 } });
    await client.queue('shop#mail').enqueue('x');
    expect(await (await fetch(`http://${addresses.http}/api/queues`)).json()).toMatchObject({
      queues: [{ queue: 'shop#mail', available: 1 }],
    });
    const poll = client.queue('shop#empty').lease({ wait: '60s' });
    await eventually(() => expect(node.engine.figures().waiters).toBe(1));
    proxy.child.kill('SIGTERM');
    expect(await poll).toEqual([]);
    expect(await proxy.ended).toMatchObject({ code: 0 });
    expect(node.engine.figures().waiters).toBe(0);
  });

  test('starts without a node, says so, and is ready once there is one', async () => {
    const port = await (async () => {
      await using gone = await startTestNode();
      return gone.address.split(':')[1] ?? '';
    })();
    using proxy = serve(`127.0.0.1:${port}`);
    const addresses = await ready(proxy.child);
    expect(await readyz(addresses)).toBe(503);
    await using _node = await startTestNode(Number(port));
    await eventually(async () => expect(await readyz(addresses)).toBe(200));
    proxy.child.kill('SIGTERM');
    const { code, stderr } = await proxy.ended;
    expect(code).toBe(0);
    expect(stderr.match(/no node of the cluster can be reached/g)).toHaveLength(1);
    expect(stderr).toContain('can be reached again');
  });

  test.each([
    [[], 'which cluster?'],
    [['--join', 'nowhere'], 'host:port'],
    [['--join', 'a:1', '--router-hold-ms', 'x'], 'router.holdMs'],
  ])('wants to know where to go: %j', async (args, problem) => {
    using proxy = command('serve', ...args);
    const { code, stderr } = await proxy.ended;
    expect(code).toBe(2);
    expect(stderr).toContain(problem);
  });
});
