import { once } from 'node:events';
import { connect as connectSocket, type Socket } from 'node:net';
import { connect } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { startNode } from '../support/processes/start-node.ts';

const DESCRIPTORS = 300;
/** 30 MB in all, so that the memtable is written to new files. */
const TASKS = 100;

describe.skipIf(!hasFigures)(`a node with ${DESCRIPTORS} descriptors, and 400 idle connections`, () => {
  test('refuses some of them, and its store goes on', { timeout: 60_000 }, async () => {
    const behind = ['sh', '-c', `ulimit -n ${DESCRIPTORS}; exec "$@"`, 'sh'];
    await using node = await startNode({ behind, flags: ['--store-memtable-bytes=8MiB'] });
    await using client = await connect(node.endpoint);
    const queue = client.queue<string>('q');
    await queue.enqueue('before');
    const open = async (): Promise<Socket> => {
      const socket = connectSocket(node.grpcPort, '127.0.0.1').on('error', () => {});
      await once(socket, 'connect');
      return socket.resume();
    };
    const attackers = await Promise.all(Array.from({ length: 400 }, open));
    for (let task = 0; task < TASKS; task++) await queue.enqueue('x'.repeat(300_000));
    expect(figuresOf(node.pid).descriptors).toBeLessThan(DESCRIPTORS - 50);
    expect((await fetch(`http://127.0.0.1:${node.httpPort}/readyz`)).status).toBe(200);
    const metrics = async (): Promise<string> => (await fetch(`http://127.0.0.1:${node.httpPort}/metrics`)).text();
    const refused = Number(/taskmaster_refused_connections_total (\d+)/.exec(await metrics())?.[1]);
    expect(refused).toBeGreaterThan(300);

    for (const attacker of attackers) attacker.destroy();
    const begun = performance.now();
    await eventually(async () => {
      await using late = await connect({ endpoints: node.endpoint, connectTimeout: '1s' });
      await late.queue('q').enqueue('after');
    });
    console.log(`new connections again ${(performance.now() - begun).toFixed(0)} ms after the attackers left`);
    expect((await queue.stats()).available).toBe(TASKS + 2);
  });
});
