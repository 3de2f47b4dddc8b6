import {
  AVAILABLE,
  type Instant,
  type LeaseToken,
  type PartitionId,
  type Pid,
  type QueueId,
  type Ticket,
} from '@taskmaster/server/domain';
import { expect, test } from 'vitest';
import { QueueLedger } from '../../log/queue-ledger.ts';
import { Queue } from './queue.ts';

const after = {
  enqueuedAt: 1 as Instant,
  dueAt: 1 as Instant,
  dataBytes: 0,
  attempts: 0,
  token: 0 as LeaseToken,
  retry: undefined,
  visibility: AVAILABLE,
};

function setUp() {
  const queueId = 1 as QueueId;
  const queue = new Queue(0 as PartitionId, new QueueLedger(queueId, { group: '', name: 'q' }));
  let ticket = 0;
  return {
    queue,
    /** Commits an enqueue that the store shows at once. */
    enqueue(pid: string): void {
      ticket++;
      const change = { kind: 'enqueue', queueId, pid: pid as Pid, after, data: undefined } as const;
      queue.shown(queue.apply(ticket as Ticket, change, undefined));
    },
    pending: () => [...queue.pendingChanges()].map(({ pid }) => pid),
  };
}

test('a read keeps the changes that are applied after it began, and no earlier ones', () => {
  const { queue, enqueue, pending } = setUp();
  enqueue('a');
  const first = queue.hold();
  enqueue('b');
  const second = queue.hold();
  enqueue('c');
  expect(pending()).toEqual(['b', 'c']);
  first[Symbol.dispose]();
  expect(pending()).toEqual(['c']);
  second[Symbol.dispose]();
  expect(pending()).toEqual([]);
});

test('an endless sequence of overlapping reads keeps few changes', () => {
  const { queue, enqueue, pending } = setUp();
  let hold = queue.hold();
  for (let i = 0; i < 1000; i++) {
    enqueue(`p${i}`);
    const next = queue.hold();
    hold[Symbol.dispose]();
    hold = next;
  }
  expect(pending().length).toBeLessThanOrEqual(1);
});
