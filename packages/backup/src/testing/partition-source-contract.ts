import type {
  BackupEnd,
  BackupHeader,
  BackupPartitionRequest,
  BackupPartitionResponse,
  BackupPoint,
} from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { PartitionSource } from '../create/partition-source.ts';
import { PartitionCheck } from '../format/check-partition.ts';

/** A cluster without tasks. */
export interface PartitionSourceWorld extends AsyncDisposable {
  readonly source: PartitionSource;
  /** Number of partitions of the cluster, at least 2. */
  readonly partitions: number;
  /** Adds a task to partition 0. Resolves when it is acknowledged. */
  addTask(pid: string): Promise<void>;
  /** The next stream breaks behind its header, for a reason that does not last. */
  breakNextStream(): void;
}

interface Received {
  readonly header: BackupHeader;
  readonly end: BackupEnd;
  /** What lies between header and end. */
  readonly content: readonly BackupPartitionResponse[];
}

const request = (partition: number, unchangedSince?: BackupPoint): BackupPartitionRequest => ({
  partition,
  unchangedSince,
  maxBytesPerSecond: 0,
});

const pointOf = ({ header, end }: Received): BackupPoint => ({
  clusterId: header.clusterId,
  nodeId: header.nodeId,
  epoch: header.epoch,
  ticket: end.lastTicket,
});

/** What every implementation of `PartitionSource` must do. */
export function partitionSourceContract(name: string, open: () => Promise<PartitionSourceWorld>): void {
  describe(`${name} keeps the contract of sources of partitions`, () => {
    const { signal } = new AbortController();

    async function receive(source: PartitionSource, asked: BackupPartitionRequest): Promise<Received> {
      const check = new PartitionCheck(asked.partition);
      const content: BackupPartitionResponse[] = [];
      for await (const message of source.backupPartition(asked, { signal })) {
        check.next(message);
        if (message.part?.$case === 'rows' || message.part?.$case === 'atoms') content.push(message);
      }
      return { ...check.whole(), content };
    }

    const failureOf = (reading: Promise<unknown>): Promise<unknown> =>
      reading.then(
        () => expect.unreachable('the stream is complete'),
        (error: unknown) => error,
      );

    test('a partition comes with all acknowledged tasks, between a header and an end', async () => {
      await using world = await open();
      const { source, partitions } = world;
      for (const pid of ['a', 'b', 'c']) await world.addTask(pid);
      const full = await receive(source, request(0));
      expect(full.header).toMatchObject({ partition: 0, partitions, unchanged: false });
      expect(full.end).toMatchObject({ tasks: 3, queues: 1 });
      expect(full.content).not.toEqual([]);
      const empty = await receive(source, request(1));
      expect(empty.end).toMatchObject({ tasks: 0, queues: 0 });
      expect(empty.content).toEqual([]);
      expect([empty.header.clusterId, empty.header.nodeId]).toEqual([full.header.clusterId, full.header.nodeId]);
    });

    test('a partition that has not changed since a point comes without content', async () => {
      await using world = await open();
      const { source } = world;
      await world.addTask('a');
      const point = pointOf(await receive(source, request(0)));
      const again = await receive(source, request(0, point));
      expect(again.header.unchanged).toBe(true);
      expect(again.content).toEqual([]);
      await world.addTask('b');
      const changed = await receive(source, request(0, point));
      expect(changed.header.unchanged).toBe(false);
      expect(changed.end.tasks).toBe(2);
    });

    test.each([{ clusterId: 'another' }, { nodeId: 'another' }, { epoch: 99 }])(
      'a point of another life of the partition is ignored: %o',
      async (other) => {
        await using world = await open();
        const { source } = world;
        await world.addTask('a');
        const point = pointOf(await receive(source, request(0)));
        const { header, content } = await receive(source, request(0, { ...point, ...other }));
        expect(header.unchanged).toBe(false);
        expect(content).not.toEqual([]);
      },
    );

    test('a stream that breaks throws a temporary error, and the partition can be begun again', async () => {
      await using world = await open();
      const { source } = world;
      await world.addTask('a');
      world.breakNextStream();
      const error = await failureOf(receive(source, request(0)));
      expect(source.isTemporary(error)).toBe(true);
      expect((await receive(source, request(0))).end.tasks).toBe(1);
    });

    test('a partition that does not exist throws an error that is not temporary', async () => {
      await using world = await open();
      const { source, partitions } = world;
      const error = await failureOf(receive(source, request(partitions)));
      expect(source.isTemporary(error)).toBe(false);
      expect(source.isTemporary(new Error('of the program itself'))).toBe(false);
    });

    test('the signal ends a stream, also before its first message', async () => {
      await using world = await open();
      const { source } = world;
      await world.addTask('a');
      for (const messages of [0, 1]) {
        const giveUp = new AbortController();
        const stream = source.backupPartition(request(0), { signal: giveUp.signal })[Symbol.asyncIterator]();
        for (let taken = 0; taken < messages; taken++) expect((await stream.next()).done).toBe(false);
        giveUp.abort();
        const rest = async (): Promise<void> => {
          while (!(await stream.next()).done);
        };
        await failureOf(rest());
      }
      expect((await receive(source, request(0))).end.tasks).toBe(1);
    });

    test('a reader may stop early', async () => {
      await using world = await open();
      const { source } = world;
      await world.addTask('a');
      for await (const { part } of source.backupPartition(request(0), { signal })) {
        expect(part?.$case).toBe('header');
        break;
      }
      expect((await receive(source, request(0))).end.tasks).toBe(1);
    });
  });
}
