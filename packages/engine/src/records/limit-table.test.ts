import { QueueLimit } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { Instant, Pid } from '../domain/ids.ts';
import type { Queue } from '../queues/queue.ts';
import { LimitTable } from './limit-table.ts';

const NOTHING = {
  maxLeased: 0,
  limitedBy: '',
  sinceUnixMs: 0,
  leased: 0,
  keys: '',
  heldKeys: [],
  heldKeyCount: 0,
  heldTasks: 0,
  usedUpSinceUnixMs: 0,
};

test('tokens cost nothing to limits that wait for theirs', () => {
  const start = 1_000_000;
  let now = start;
  let looks = 0;
  const clock = {
    now: (): Instant => {
      looks++;
      return now as Instant;
    },
  };
  const armed: number[] = [];
  const table = new LimitTable(clock, (at) => armed.push(at - start));
  const limits = Array.from({ length: 1_000 }, (_, number) => {
    const group = `g${number}`;
    const rate = { tasks: 1, perMs: 1_000 + number, burst: 1 };
    const data = QueueLimit.encode({ ...NOTHING, queues: `${group}#q`, rate }).finish();
    const records = { ledger: { name: { group, name: 'limits' } } } as Queue;
    table.adopt(records, new Map([['q' as Pid, { data, hidden: undefined }]]));
    const [limit] = table.list(group);
    const ledger = { available: 1, leased: 0, dueFloor: Number.MAX_SAFE_INTEGER };
    const queue = { ledger } as unknown as Queue;
    limit?.add(queue);
    ledger.leased = 1;
    limit?.note(queue, 1, false);
    return limit;
  });
  expect([table.usedUp.size, armed, table.refillsAt - start]).toEqual([1_000, [1_000], 1_000]);
  looks = 0;
  for (now = start; now <= start + 1_005; now++) if (now >= table.refillsAt) table.refill(now as Instant);
  expect(table.takeFreed()).toEqual(limits.slice(0, 6));
  expect([table.usedUp.size, table.refillsAt - start]).toEqual([994, 1_006]);
  expect(looks).toBeLessThan(100);
});
