import { setImmediate as turn } from 'node:timers/promises';
import {
  type BackupPartitionRequest,
  type BackupPartitionResponse,
  type BackupPoint,
  type TransferredRow,
  TransferredRowKind,
} from '@taskmaster/proto';
import type { PartitionSource } from '../create/partition-source.ts';
import type { BackupEvent } from '../read/read-backup.ts';

/** The stream of a partition broke; it can be begun again. */
export class BrokenStreamError extends Error {
  override readonly name = 'BrokenStreamError';
}

interface FakePartition {
  rows: TransferredRow[];
  ticket: number;
}

/** A cluster with rows in memory that answers as holders do, except that the rows have no meaning. */
export class FakePartitions implements PartitionSource {
  clusterId = 'c1';
  nodeId = 'n1';
  epoch = 1;
  nowMs = 1_000_000;
  formatVersion = 1;
  /** The calls, in order. */
  readonly asked: BackupPartitionRequest[] = [];
  /** Called before each message but the first of a stream. May throw. */
  onMessage: (partition: number, index: number) => void | Promise<void> = () => {};
  readonly #partitions: readonly FakePartition[];

  constructor(count: number) {
    this.#partitions = Array.from({ length: count }, () => ({ rows: [], ticket: 0 }));
  }

  /** Commits a task. */
  add(partition: number, pid: string, value: Uint8Array = Buffer.from(`data of ${pid}`)): void {
    const fake = this.#partitions[partition];
    if (!fake) throw new RangeError(`no partition ${partition}`);
    fake.ticket++;
    const kind = TransferredRowKind.TRANSFERRED_ROW_KIND_DATA;
    fake.rows.push({ kind, queueId: 1, key: Buffer.from(pid), value: Buffer.from(value), window: 0 });
  }

  /** PIDs and data by partition. */
  get content(): readonly (readonly string[])[] {
    return this.#partitions.map(({ rows }) => rows.map(textOf));
  }

  /** Partitions whose rows were asked for. */
  get sent(): readonly number[] {
    return this.asked.slice(1).map(({ partition }) => partition);
  }

  isTemporary(error: unknown): boolean {
    return error instanceof BrokenStreamError;
  }

  async *backupPartition(
    request: BackupPartitionRequest,
    { signal }: { readonly signal: AbortSignal },
  ): AsyncGenerator<BackupPartitionResponse> {
    this.asked.push(request);
    const { partition } = request;
    const fake = this.#partitions[partition];
    if (!fake) throw new RangeError(`no partition ${partition}`);
    const { clusterId, nodeId, epoch, nowMs, formatVersion } = this;
    const { ticket } = fake;
    const unchanged = this.#is(request.unchangedSince, ticket);
    const tasks = fake.rows.length;
    yield {
      part: {
        $case: 'header',
        value: {
          formatVersion,
          clusterId,
          nodeId,
          partition,
          partitions: this.#partitions.length,
          epoch,
          nowMs,
          ticket,
          nextQueueId: 2,
          unchanged,
          requestWindowMs: 60_000,
          tasks,
        },
      },
    };
    const rows = unchanged ? [] : [...fake.rows];
    for (const [index, row] of rows.entries()) {
      await turn();
      await this.onMessage(partition, index);
      signal.throwIfAborted();
      yield { part: { $case: 'rows', value: { rows: [row] } } };
    }
    await this.onMessage(partition, rows.length);
    signal.throwIfAborted();
    yield { part: { $case: 'end', value: { lastTicket: ticket, tasks, queues: Math.min(1, tasks) } } };
  }

  #is(point: BackupPoint | undefined, ticket: number): boolean {
    const { clusterId, nodeId, epoch } = this;
    return (
      point?.clusterId === clusterId && point.nodeId === nodeId && point.epoch === epoch && point.ticket === ticket
    );
  }
}

const textOf = ({ key, value }: TransferredRow): string =>
  `${Buffer.from(key).toString()}=${Buffer.from(value).toString('latin1')}`;

/** What the events of a backup have, by partition, as `FakePartitions.content`. */
export function partitionsOf(events: readonly BackupEvent[]): (readonly string[])[] {
  const partitions: string[][] = [];
  for (const event of events) {
    if (event.kind === 'begin') partitions[event.header.partition] = [];
    if (event.kind === 'rows') partitions[event.partition]?.push(...event.rows.map(textOf));
  }
  return partitions;
}
