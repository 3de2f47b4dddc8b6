import type { BackupOptions } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { connectionLost, overloaded } from '@taskmaster/client/testing';
import type { BackupPartitionResponse } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

const end = (lastTicket: number): BackupPartitionResponse => ({
  part: { $case: 'end', value: { lastTicket, tasks: 0, queues: 0 } },
});
const rows: BackupPartitionResponse = { part: { $case: 'rows', value: { rows: [] } } };

/** A client whose node sends these parts, an error where it fails. */
function setUp(...sent: (BackupPartitionResponse | Error)[]) {
  const { client, timing, transport } = clientSetUp();
  const over = { count: 0 };
  transport.streamed = async function* () {
    try {
      for (const part of sent) {
        if (part instanceof Error) throw part;
        yield part;
      }
    } finally {
      over.count++;
    }
  };
  const read = async (options?: BackupOptions): Promise<(string | undefined)[]> => {
    const kinds: string[] = [];
    for await (const { $case } of client.cluster.backupPartition(3, options)) kinds.push($case);
    return kinds;
  };
  return { client, timing, transport, asked: transport.arrived.backupPartition, over, read };
}

describe('a backup of a partition', () => {
  test('returns its parts in order, and passes the request on', async () => {
    const { read, asked } = setUp(rows, rows, end(7));
    const unchangedSince = { clusterId: 'c', nodeId: 'n', epoch: 1, ticket: 5 };
    expect(await read({ unchangedSince, maxBytesPerSecond: 1_000 })).toEqual(['rows', 'rows', 'end']);
    expect(asked).toEqual([{ partition: 3, unchangedSince, maxBytesPerSecond: 1_000 }]);
  });

  test('requests a part from the node only when its caller reads one', async () => {
    const { client, asked, over } = setUp(rows, rows, end(7));
    const parts = client.cluster.backupPartition(3);
    expect(asked).toEqual([]);
    await parts.next();
    await parts.return?.();
    expect(over.count).toBe(1);
  });

  test('is repeated before the first part: a node with its maximum of backups is asked again', async () => {
    const { read, transport, timing } = setUp(end(1));
    const busy = makeError('busy', { reason: 'TOO_MANY_BACKUPS', retryDelayMs: 1_000 });
    transport.faults.backupPartition.push({ when: 'before', error: connectionLost() }, { when: 'before', error: busy });
    const reading = read();
    await timing.advance(2_000);
    expect(await reading).toEqual(['end']);
  });

  test('is not repeated after the first part', async () => {
    const broken = makeError('it moved', { reason: 'BACKUP_BROKEN', maybeApplied: true });
    const { read, asked } = setUp(rows, broken);
    await expect(read()).rejects.toMatchObject({
      name: 'UnavailableError',
      reason: 'BACKUP_BROKEN',
      retryable: true,
      maybeApplied: false,
    });
    expect(asked).toHaveLength(1);
  });

  test('has a timeout for the first part, and none for the others', async () => {
    const { transport, timing, read } = setUp();
    let late = 15_000;
    transport.streamed = async function* () {
      await new Promise<void>((resolve) => timing.after(late, resolve));
      yield rows;
      await new Promise<void>((resolve) => timing.after(60_000, resolve));
      yield end(1);
    };
    late = 5_000;
    const complete = read();
    await timing.advance(70_000);
    expect(await complete).toEqual(['rows', 'end']);
    transport.silent = true;
    const silent = expect(read({ timeout: '3s' })).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED' });
    await timing.advance(3_000);
    await silent;
    expect(timing.timers).toBe(0);
  });

  test('reports the last refusal when its time is over', async () => {
    const { read, transport, timing } = setUp(end(1));
    transport.faults.backupPartition.push(
      ...Array.from({ length: 20 }, () => ({ when: 'before', error: overloaded() }) as const),
    );
    const reading = expect(read()).rejects.toMatchObject({ reason: 'OVERLOADED', maybeApplied: false });
    await timing.advance(10_000);
    await reading;
  });

  test.each([
    ['without an end', [rows]],
    ['without any part', []],
    ['with a part of a newer release', [{ part: undefined }, end(1)]],
  ])('%s is an error', async (_, sent) => {
    await expect(setUp(...sent).read()).rejects.toMatchObject({ reason: 'INTERNAL', maybeApplied: false });
  });

  test('that is cancelled before it begins asks no node', async () => {
    const { read, asked } = setUp(end(1));
    await expect(read({ signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'CancelledError' });
    expect(asked).toEqual([]);
  });

  test.each([
    [-1, {}],
    [0.5, {}],
    [0, { maxBytesPerSecond: -1 }],
    [0, { maxBytesPerSecond: Number.NaN }],
  ])('of partition %d with %j is a TypeError', (partition, options) => {
    const { client } = setUp();
    expect(() => client.cluster.backupPartition(partition, options)).toThrow(TypeError);
  });
});

describe('a failed backup is told', () => {
  const failure = { partition: 0, unchangedSince: undefined, maxBytesPerSecond: 0, failure: 'no space' };

  test('to the holder of the first partition', async () => {
    const { client, asked, over } = setUp(end(0));
    await client.cluster.reportFailedBackup('no space');
    expect(asked).toEqual([failure]);
    expect(over.count).toBe(1);
  });

  test('to an earlier release, which begins to send the partition instead', async () => {
    const { client, over } = setUp(rows, rows, end(7));
    await client.cluster.reportFailedBackup('no space');
    expect(over.count).toBe(1);
  });
});
