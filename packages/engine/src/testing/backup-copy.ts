import type { BackupEnd, BackupHeader, BackupPartitionRequest, BackupPartitionResponse } from '@taskmaster/proto';
import type { Instant, PartitionId, QueueId, Ticket } from '../domain/ids.ts';
import type { EngineHarness } from './engine-harness.ts';

/** The request for a whole partition, without limits of its own. */
export const backupRequest = (
  partition: number,
  change: Partial<BackupPartitionRequest> = {},
): BackupPartitionRequest => ({ partition, unchangedSince: undefined, maxBytesPerSecond: 0, ...change });

/** A backup of one partition, as it arrived. */
export class BackupCopy {
  readonly parts: BackupPartitionResponse[] = [];

  /** Reads all parts. `onPart` is called and awaited after each of them: a slow reader. */
  static async read(
    parts: AsyncIterable<BackupPartitionResponse>,
    onPart: (part: BackupPartitionResponse) => Promise<void> | void = () => {},
  ): Promise<BackupCopy> {
    const copy = new BackupCopy();
    for await (const part of parts) {
      copy.parts.push(part);
      await onPart(part);
    }
    return copy;
  }

  get header(): BackupHeader {
    const [first] = this.parts;
    if (first?.part?.$case !== 'header') throw new Error('the backup does not begin with a header');
    return first.part.value;
  }

  /** Throws if the backup is not complete. */
  get end(): BackupEnd {
    const last = this.parts.at(-1);
    if (last?.part?.$case !== 'end') throw new Error('the backup has no end');
    return last.part.value;
  }

  get kinds(): (string | undefined)[] {
    return this.parts.map(({ part }) => part?.$case);
  }

  /** Bytes of rows and log entries. */
  get bytes(): number {
    let bytes = 0;
    for (const { part } of this.parts) {
      if (part?.$case === 'rows') for (const { key, value } of part.value.rows) bytes += key.length + value.length;
      if (part?.$case === 'atoms') for (const { entry } of part.value.atoms) bytes += entry.length;
    }
    return bytes;
  }

  /** Has an engine that does not hold the partition hold the copy. Rejects if the copy does not match its end. */
  async restoreTo({ engine }: EngineHarness, epoch: number): Promise<void> {
    const { partition, nowMs, ticket, nextQueueId } = this.header;
    const arriving = await engine.partitions.import({
      id: partition as PartitionId,
      epoch,
      now: nowMs as Instant,
      ticket: ticket as Ticket,
      nextQueueId: nextQueueId as QueueId,
      life: nowMs,
    });
    for (const { part } of this.parts) {
      if (part?.$case === 'rows') await arriving.addRows(part.value.rows);
      if (part?.$case === 'atoms') await arriving.addAtoms(part.value.atoms);
    }
    const { lastTicket, tasks, queues } = this.end;
    arriving.assertComplete(lastTicket, tasks);
    const arrived = arriving.recovered.ledgers.size;
    if (arrived !== queues) throw new Error(`${arrived} queues arrived, ${queues} were sent`);
    await engine.partitions.take(arriving);
  }
}
