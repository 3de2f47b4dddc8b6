import { once } from 'node:events';
import { type ClientReadableStream, credentials, type ServiceError } from '@grpc/grpc-js';
import { BackupCopy, backupRequest } from '@taskmaster/engine/testing';
import { type BackupPartitionResponse, BackupServiceClient, partitionOf } from '@taskmaster/proto';
import { anEnqueue, anUpdate, errorInfoOf, grpcClient } from '@taskmaster/server/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

const PARTITIONS = 16;
const MIB = 1024 * 1024;

let cluster: TestCluster;
let clients: BackupServiceClient[];
beforeEach(async () => {
  cluster = await startTestCluster({ colocated: true });
  clients = [];
});
afterEach(async () => {
  for (const client of clients) client.close();
  await cluster[Symbol.asyncDispose]();
});

/** So few bytes per second that a backup goes on until it is ended. */
const SLOW = { maxBytesPerSecond: 1 };

function ask(port: number, partition: number, change = {}): ClientReadableStream<BackupPartitionResponse> {
  const client = new BackupServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
  clients.push(client);
  return client.backupPartition(backupRequest(partition, change));
}

const read = (port: number, partition: number): Promise<BackupCopy> => BackupCopy.read(ask(port, partition));

const failureOf = (reading: Promise<unknown>): Promise<ServiceError> =>
  reading.then(
    () => expect.unreachable('the backup is complete'),
    (error: ServiceError) => error,
  );

const portOf = (place: number): number => cluster.nodes[place]?.server.port ?? 0;

/** Puts tasks of 1 MiB into a group of the node with this index. */
async function fill(place: number, tasks: number): Promise<number> {
  const group = cluster.groupAt(place);
  using client = grpcClient(cluster.port);
  for (let i = 0; i < tasks; i++) {
    await client.updateTasks(
      anUpdate({ enqueue: [anEnqueue({ queue: `${group}#q`, pid: Buffer.from([i]), data: Buffer.alloc(MIB, i) })] }),
    );
  }
  return partitionOf(group, PARTITIONS);
}

const running = (): number[] => cluster.nodes.map(({ engine }) => engine.figures().runningBackups);

/** Reads the first message and no further ones. */
async function readHeader(stream: ClientReadableStream<BackupPartitionResponse>): Promise<void> {
  await once(stream, 'readable');
  expect(stream.read()).toMatchObject({ part: { $case: 'header' } });
}

describe.each([
  ['a proxy', () => cluster.port],
  ['a node that holds none of it', () => portOf(0)],
  ['its holder', () => portOf(1)],
])('a backup that is asked of %s', (_, port) => {
  test('comes from the holder, whole and in order', async () => {
    const partition = await fill(1, 5);
    const copy = await read(port(), partition);
    expect(copy.header).toMatchObject({
      nodeId: 'node-1',
      clusterId: 'the-cluster',
      partition,
      partitions: PARTITIONS,
    });
    expect(copy.end).toMatchObject({ tasks: 5, queues: 1 });
    expect(copy.bytes).toBeGreaterThan(5 * MIB);
    expect(running()).toEqual([0, 0, 0]);
  });

  test('is refused like by any node if there is no such partition', async () => {
    const info = errorInfoOf(await failureOf(read(port(), PARTITIONS)));
    expect(info).toMatchObject({ reason: 'INVALID_ARGUMENT', metadata: { field: 'partition', max: '15' } });
  });

  test('costs no memory on the way while its client does not read', async () => {
    const partition = await fill(1, 40);
    const stream = ask(port(), partition);
    await readHeader(stream);
    const sent = (): number => cluster.nodes[1]?.engine.figures().backupBytes ?? 0;
    await eventually(() => expect(sent()).toBeGreaterThan(2 * MIB));
    await new Promise((resolve) => setTimeout(resolve, 300));
    // What the buffers of each connection hold.
    expect(sent()).toBeLessThan(25 * MIB);
    const rest = await BackupCopy.read(stream);
    expect(rest.end.tasks).toBe(40);
  });

  test('ends at the holder when its client cancels it', async () => {
    const partition = await fill(1, 1);
    const stream = ask(port(), partition, SLOW);
    stream.once('error', () => {});
    await readHeader(stream);
    await eventually(() => expect(running()).toEqual([0, 1, 0]));
    stream.cancel();
    await eventually(() => expect(running()).toEqual([0, 0, 0]));
  });

  test('ends with BACKUP_BROKEN if the partition is given up meanwhile', async () => {
    const partition = await fill(1, 1);
    const stream = ask(port(), partition, SLOW);
    await readHeader(stream);
    await cluster.nodes[1]?.engine.partitions.release(partition as never, 'node-2', 3);
    const error = await failureOf(BackupCopy.read(stream));
    expect(errorInfoOf(error)).toMatchObject({ reason: 'BACKUP_BROKEN', metadata: { partition: String(partition) } });
  });

  test('is refused with a retry delay if the holder sends as many as it may', async () => {
    const partition = await fill(1, 1);
    for (let i = 0; i < 4; i++) {
      const stream = ask(port(), partition, SLOW);
      stream.once('error', () => {});
      await readHeader(stream);
    }
    const error = await failureOf(read(port(), partition));
    expect(errorInfoOf(error)).toMatchObject({ reason: 'TOO_MANY_BACKUPS', metadata: { limit: '4' } });
  });

  test('ends with SHUTTING_DOWN when that server drains', async () => {
    const partition = await fill(1, 1);
    const stream = ask(port(), partition, SLOW);
    await readHeader(stream);
    const servers = [cluster, ...cluster.nodes.map(({ server }) => ({ port: server.port, server: server.server }))];
    servers.find((server) => server.port === port())?.server.drain();
    expect(errorInfoOf(await failureOf(BackupCopy.read(stream))).reason).toBe('SHUTTING_DOWN');
    await eventually(() => expect(running()).toEqual([0, 0, 0]));
  });
});

test('a backup follows its partition to the holder that a node names', async () => {
  const partition = await fill(1, 1);
  cluster.routes.set(partition, 2, 0);
  expect((await read(cluster.port, partition)).header.nodeId).toBe('node-1');
  expect(cluster.routes.learned).toMatchObject([{ partition, holder: { nodeId: 'node-1' } }]);
});

test('a node does not forward a backup that was sent to it as the holder', async () => {
  const partition = await fill(1, 1);
  cluster.routes.set(partition, 2, 9);
  const error = await failureOf(read(cluster.port, partition));
  expect(errorInfoOf(error).reason).toBe('HOLDER_UNREACHABLE');
});

test('other calls are served while backups of all nodes are not read', async () => {
  for (const place of [0, 1, 2]) {
    const stream = ask(cluster.port, await fill(place, 20));
    stream.once('error', () => {});
    await readHeader(stream);
  }
  using client = grpcClient(cluster.port);
  for (const place of [0, 1, 2]) {
    const enqueue = [anEnqueue({ queue: `${cluster.groupAt(place)}#q` })];
    const { enqueued } = await client.updateTasks(anUpdate({ enqueue }));
    expect(enqueued).toHaveLength(1);
  }
});
