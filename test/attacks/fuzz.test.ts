import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { status as Status } from '@grpc/grpc-js';
import { connect } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import {
  BackupServiceService,
  BatchLeaseTasksRequest,
  BatchUpdateTasksRequest,
  ClusterServiceService,
  ExternalScalerService,
  HealthService,
  LeaseTasksRequest,
  PeerServiceService,
  StreamRequest,
  TaskMasterServiceService,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { aDequeue, aLease, anEnqueue, anUpdate, aRelease, aRenew, aRetry } from '@taskmaster/server/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { frame, grpcMessage, PREFACE, SETTINGS } from '../support/http2-frames.ts';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import { mutate, randomMessage } from './mutate.ts';

/* Whatever bytes come, a node and a proxy answer with a status or close the connection. Tasks stay as they are. */

/** Messages in calls for each program. As many go into frames, ten in a connection. A night takes a million. */
const MESSAGES = Number(process.env.TASKMASTER_FUZZ_MESSAGES ?? 3_000);
const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
/** Calls at the same time on one connection. */
const AT_ONCE = 50;
const FRAMES_EACH = 10;
const MIB = 1024 * 1024;
/** The caches and windows of a process that has just started grow, too. */
const MOST_GROWTH = 400 * MIB;
/** A fuzzed lease may wait, and a fuzzed watch never ends. */
const TIMEOUT = '500m';

const everything = anUpdate({
  enqueue: [anEnqueue(), anEnqueue({ pid: Buffer.alloc(0), retry: aRetry(), delayMs: 5 })],
  dequeue: [aDequeue()],
  renew: [aRenew({ pid: Buffer.from('b') })],
  release: [aRelease({ pid: Buffer.from('c'), delayMs: 1 })],
  requestId: Buffer.from('an id'),
});
const lease = aLease();

/** Valid requests by path. Other methods get messages with random fields. */
const VALID: Readonly<Record<string, Buffer>> = {
  [TaskMasterServiceService.updateTasks.path]: Buffer.from(UpdateTasksRequest.encode(everything).finish()),
  [TaskMasterServiceService.leaseTasks.path]: Buffer.from(LeaseTasksRequest.encode(lease).finish()),
  [TaskMasterServiceService.batchUpdateTasks.path]: Buffer.from(
    BatchUpdateTasksRequest.encode({ requests: [everything, anUpdate({ enqueue: [anEnqueue()] })] }).finish(),
  ),
  [TaskMasterServiceService.batchLeaseTasks.path]: Buffer.from(
    BatchLeaseTasksRequest.encode({ requests: [lease, lease] }).finish(),
  ),
  [TaskMasterServiceService.stream.path]: Buffer.from(
    StreamRequest.encode({
      calls: [
        { id: 1, call: { $case: 'update', value: everything } },
        { id: 2, call: { $case: 'lease', value: lease } },
        { id: 2, call: { $case: 'cancel', value: {} } },
      ],
    }).finish(),
  ),
};

const PATHS = [
  TaskMasterServiceService,
  ClusterServiceService,
  PeerServiceService,
  BackupServiceService,
  ExternalScalerService,
  HealthService,
].flatMap((service) => Object.values(service).map(({ path }) => path));

/** The gRPC status of a call with one message; undefined if the stream was reset. */
async function call(session: ClientHttp2Session, path: string, message: Buffer): Promise<number | undefined> {
  const headers = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers', 'grpc-timeout': TIMEOUT };
  const stream = session.request({ ...headers, ':path': path });
  let code: number | undefined;
  const read = (from: Record<string, unknown>): void => {
    if (from['grpc-status'] !== undefined) code = Number(from['grpc-status']);
  };
  stream.on('response', read).on('trailers', read);
  stream.on('error', () => {}); // It was reset.
  stream.end(grpcMessage(message));
  stream.resume();
  await new Promise((closed) => stream.once('close', closed));
  return code;
}

/** Calls every method with changed messages. Returns how often each status came. */
async function fuzzCalls(endpoint: string, random: SeededRandom): Promise<Map<number | undefined, number>> {
  const session = connectHttp2(`http://${endpoint}`);
  await once(session, 'connect');
  const codes = new Map<number | undefined, number>();
  let left = MESSAGES;
  const caller = async (): Promise<void> => {
    while (left-- > 0) {
      const path = random.pick(PATHS);
      const code = await call(session, path, mutate(VALID[path] ?? randomMessage(random), random));
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, caller));
  session.destroy();
  return codes;
}

/** The headers of a call in HPACK, without the Huffman code and without indexing. */
function headersOf(path: string): Buffer {
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  const field = (name: string, value: string): Buffer => Buffer.concat([Buffer.from([0]), text(name), text(value)]);
  const fields = { ':method': 'POST', ':scheme': 'http', ':path': path, ':authority': 'x', te: 'trailers' };
  const all = Object.entries({ ...fields, 'content-type': 'application/grpc' });
  return Buffer.concat(all.map(([name, value]) => field(name, value)));
}

/** The frames of one call, some of them changed. */
function fuzzedFrames(random: SeededRandom): Buffer {
  const stream = 1 + 2 * random.int(FRAMES_EACH);
  const path = random.pick(PATHS);
  const body = grpcMessage(VALID[path] ?? randomMessage(random));
  const frames = [frame(1, 4, stream, headersOf(path)), frame(0, random.int(2), stream, body)];
  if (random.chance(0.3)) frames.push(frame(random.int(10), random.int(256), stream, random.bytes(random.int(40))));
  const bytes = Buffer.concat(random.chance(0.2) ? random.shuffle(frames) : frames);
  return random.chance(0.7) ? mutate(bytes, random) : bytes;
}

/**
 * Sends frames that are wrong in some places, and resolves when the other side has closed each connection. Returns the number of
 * connections that it has answered.
 */
async function fuzzFrames(endpoint: string, random: SeededRandom): Promise<number> {
  const [host = '', port] = endpoint.split(':');
  let left = MESSAGES / FRAMES_EACH;
  let answered = 0;
  const sender = async (): Promise<void> => {
    while (left-- > 0) {
      // Errors of writes after the other side has closed the connection do not matter.
      const socket = connectSocket(Number(port), host).on('error', () => {});
      await once(socket, 'connect');
      socket.write(PREFACE);
      socket.write(SETTINGS);
      for (let sent = 0; sent < FRAMES_EACH; sent++) socket.write(fuzzedFrames(random));
      socket.end();
      socket.resume();
      if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
      if (socket.bytesRead > 0) answered++;
    }
  };
  await Promise.all(Array.from({ length: 10 }, sender));
  return answered;
}

describe(`${MESSAGES} changed messages and as many frames, seed ${SEED}`, { timeout: 120_000 + MESSAGES * 20 }, () => {
  let dir: TemporaryDirectory;
  let node: RunningNode;
  beforeAll(async () => {
    dir = await temporaryDirectory();
    const key = join(dir.path, 'key');
    await writeFile(key, 'a key that nobody can guess\n', { mode: 0o600 });
    // Calls of members are refused without the key, so that no forged one changes the cluster.
    const cluster = [
      '--name=a',
      '--bootstrap',
      '--gossip-port=0',
      '--engine-partitions=8',
      `--cluster-key-file=${key}`,
    ];
    // A busy machine answers a ping late. The node would close the connection of the calls, and refuse those on their way.
    const pings = ['--grpc-keepalive-time-ms=1000', '--grpc-keepalive-timeout-ms=20000'];
    node = await startNode({ asShipped: true, flags: [...cluster, ...pings] });
  });
  afterAll(async () => {
    await node?.[Symbol.asyncDispose]();
    await dir?.[Symbol.asyncDispose]();
  });

  test.each(['node', 'proxy'] as const)('a %s answers all of them and goes on', async (kind) => {
    const key = join(dir.path, 'key');
    await using proxy =
      kind === 'proxy'
        ? await startProxy([node.endpoint], [`--cluster-key-file=${key}`], undefined, [], true)
        : undefined;
    const { endpoint, process: attacked } = proxy ?? node;
    await using client = await connect(endpoint);
    // Another one for a repetition of the test, which may find tasks of the first run.
    const kept = client.queue<number>(`kept-${kind}-${randomUUID()}#tasks`);
    for (let number = 0; number < 10; number++) await kept.enqueue(number);
    const before = hasFigures ? figuresOf(attacked.pid).rssBytes : 0;

    const random = new SeededRandom(SEED);
    const codes = await fuzzCalls(endpoint, random);
    const answered = await fuzzFrames(endpoint, random);

    const names = Object.entries(Status).filter(([, code]) => typeof code === 'number' && codes.has(code));
    console.log(`${kind}: ${names.map(([name, code]) => `${codes.get(Number(code))} ${name}`).join(', ')}`);
    // All messages were sent, and some were accepted, and some refused as wrong.
    expect([...codes.values()].reduce((sum, count) => sum + count, 0)).toBe(MESSAGES);
    for (const code of [Status.OK, Status.INVALID_ARGUMENT]) expect(codes.get(code)).toBeGreaterThan(0);
    // A connection may be reset before its answer is read.
    expect(answered).toBeGreaterThan((0.5 * MESSAGES) / FRAMES_EACH);
    // A stream is reset only when a message is too long.
    for (const bug of [Status.UNKNOWN, Status.INTERNAL, undefined]) expect(codes.get(bug)).toBeUndefined();
    expect(await kept.lease({ max: 20 })).toHaveLength(10);
    expect((await client.cluster.members()).members.map(({ name }) => name)).toContain('a');
    expect(attacked.stderr).not.toMatch(/"level":"(error|fatal)"/);
    if (hasFigures) {
      const grown = figuresOf(attacked.pid).rssBytes - before;
      console.log(`${kind}: memory grew by ${(grown / MIB).toFixed(0)} MiB`);
      expect(grown).toBeLessThan(MOST_GROWTH);
    }
  });
});
