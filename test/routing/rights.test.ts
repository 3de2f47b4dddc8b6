import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import {
  BatchUpdateTasksResponse,
  BulkAction,
  encodeStreamEntries,
  encodeToBuffer,
  GetQueueStatsResponse,
  hashOfToken,
  PauseQueuesRequest,
  PauseQueuesResponse,
  ResumeQueuesRequest,
  ResumeQueuesResponse,
  StartBulkRunRequest,
  StreamResponse,
  TaskMasterServiceService,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { IdentitySeal } from '@taskmaster/server/calls';
import type { AuditEvent } from '@taskmaster/server/ports';
import { aBulkSpec, accessOf, aDequeue, anEnqueue, anUpdate, aRenew, errorInfoOf } from '@taskmaster/server/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

/* Whatever bytes a caller sends, it changes nothing that its rights do not cover: at a node with a router, and at a proxy. */

const ALL = ['enqueue', 'lease', 'read', 'manage-queues'] as const;
const principals = [
  { name: 'owner', tokens: [hashOfToken('tm_owner')], rights: [{ groups: ['*'], allow: ALL }] },
  // The group of the tasks is not theirs.
  { name: 'tenant', tokens: [hashOfToken('tm_tenant')], rights: [{ groups: ['', 'own'], allow: ALL }] },
  // They may only create tasks there.
  { name: 'feeder', tokens: [hashOfToken('tm_feeder')], rights: [{ groups: ['*'], allow: ['enqueue'] as const }] },
  // They may not create tasks, and see none but those that they lease.
  { name: 'worker', tokens: [hashOfToken('tm_worker')], rights: [{ groups: ['*'], allow: ['lease'] as const }] },
];

const access = accessOf({ principals });
const recorded: AuditEvent[] = [];
const guard = {
  access,
  audit: { record: (event: AuditEvent) => void recorded.push(event) },
  identities: new IdentitySeal(['a key for this test only']),
};

let cluster: TestCluster;
const targets: { readonly name: string; readonly client: Client }[] = [];
beforeAll(async () => {
  cluster = await startTestCluster({ nodes: 2, colocated: true, guard });
  for (const [name, port] of Object.entries({ node: cluster.nodes[0]?.server.port, proxy: cluster.port })) {
    targets.push({ name, client: new Client(`127.0.0.1:${port}`, credentials.createInsecure()) });
  }
});
afterAll(async () => {
  for (const { client } of targets) client.close();
  await cluster[Symbol.asyncDispose]();
});

const asIs = (bytes: Buffer): Buffer => bytes;
const { updateTasks, batchUpdateTasks, stream, getQueueStats } = TaskMasterServiceService;

function metadataOf(principal: string): Metadata {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer tm_${principal}`);
  return metadata;
}

function unary(client: Client, path: string, request: Uint8Array, principal: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const settle = (error: ServiceError | null, reply?: Buffer): void =>
      error === null ? resolve(reply ?? Buffer.alloc(0)) : reject(error);
    client.makeUnaryRequest(path, asIs, asIs, Buffer.from(request), metadataOf(principal), settle);
  });
}

const reasonOf = (error: unknown): string => errorInfoOf(error as ServiceError).reason;

/** The ways in which an update reaches the service. Each resolves with `served`, or with the reason of the refusal. */
const WAYS: Readonly<Record<string, (client: Client, update: Uint8Array, principal: string) => Promise<string>>> = {
  UpdateTasks: (client, update, principal) =>
    unary(client, updateTasks.path, update, principal).then(() => 'served', reasonOf),
  BatchUpdateTasks: async (client, update, principal) => {
    const length = [...varint(update.length)];
    const request = Buffer.concat([Buffer.from([0x0a, ...length]), update]);
    try {
      const { results } = BatchUpdateTasksResponse.decode(
        await unary(client, batchUpdateTasks.path, request, principal),
      );
      const [only] = results;
      return only?.result?.$case === 'error' ? only.result.value.reason : 'served';
    } catch (error) {
      return reasonOf(error);
    }
  },
  Stream: (client, update, principal) =>
    new Promise((resolve) => {
      const call = client.makeBidiStreamRequest(stream.path, asIs, asIs, metadataOf(principal));
      call.on('error', (error: unknown) => resolve(reasonOf(error)));
      call.on('data', (message: Buffer) => {
        const [answer] = StreamResponse.decode(message).results;
        resolve(answer?.result?.$case === 'error' ? answer.result.value.reason : 'served');
        call.end();
      });
      call.write(encodeStreamEntries([{ id: 1, field: 2, bytes: update }]));
    }),
};

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

const update = (change: Partial<UpdateTasksRequest>): Buffer => encodeToBuffer(UpdateTasksRequest, anUpdate(change));
const and = (...parts: readonly (string | Uint8Array)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part.replaceAll(' ', ''), 'hex') : part)));
const item = (list: number, content: Buffer): Buffer =>
  Buffer.from([(list << 3) | 2, ...varint(content.length), ...content]);
const text = (field: number, value: string): Buffer => item(field, Buffer.from(value));

/** Updates that change a task of the group of `queue`, in forms that are read in more than one way. */
function attacks(queue: string): Readonly<Record<string, Buffer>> {
  const dequeue = update({ dequeue: [aDequeue({ queue, leaseToken: 0 })] });
  const enqueue = update({ enqueue: [anEnqueue({ queue, pid: Buffer.from('b') })] });
  const own = text(1, 'own#mail');
  return {
    'a plain update': dequeue,
    'a field of the number 0 behind it': and(dequeue, '02 00'),
    'a field of the number 0 before it': and('02 00', dequeue),
    'a zero behind it': and(dequeue, '00'),
    'an end of a group behind it': and(dequeue, '0c'),
    'a group behind it': and(dequeue, '7b 7c'),
    'a tag of ten bytes behind it': and(dequeue, 'fa 80 80 80 80 80 80 80 80 00 00'),
    'a tag of ten bytes for the list': and('92 80 80 80 80 80 80 80 80 00', dequeue.subarray(1)),
    'a queue twice': item(2, Buffer.concat([own, text(1, queue), text(2, 'a')])),
    'an enqueue before it': and(item(1, own), dequeue),
    'an item of a queue without a name before it': and(item(1, text(1, 'own#')), dequeue),
    'an item without a queue before it': and('12 00', dequeue),
    'an explicit empty topic': item(1, and(text(1, queue), text(2, 'b'), '52 00')),
    'an explicit empty topic, and one in front': item(1, and(text(10, 'own#x'), text(1, queue), '52 00')),
    'an empty topic in front': item(1, and('52 00', text(1, queue))),
    'an item that ends early': item(2, and(text(1, queue), text(2, 'a'), '00', '08 07')),
    'an item of a wrong length': and('12 7f', text(1, queue)),
    parts: update({
      dequeue: [aDequeue({ queue, leaseToken: 0 })],
      parts: [{ enqueues: 0, dequeues: 1, renewals: 0, releases: 0 }],
    }),
    'a plain enqueue': enqueue,
    'an enqueue, and a field of the number 0 behind it': and(enqueue, '02 00'),
    'an enqueue and a dequeue': and(enqueue, dequeue),
    'a renewal': update({ renew: [aRenew({ queue, leaseToken: 1 })] }),
  };
}

/** The tasks of the queue. */
async function tasksOf(queue: string): Promise<object | undefined> {
  const request = getQueueStats.requestSerialize({ queues: [queue], filter: undefined });
  const reply = await unary(targets[0]?.client as Client, getQueueStats.path, request, 'owner');
  const [stats] = GetQueueStatsResponse.decode(reply).queues;
  return stats && { available: stats.available, completed: stats.completed };
}

const UNCHANGED = { available: 1, completed: 0 };
/** These say that the update had no effect: it is not a message, or the caller has no right. */
const REFUSED = ['PERMISSION_DENIED', 'MALFORMED_REQUEST', 'MIXED_GROUPS', 'INVALID_QUEUE', 'CONFLICTING_ITEMS'];

describe.each(Object.keys(WAYS))('%s', (way) => {
  test.each([
    ['of its own node', 0],
    ['of another node', 1],
  ])('changes no task that is not the caller’s, in a group %s', async (_where, place) => {
    const queue = `${cluster.groupAt(place)}#${way}`;
    const run = WAYS[way];
    if (run === undefined) throw new TypeError('no such way');
    const found: string[] = [];
    for (const { name, client } of targets) {
      expect(await run(client, update({ enqueue: [anEnqueue({ queue, pid: Buffer.from('a') })] }), 'owner')).toMatch(
        /served|TASK_EXISTS/,
      );
      for (const principal of ['tenant', 'feeder']) {
        for (const [what, bytes] of Object.entries(attacks(queue))) {
          if (principal === 'feeder' && !/dequeue|plain update|behind it|parts|renewal|twice/.test(what)) continue;
          if (principal === 'feeder' && /^an enqueue, and|^a plain enqueue/.test(what)) continue;
          recorded.length = 0;
          const outcome = await run(client, bytes, principal);
          if (!REFUSED.includes(outcome)) found.push(`${name}, ${principal}, ${what}: ${outcome}`);
          const tasks = await tasksOf(queue);
          if (JSON.stringify(tasks) !== JSON.stringify(UNCHANGED)) {
            found.push(`${name}, ${principal}, ${what}: ${JSON.stringify(tasks)}`);
            await run(client, update({ enqueue: [anEnqueue({ queue, pid: Buffer.from('a') })] }), 'owner');
          }
          if (outcome !== 'PERMISSION_DENIED') continue;
          const lines = recorded.filter((line) => line.result === outcome && line.principal === principal);
          if (!lines.some(({ kind }) => kind === 'refusal'))
            found.push(`${name}, ${principal}, ${what}: no audit line`);
        }
      }
    }
    expect(found).toEqual([]);
  });
});

test('a bulk run takes the rights of the single change, and is in the audit log', async () => {
  const { startBulkRun, listBulkRuns, cancelBulkRun } = TaskMasterServiceService;
  const { BULK_ACTION_DELETE, BULK_ACTION_MOVE } = BulkAction;
  for (const { name, client } of targets) {
    const queues = `shop#${name}*`;
    const start = (principal: string, action: BulkAction, preview = false): Promise<string> => {
      const target = action === BULK_ACTION_MOVE ? 'shop#x' : '';
      const spec = aBulkSpec({ action, target });
      const request = StartBulkRunRequest.encode({ id: `${name} ${action}`, queues, spec, preview, allTasks: false });
      return unary(client, startBulkRun.path, request.finish(), principal).then(() => 'served', reasonOf);
    };
    const outcomes = async (principal: string): Promise<string[]> => [
      await start(principal, BULK_ACTION_DELETE),
      await start(principal, BULK_ACTION_MOVE),
      await start(principal, BULK_ACTION_DELETE, true),
      await unary(client, listBulkRuns.path, listBulkRuns.requestSerialize({ queue: 'shop#', id: '' }), principal).then(
        () => 'served',
        reasonOf,
      ),
      await unary(
        client,
        cancelBulkRun.path,
        cancelBulkRun.requestSerialize({ queue: 'shop#', id: 'x' }),
        principal,
      ).then(() => 'served', reasonOf),
    ];
    const no = 'PERMISSION_DENIED';
    expect(await outcomes('feeder')).toEqual([no, no, no, no, no]);
    expect(await outcomes('worker')).toEqual(['served', no, no, no, 'served']);
    recorded.length = 0;
    expect(await outcomes('owner')).toEqual(['served', 'served', 'served', 'served', 'served']);
    const event = { kind: 'management', action: 'StartBulkRun', target: queues, result: 'ok', principal: 'owner' };
    const lines = recorded.filter(({ action }) => action === 'StartBulkRun').map(({ details }) => details?.bulk);
    expect(new Set(lines)).toEqual(new Set(['BULK_ACTION_DELETE', 'BULK_ACTION_MOVE']));
    expect(recorded).toContainEqual(expect.objectContaining(event));
  }
});

test('a pause names the principal of the caller, at a node and at a proxy, and is in the audit log with its reason', async () => {
  const { pauseQueues, resumeQueues } = TaskMasterServiceService;
  for (const { name, client } of targets) {
    for (const group of ['shop', 'mail', 'bills']) {
      const queues = `${group}#${name}*`;
      const request = PauseQueuesRequest.encode({ queues, reason: 'why', durationMs: 0, untilUnixMs: 0 }).finish();
      const resume = ResumeQueuesRequest.encode({ queues }).finish();
      expect(await unary(client, pauseQueues.path, request, 'feeder').then(() => 'served', reasonOf)).toBe(
        'PERMISSION_DENIED',
      );
      const { pause } = PauseQueuesResponse.decode(await unary(client, pauseQueues.path, request, 'owner'));
      expect(pause).toMatchObject({ queues, reason: 'why', pausedBy: 'owner' });
      const event = { kind: 'management', action: 'PauseQueues', target: queues, result: 'ok', principal: 'owner' };
      expect(recorded).toContainEqual(expect.objectContaining({ ...event, details: { reason: 'why' } }));
      expect(await unary(client, resumeQueues.path, resume, 'feeder').then(() => 'served', reasonOf)).toBe(
        'PERMISSION_DENIED',
      );
      const { resumed } = ResumeQueuesResponse.decode(await unary(client, resumeQueues.path, resume, 'owner'));
      expect(resumed).toBe(true);
    }
  }
});
