import {
  type Instant,
  type LeasedTask,
  type LeaseToken,
  type Pid,
  type UpdateCommand,
  UpdateRefusal,
} from '@taskmaster/engine/domain';
import { keptLog } from '@taskmaster/engine/testing';
import { ItemKind } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { openWatchedEngine } from '../../testing/watched-engine.ts';
import { giveBack } from './lease-within.ts';

const aTask = (pid: string, group = 'shop'): LeasedTask => ({
  queue: { group, name: 'mail' },
  pid: pid as Pid,
  data: Buffer.alloc(0),
  token: 1 as LeaseToken,
  until: 2 as Instant,
  attempt: 1,
  enqueuedAt: 1 as Instant,
  maxAttempts: 20,
  leaseDurationMs: undefined,
  timeLimitMs: 0,
  history: undefined,
  headerBytes: 0,
});

const lost = (queue: LeasedTask['queue'], pid: Pid, index: number): UpdateRefusal =>
  new UpdateRefusal([
    { kind: ItemKind.ITEM_KIND_RELEASE, index, queue, pid, reason: 'LEASE_LOST', message: 'the lease is lost' },
  ]);

test('other tasks are released if one of them has changed meanwhile', async () => {
  const released: string[] = [];
  const apply = async ({ release }: UpdateCommand) => {
    const index = release.findIndex(({ pid }) => pid === 'b');
    const changed = release[index];
    if (changed !== undefined) throw lost(changed.queue, changed.pid, index);
    released.push(...release.map(({ pid }) => pid));
    return { enqueued: [], renewed: [], released: [] };
  };
  giveBack(await openWatchedEngine({ updates: { apply } }), keptLog(), [aTask('a'), aTask('b'), aTask('c')]);
  await expect.poll(() => released).toEqual(['a', 'c']);
});

test('after a failure the leases end by themselves, and the release is not tried again', async () => {
  const apply = async () => {
    throw new Error('a fault');
  };
  const engine = await openWatchedEngine({ updates: { apply } });
  const log = keptLog();
  giveBack(engine, log, [aTask('a')]);
  await expect.poll(() => log.lines).toHaveLength(1);
  expect(engine.asked).toHaveLength(1);
});
