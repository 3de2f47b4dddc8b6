import { fork } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';
import { type GossipMember, Seal } from '@taskmaster/server/gossip';
import type { MemberMeta } from '@taskmaster/server/ports';
import { aliveOf, GossipBench } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';

const meta = (name: string, incarnation = 1): MemberMeta => ({
  nodeId: `id-${name}`,
  name,
  role: 'node',
  rpcAddress: `${name}.test:7070`,
  version: '0.1.0',
  stateVersion: 0,
  incarnation,
});

/** Blocks this thread like a synchronous computation. */
const block = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end) {}
};
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function send(datagrams: readonly Buffer[], address: string): Promise<void> {
  const socket = createSocket('udp4');
  const [host, port] = address.split(':');
  for (const [index, datagram] of datagrams.entries()) {
    await new Promise((resolve) => socket.send(datagram, Number(port), host, resolve));
    // The receiver's socket buffer holds a few hundred datagrams.
    if (index % 50 === 49) await new Promise(setImmediate);
  }
  socket.close();
}

describe('gossip', { timeout: 60_000 }, () => {
  test('is not disturbed by 10,000 hostile datagrams', async () => {
    await using bench = new GossipBench();
    const a = await bench.open(meta('a'), []);
    const b = await bench.open(meta('b'), [a.gossipAddress]);
    await bench.until(() => aliveOf(a).length === 1 && aliveOf(b).length === 1);
    const before = a.peers();
    const sealOf = (clusterId: string, key: string, nodeId: string): Seal =>
      new Seal({ clusterId, keys: [key], nodeId, incarnation: 1, threadStart: 0 });
    const [ours, guessed, other] = [
      sealOf('cluster', 'a key', 'hostile'),
      sealOf('cluster', 'no key', 'b'),
      sealOf('other', 'a key', 'b'),
    ];
    const random = (length: number): Buffer => Buffer.from(Array.from({ length }, () => Math.random() * 256));
    const kinds = [0, 10, 11, 12, 13, 14];
    const shaped = (index: number): Buffer => Buffer.concat([Buffer.of(kinds[index % 6] ?? 0), random(index % 60)]);
    const repeated = ours.seal(Buffer.of(13, 0x81, 0xa3, 0x73, 0x65, 0x71, 0x01));
    const makers = [
      (index: number) => random(index % 1300),
      (index: number) => ours.seal(shaped(index)),
      (index: number) => guessed.seal(shaped(index)),
      (index: number) => other.seal(shaped(index)),
      () => repeated,
      () => Buffer.alloc(2000, 1),
    ];
    const bytesBefore = process.memoryUsage.rss();
    for (let round = 0; round < 10; round++) {
      const datagrams = Array.from({ length: 1000 }, (_, index) => {
        const maker = makers[index % makers.length];
        return maker ? maker(index) : Buffer.alloc(0);
      });
      await send(datagrams, a.gossipAddress);
    }
    await bench.until(() => Object.values(a.figures.refused).reduce((sum, count) => sum + count, 0) > 5000);
    for (const [reason, count] of Object.entries(a.figures.refused))
      expect({ reason, some: count > 100 }).toEqual({ reason, some: true });
    expect(a.peers()).toEqual(before);
    // Refused datagrams are not kept; the limit leaves room for garbage that is not collected yet.
    expect(process.memoryUsage.rss() - bytesBefore).toBeLessThan(100 * 2 ** 20);
    // Each reason is logged once.
    expect(bench.logged.filter((message) => message.includes('refused a datagram'))).toHaveLength(5);
  });

  test('says which port is in use', async () => {
    await using bench = new GossipBench();
    const a = await bench.openThread(meta('a'), []);
    const port = Number(a.gossipAddress.split(':')[1]);
    const second = bench.openThread(meta('b'), [], { listen: { host: '127.0.0.1', port } });
    await expect(second).rejects.toThrow(`gossip cannot listen on 127.0.0.1:${port} (UDP): the port is in use`);
  });

  test('finds a seed that starts later, beside one whose name never resolves', async () => {
    await using bench = new GossipBench();
    const probe = await bench.open(meta('probe'), []);
    const address = probe.gossipAddress;
    probe.close();
    const a = await bench.openThread(meta('a'), ['no-such-host.invalid:7000', address]);
    expect(a.peers()).toEqual([]);
    await bench.open(meta('b'), [], { port: Number(address.split(':')[1]) });
    await bench.until(() => aliveOf(a).length === 1);
  });

  test('notices a cut of the network on both sides, and its end', async () => {
    await using bench = new GossipBench();
    const names = ['a', 'b', 'c', 'd'];
    const members: GossipMember[] = [];
    for (const name of names) members.push(await bench.open(meta(name), members[0] ? [members[0].gossipAddress] : []));
    await bench.until(() => members.every((member) => aliveOf(member).length === 3));
    const left = new Set(members.slice(0, 2).map(({ gossipAddress }) => gossipAddress));
    bench.link = (from, to) => (left.has(from) === left.has(to) ? [0] : []);
    await bench.until(() => members.every((member) => aliveOf(member).length === 1));
    bench.link = undefined;
    const healed = await bench.until(() => members.every((member) => aliveOf(member).length === 3));
    expect(healed).toBeLessThan(5000);
  });

  test('declares no member dead while 30 % of datagrams are lost, 20 % doubled and all out of order', async () => {
    const seconds = Number(process.env.GOSSIP_LOSS_SECONDS ?? 10);
    await using bench = new GossipBench();
    bench.link = () => {
      const copies = Math.random() < 0.2 ? 2 : 1;
      return Array.from({ length: copies }, () => 1 + Math.random() * 20).filter(() => Math.random() >= 0.3);
    };
    const members: GossipMember[] = [];
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      members.push(await bench.open(meta(name), members[0] ? [members[0].gossipAddress] : []));
    }
    await bench.until(() => members.every((member) => aliveOf(member).length === 4));
    await pause(seconds * 1000);
    expect(members.reduce((sum, { figures }) => sum + figures.suspicions, 0)).toBeGreaterThan(0);
    expect(members.map(({ figures }) => figures.deaths)).toEqual([0, 0, 0, 0, 0]);
    const gone = members.pop();
    gone?.close();
    await bench.until(() => members.every((member) => aliveOf(member).length === 3));
  }, 7_200_000);

  test('does not declare a busy main loop dead, but one that hangs, until it runs again', async () => {
    await using bench = new GossipBench();
    // This thread is the main loop of both members. The watching one runs in a thread, so its figures show what it saw.
    const a = await bench.openThread(meta('a'), [], { hangAfterMs: 60_000 });
    const b = await bench.openThread(meta('b'), [a.gossipAddress], { hangAfterMs: 2500 });
    await bench.until(() => aliveOf(a).length === 1 && aliveOf(b).length === 1);
    block(1500);
    await pause(600);
    expect(a.figures().deaths).toBe(0);
    block(4500);
    await bench.until(() => a.figures().deaths === 1);
    await bench.until(() => aliveOf(a).length === 1 && aliveOf(b).length === 1);
    expect(b.figures()).toMatchObject({ hangs: 1, deaths: 0, threadRestarts: 0 });
  });

  test('recovers by itself after its process was paused', async () => {
    await using bench = new GossipBench();
    const a = await bench.open(meta('a'), []);
    const b = await bench.open(meta('b'), [a.gossipAddress]);
    const program = fileURLToPath(new URL('./programs/gossip-member.ts', import.meta.url));
    const child = fork(program, ['c', a.gossipAddress], { execArgv: ['--conditions=source'] });
    try {
      await bench.until(() => aliveOf(a).length === 2 && aliveOf(b).length === 2);
      child.kill('SIGSTOP');
      await bench.until(() => aliveOf(a).length === 1 && aliveOf(b).length === 1);
      await pause(3000);
      child.kill('SIGCONT');
      await bench.until(() => aliveOf(a).length === 2 && aliveOf(b).length === 2);
      child.send('figures');
      const [figures] = await once(child, 'message');
      expect(figures).toMatchObject({ deaths: 0, hangs: 0, threadRestarts: 0 });
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('restarts its thread if it ends, and keeps its address', async () => {
    await using bench = new GossipBench();
    const a = await bench.open(meta('a'), []);
    const started = once(process, 'worker');
    const b = await bench.openThread(meta('b'), [a.gossipAddress]);
    const [thread] = (await started) as [Worker];
    await bench.until(() => aliveOf(a).length === 1 && aliveOf(b).length === 1);
    const address = b.gossipAddress;
    const failures: string[] = [];
    b.on('failed', ({ message }) => failures.push(message));
    await thread.terminate();
    await bench.until(() => b.figures().threadRestarts === 1 && b.figures().datagramsIn > 0);
    b.announce({ stateVersion: 9 });
    await bench.until(() => a.peers()[0]?.stateVersion === 9);
    expect(a.peers()).toMatchObject([{ alive: true, gossipAddress: address }]);
    expect(failures).toEqual(['the gossip thread ended with code 1']);
  });

  test('replaces its key while it runs', async () => {
    await using bench = new GossipBench();
    const a = await bench.open(meta('a'), [], { keys: ['old', 'new'] });
    const b = await bench.open(meta('b'), [a.gossipAddress], { keys: ['new', 'old'] });
    const old = await bench.open(meta('c'), [a.gossipAddress], { keys: ['older'] });
    await bench.until(() => aliveOf(a).length === 1 && aliveOf(b).length === 1);
    await bench.until(() => a.figures.refused.unauthenticated > 0);
    expect(aliveOf(old)).toEqual([]);
  });
});
