import { expect, test } from 'vitest';
import type { PartitionId, Pid, QueueId } from '../../domain/ids.ts';
import { metaKeys, queuePrefix, taskKey } from '../../domain/keys.ts';
import { Family } from '../../ports/store.ts';
import { WriteBatch } from '../../ports/write-batch.ts';
import { SeededRandom } from '../../testing/seeded-random.ts';
import { SimDisk } from '../../testing/sim-store.ts';
import { clearPartition } from './clear-partition.ts';

const P = 3 as PartitionId;
const EMPTY = new Uint8Array(0);

test.each([true, false])(
  'a partition that a crash left half cleared keeps its mark (atomic batches: %s)',
  async (atomicBatches) => {
    for (let seed = 1; seed <= 40; seed++) {
      for (const failing of [1, 2]) {
        const disk = new SimDisk({ random: new SeededRandom(seed), atomicBatches });
        const store = disk.open();
        const rows = new WriteBatch();
        for (const pid of ['1', '2', '3', '4']) {
          rows.put(Family.data, taskKey(queuePrefix(P, 1 as QueueId), pid as Pid), EMPTY);
        }
        rows.put(Family.meta, metaKeys.clear(P), EMPTY);
        await store.write(rows, { sync: true });

        disk.failSync(failing);
        await clearPartition(store, P).catch(() => {});
        disk.crash();
        const isMarked = disk.rowsOf(Family.meta).length > 0;
        if (!isMarked) expect(disk.rowsOf(Family.data), `seed ${seed}, sync ${failing}`).toEqual([]);
      }
    }
  },
);
