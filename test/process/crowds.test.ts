import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import { bytesCodec, connect } from '@taskmaster/client';
import {
  LeaseTasksRequest,
  PeekKind,
  PeekTasksRequest,
  StreamRequest,
  TaskMasterServiceService,
} from '@taskmaster/proto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import type { Running } from '../support/processes/child-process.ts';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { slowness } from '../support/slowness.ts';
import { aLease } from '../support/wire-client.ts';
import { startProgram } from './programs.ts';

/* Many clients that behave badly, and one that behaves well. */

const MIB = 1024 * 1024;
const UNREAD_BYTES = 32 * MIB;
/** Memory that V8 may not have collected yet. A leak would be several times larger. */
const GARBAGE_BYTES = 150 * MIB;
const noFigures = hasFigures ? '' : ' (skipped: needs Linux for figures of processes)';
const { leaseTasks, peekTasks, stream, updateTasks } = TaskMasterServiceService;

describe.skipIf(!hasFigures)(`a node among a crowd${noFigures}`, { timeout: 120_000 }, () => {
  let node: RunningNode;
  /** In its own process, so that it does not wait for the work of the crowd in this one. */
  let bystander: Running;

  beforeAll(async () => {
    node = await startNode({
      asShipped: true,
      flags: [`--grpc-max-unread-reply-bytes=${UNREAD_BYTES}`, '--log-level=error'],
    });
    bystander = await startProgram('bystander.ts', node.endpoint);
    await eventually(() => expect(rounds().length).toBeGreaterThan(0), { withinMs: 60_000 });
  }, 90_000);
  afterAll(async () => {
    await bystander[Symbol.asyncDispose]();
    await node[Symbol.asyncDispose]();
  });

  /** Durations of the bystander's rounds, in ms. */
  const rounds = (): number[] => bystander.stdout.trim().split('\n').filter(Boolean).map(Number);

  /** The bystander was served after round `since`, and still is. */
  async function expectBystanderServed(what: string, since: number): Promise<void> {
    const now = rounds().length;
    await eventually(() => expect(rounds().length).toBeGreaterThan(now + 10), { withinMs: 30_000 });
    expect(bystander.stderr).toBe('');
    const took = rounds()
      .slice(since)
      .sort((a, b) => a - b);
    const [median = 0, worst = 0] = [took[took.length >> 1], took.at(-1)];
    console.log(`${what}: a bystander's rounds took ${median} ms, ${worst} ms at worst`);
    const slow = await slowness();
    expect(median).toBeLessThan(200 * slow);
    // The requests of the crowd arrive together, and the node's one thread needs a second for them.
    expect(worst).toBeLessThan(8_000 * slow);
  }

  async function session(settings: { readonly initialWindowSize?: number } = {}): Promise<ClientHttp2Session> {
    // The node may cut the connection, or the test closes it during a call: both are expected.
    const opened = connectHttp2(`http://${node.endpoint}`, { settings }).on('error', () => {});
    await once(opened, 'connect');
    return opened;
  }

  const message = (bytes: Uint8Array): Buffer => {
    const header = Buffer.alloc(5);
    header.writeUInt32BE(bytes.length, 1);
    return Buffer.concat([header, bytes]);
  };

  function call(to: ClientHttp2Session, { path }: { readonly path: string }, ...messages: Uint8Array[]) {
    const request = to.request({
      [constants.HTTP2_HEADER_METHOD]: 'POST',
      [constants.HTTP2_HEADER_PATH]: path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    request.on('error', () => {});
    for (const bytes of messages) request.write(message(bytes));
    return request;
  }

  test('of 50 clients that request much and read nothing stays within its memory', async () => {
    const since = rounds().length;
    await using client = await connect(node.endpoint);
    const big = client.queue('big', { codec: bytesCodec });
    await big.enqueueMany(Array.from({ length: 200 }, () => ({ data: Buffer.alloc(10_000) })));
    const { rssBytes } = figuresOf(node.pid);
    const ask = PeekTasksRequest.encode({
      queue: 'big',
      kind: PeekKind.PEEK_KIND_HEAD,
      limit: 200,
      includeData: true,
      afterPid: Buffer.alloc(0),
    }).finish();
    // 50 clients with 40 replies of 2 MB each: 4 GB if the node kept them.
    const sessions = await Promise.all(Array.from({ length: 50 }, () => session({ initialWindowSize: 0 })));
    for (const one of sessions) for (let count = 0; count < 40; count++) call(one, peekTasks, ask).end();
    await eventually(() => expect(sessions.some(({ closed, destroyed }) => closed || destroyed)).toBe(true), {
      withinMs: 60_000,
    });
    await expectBystanderServed('50 clients that do not read', since);
    const grown = figuresOf(node.pid).rssBytes - rssBytes;
    console.log(`50 clients that do not read: ${(grown / MIB).toFixed(0)} MiB more`);
    expect(grown).toBeLessThan(UNREAD_BYTES + 2 * GARBAGE_BYTES);
    for (const one of sessions) one.destroy();
  });

  test('of 50 streams that send and never read stays within its memory', async () => {
    const since = rounds().length;
    const { rssBytes } = figuresOf(node.pid);
    const calls = Array.from({ length: 1_000 }, (_, id) => ({
      id,
      call: { $case: 'lease' as const, value: aLease({ queues: ['nothing'] }) },
    }));
    const bytes = StreamRequest.encode({ calls }).finish();
    const sessions = await Promise.all(Array.from({ length: 50 }, () => session({ initialWindowSize: 0 })));
    for (const one of sessions) call(one, stream, ...Array.from({ length: 2 }, () => bytes));
    // They have arrived, and their answers wait for a reader.
    await eventually(async () => expect(await metric('taskmaster_unread_reply_bytes')).toBeGreaterThan(50 * 1_000));
    await expectBystanderServed('50 streams that do not read', since);
    const grown = figuresOf(node.pid).rssBytes - rssBytes;
    console.log(`50 streams that do not read: ${(grown / MIB).toFixed(0)} MiB more`);
    expect(grown).toBeLessThan(UNREAD_BYTES + 2 * GARBAGE_BYTES);
    for (const one of sessions) one.destroy();
  });

  test('of connections that come and go leaks nothing', async () => {
    const since = rounds().length;
    const poll = LeaseTasksRequest.encode(aLease({ queues: ['nothing'], waitMs: 600_000 })).finish();
    const wave = async (isSeen = false): Promise<void> => {
      const some = await Promise.all(Array.from({ length: 100 }, () => session()));
      for (const one of some) {
        call(one, leaseTasks, poll).end();
        call(one, updateTasks);
        call(one, stream);
      }
      if (isSeen) await eventually(async () => expect(await metric('taskmaster_waiting_leases')).toBe(100));
      for (const one of some) one.destroy();
    };
    // The first waves leave code and buffers for all later ones.
    for (let count = 0; count < 2; count++) await wave(true);
    const before = await eventually(async () => {
      expect(await connections()).toBe(1);
      return figuresOf(node.pid);
    });
    for (let count = 0; count < 5; count++) await wave();
    await eventually(async () => expect(await connections()).toBe(1));
    await expectBystanderServed('500 connections that come and go', since);
    const after = figuresOf(node.pid);
    console.log(`500 connections that come and go: ${((after.rssBytes - before.rssBytes) / MIB).toFixed(0)} MiB more`);
    expect(after.descriptors).toBeLessThanOrEqual(before.descriptors + 3);
    expect(after.rssBytes - before.rssBytes).toBeLessThan(GARBAGE_BYTES);
  });

  test('of thousands of cancelled calls leaks nothing, and no connection suffers', async () => {
    const since = rounds().length;
    const poll = LeaseTasksRequest.encode(aLease({ queues: ['nothing'], waitMs: 600_000 })).finish();
    const storm = async (one: ClientHttp2Session): Promise<void> => {
      const calls = Array.from({ length: 200 }, () => call(one, leaseTasks, poll));
      for (const given of calls) given.end();
      for (const given of calls) given.close(constants.NGHTTP2_CANCEL);
      await Promise.all(calls.map((given) => once(given, 'close')));
    };
    const cancelled = () => metric('taskmaster_rpc_duration_seconds_count', 'method="LeaseTasks",code="CANCELLED"');
    const cancelledBefore = await cancelled();
    const sessions = await Promise.all(Array.from({ length: 10 }, () => session()));
    await Promise.all(sessions.map(storm));
    const before = figuresOf(node.pid);
    await Promise.all(sessions.map(storm));
    await eventually(async () => expect(await metric('taskmaster_waiting_leases')).toBe(0));
    // Not all: a call that is cancelled before it is sent never arrives.
    expect((await cancelled()) - cancelledBefore).toBeGreaterThan(1_000);
    await expectBystanderServed('4,000 cancelled calls', since);
    const after = figuresOf(node.pid);
    console.log(`4,000 cancelled calls: ${((after.rssBytes - before.rssBytes) / MIB).toFixed(0)} MiB more`);
    expect(after.rssBytes - before.rssBytes).toBeLessThan(GARBAGE_BYTES);
    for (const one of sessions) {
      const answer = call(one, updateTasks, Buffer.alloc(0));
      answer.end();
      const [head] = await once(answer, 'response');
      expect(head[constants.HTTP2_HEADER_STATUS]).toBe(200);
      one.destroy();
    }
  });

  test('of too many cancelled calls closes their connection, and no other', async () => {
    const since = rounds().length;
    const one = await session();
    const closed = new Promise((resolve) => one.once('close', resolve));
    while (!one.destroyed) {
      const calls = Array.from({ length: 200 }, () => call(one, leaseTasks));
      for (const given of calls) given.close(constants.NGHTTP2_CANCEL);
      const over = calls.map((given) => new Promise((resolve) => given.once('close', resolve)));
      await Promise.race([Promise.all(over), closed]);
    }
    await closed;
    await expectBystanderServed('one that cancels calls without end', since);
  });

  const connections = (): Promise<number> => metric('taskmaster_connections');

  /** 0 if there is no such series. */
  async function metric(name: string, labels = '.*'): Promise<number> {
    const metrics = await (await fetch(`http://127.0.0.1:${node.httpPort}/metrics`)).text();
    return Number(new RegExp(`^${name}(?:\\{${labels}\\})? (\\d+)$`, 'm').exec(metrics)?.[1] ?? 0);
  }
});
