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
    /** Commits and applies an enqueue. */
    enqueue(pid: string): void {
      ticket++;
      const change = { kind: 'enqueue', queueId, pid: pid as Pid, after, data: undefined } as const;
      queue.applied(queue.apply(ticket as Ticket, change, undefined), ticket as Ticket);
    },
    recent: () => [...queue.recentChanges()].map(([pid]) => pid),
  };
}

test('a read keeps the changes that are applied after it began, and no earlier ones', () => {
  const { queue, enqueue, recent } = setUp();
  enqueue('a');
  const first = queue.hold();
  enqueue('b');
  const second = queue.hold();
  enqueue('c');
  expect(recent()).toEqual(['b', 'c']);
  queue.release(first);
  expect(recent()).toEqual(['c']);
  queue.release(second);
  expect(recent()).toEqual([]);
});

test('an endless sequence of overlapping reads keeps few changes', () => {
  const { queue, enqueue, recent } = setUp();
  let hold = queue.hold();
  for (let i = 0; i < 1000; i++) {
    enqueue(`p${i}`);
    const next = queue.hold();
    queue.release(hold);
    hold = next;
  }
  expect(recent().length).toBeLessThanOrEqual(1);
});
