import { formatQueueName, partitionOf } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import type { PartitionId } from './domain/ids.ts';
import { metaKeys } from './domain/keys.ts';
import { changesOf } from './memory/memory-rows.ts';
import type { PartitionExport } from './partitions/transfer/export-partition.ts';
import { Family, StoreFullError } from './ports/store.ts';
import type { WriteBatch } from './ports/write-batch.ts';
import { EngineHarness, type HarnessOptions, pidsOf } from './testing/engine-harness.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 4) as PartitionId;
const OTHER = 'mail#new';
const PO = partitionOf('mail', 4) as PartitionId;
const PIDS = ['1', '2', '3'];
const RETENTION_MS = 60_000;
const FULL = { reason: 'DISK_FULL' };

async function opened(ids: readonly PartitionId[], options: HarnessOptions = {}): Promise<EngineHarness> {
  const config = { partitions: 4, emptyQueueRetentionMs: RETENTION_MS };
  const h = new EngineHarness({ clustered: true, writeMs: 1, syncMs: 1, ...options, config });
  await h.open();
  if (ids.length > 0) await h.clock.run(h.engine.partitions.claim(ids.map((id) => ({ id, epoch: 1 }))));
  return h;
}

interface Sent {
  readonly leaving: PartitionExport;
  readonly rows: unknown[];
}

async function sentBy(h: EngineHarness): Promise<Sent> {
  const leaving = h.engine.partitions.export(P);
  const rows: unknown[] = [];
  const read = async (): Promise<void> => {
    for await (const part of leaving.rows()) rows.push(...part);
  };
  await h.clock.run(read());
  return { leaving, rows };
}

async function arrived(h: EngineHarness, { leaving, rows }: Sent, epoch: number) {
  const { partitions } = h.engine;
  const arriving = await h.clock.run(partitions.import({ id: P, epoch, ...leaving.offer, now: h.clock.now() }));
  await h.clock.run(arriving.addRows(rows as never));
  return arriving;
}

const everything = {
  matches: undefined,
  group: undefined,
  minAvailable: undefined,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};

async function listed(h: EngineHarness): Promise<string[]> {
  const command = { filter: everything, limit: 100, after: undefined };
  const { queues } = await h.clock.run(h.engine.listQueues(command));
  return queues.map(({ queue }) => formatQueueName(queue));
}

/** Makes the disk full for the next write after the holder's row is there. Returns how often the state is rebuilt. */
function refuseWhatFollowsTheHolder({ store }: EngineHarness): () => number {
  if (!store) throw new Error('the store is closed');
  let [refuses, builds] = [false, 0];
  const [write, scan] = [store.write.bind(store), store.scan.bind(store)];
  const isHolder = (batch: WriteBatch): boolean =>
    [...changesOf(batch)].some(({ family, key }) => family === Family.meta && key === metaKeys.holder(P));
  vi.spyOn(store, 'write').mockImplementation((batch, options) => {
    if (refuses) {
      refuses = false;
      return Promise.reject(new StoreFullError('the disk is full'));
    }
    const holder = isHolder(batch);
    return write(batch, options).then(() => {
      refuses ||= holder;
    });
  });
  vi.spyOn(store, 'scan').mockImplementation((family, range, limit) => {
    if (family === Family.queues && range.gte === '') builds++;
    return scan(family, range, limit);
  });
  return () => builds;
}

describe('the state that is rebuilt after a full disk', () => {
  test.each([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 40])(
    'has nothing of a partition that was given up meanwhile, after %d ms',
    async (ms) => {
      const from = await opened([P]);
      await from.clock.run(from.enqueue(QUEUE, PIDS));
      const h = await opened([P, PO], { readMs: 2 });
      const { partitions } = h.engine;
      await h.clock.run(h.enqueue(OTHER, ['1']));
      // A queue with the same name and id, empty for a while.
      await h.clock.run(h.enqueue(QUEUE, ['0']));
      await h.clock.run(h.update({ dequeue: [{ queue: QUEUE, pid: '0' }] }));
      await h.clock.advance(1_000);

      const refused = h.enqueue(OTHER, ['2']).catch((error: unknown) => error);
      h.disk.space = 'none';
      await h.clock.advance(1);
      expect(await refused).toMatchObject(FULL);
      h.disk.space = 'plenty';
      await h.clock.advance(ms);
      const by = { nodeId: 'b', epoch: 2 };
      await h.clock.run(partitions.supersede(P, by).catch(() => {}));
      await h.clock.advance(2_000);
      await h.clock.run(partitions.supersede(P, by));
      expect(await listed(h)).toEqual([OTHER]);

      await h.clock.run(partitions.take(await arrived(h, await sentBy(from), 3)));
      expect(await listed(h)).toEqual([OTHER, QUEUE]);
      await h.clock.advance(2 * RETENTION_MS);
      expect(await listed(h)).toEqual([OTHER, QUEUE]);
      expect(await h.clock.run(h.counts(QUEUE))).toMatchObject({ available: PIDS.length });
      await h.crash();
      expect(pidsOf(await h.clock.run(h.lease(QUEUE, { max: 9 })))).toEqual(PIDS);
    },
  );

  test.each(['taken', 'begun anew'])('has a partition that was %s just before, with all later changes', async (how) => {
    const from = await opened([P]);
    await from.clock.run(from.enqueue(QUEUE, PIDS));
    const h = await opened([PO], { readMs: 20 });
    const { partitions } = h.engine;
    await h.clock.run(h.enqueue(OTHER, ['1']));
    const arriving = how === 'taken' ? await arrived(h, await sentBy(from), 2) : undefined;
    const builds = refuseWhatFollowsTheHolder(h);
    const coming = arriving ? partitions.take(arriving) : partitions.claim([{ id: P, epoch: 2 }]);
    const added: string[] = [];
    const refused: string[] = [];
    for (let i = 0; i < 150; i++) {
      for (const queue of [OTHER, QUEUE]) {
        const pid = `${queue} x${i}`;
        void h.enqueue(queue, [pid]).then(
          () => added.push(pid),
          () => refused.push(pid),
        );
      }
      await h.clock.advance(3);
    }
    await h.clock.run(coming);
    expect(refused).not.toEqual([]);
    expect(builds()).toBe(1);
    await h.crash();
    const there = pidsOf(await h.clock.run(h.lease([OTHER, QUEUE], { max: 999 })));
    expect(there.sort()).toEqual(['1', ...(arriving ? PIDS : []), ...added].sort());
  });
});
