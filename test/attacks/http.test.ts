import { once } from 'node:events';
import { connect as connectSocket, type Socket } from 'node:net';
import { connect } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';

const MIB = 1024 * 1024;
const QUEUES = 10_000;

let node: RunningNode;
beforeAll(async () => {
  node = await startNode({ asShipped: true, flags: ['--memory=512MiB'] });
});
afterAll(() => node?.[Symbol.asyncDispose]());

/** Opens a connection, sends bytes and reads nothing. */
async function unread(bytes = ''): Promise<Socket> {
  const socket = connectSocket(node.httpPort, '127.0.0.1').on('error', () => {});
  socket.pause();
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

/** Times of probes one after the other, in ms. Fails if one is not answered. */
async function probe(count: number): Promise<number[]> {
  const times: number[] = [];
  for (let number = 0; number < count; number++) {
    const began = performance.now();
    const { status } = await fetch(`http://127.0.0.1:${node.httpPort}/livez`, { signal: AbortSignal.timeout(5_000) });
    expect(status).toBe(200);
    times.push(performance.now() - began);
  }
  return times;
}

describe('callers of HTTP who do not read or only hold connections', () => {
  test('1,000 idle connections keep no probe out, and hold nothing after they are closed', async () => {
    const before = hasFigures ? figuresOf(node.pid).descriptors : 0;
    const idle = await Promise.all(Array.from({ length: 1_000 }, () => unread()));
    const times = await probe(31);
    console.log(`slowest probe beside 1,000 idle connections: ${Math.max(...times).toFixed(0)} ms`);
    if (hasFigures) {
      const more = figuresOf(node.pid).descriptors - before;
      // They are there, but not all of them.
      expect(more).toBeGreaterThan(50);
      expect(more).toBeLessThan(250);
    }
    for (const socket of idle) socket.destroy();
    await probe(5);
  });

  test.skipIf(!hasFigures)('pipelined listings that nobody reads use little memory', async () => {
    await using client = await connect(node.endpoint);
    const name = 'a-queue-with-a-long-name-'.repeat(8);
    const queues = Array.from({ length: QUEUES }, (_, number) => client.queue(`${name}${number}`));
    for (let at = 0; at < QUEUES; at += 500) {
      await Promise.all(queues.slice(at, at + 500).map((queue) => queue.enqueue(1)));
    }
    const before = figuresOf(node.pid).rssBytes;
    const get = `GET /api/queues?limit=${QUEUES} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
    const attackers = await Promise.all(Array.from({ length: 60 }, () => unread(get.repeat(8))));
    let most = 0;
    for (let round = 0; round < 20; round++) {
      await probe(1);
      await queues[0]?.stats();
      most = Math.max(most, figuresOf(node.pid).rssBytes);
    }
    // The listings that nobody reads are there: a reader gets the answer, of megabytes, and more of them behind it.
    const [first] = attackers;
    if (first === undefined) throw new Error('nobody has asked');
    let received = '';
    first.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    first.resume();
    await expect.poll(() => received.length).toBeGreaterThan(MIB);
    expect(received).toMatch(/^HTTP\/1\.1 200 /);
    for (const attacker of attackers) attacker.destroy();
    console.log(`memory grew by ${((most - before) / MIB).toFixed(0)} MiB`);
    expect(most - before).toBeLessThan(200 * MIB);
    const listed = await fetch(`http://127.0.0.1:${node.httpPort}/api/queues?limit=10`);
    expect(listed.status).toBe(200);
  });
});
