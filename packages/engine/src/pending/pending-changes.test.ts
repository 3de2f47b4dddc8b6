import { expect, test } from 'vitest';
import type { PartitionId, Pid, QueueId, Ticket } from '../domain/ids.ts';
import { QueueLedger } from '../log/queue-ledger.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { availableState } from '../queues/cache/test-support.ts';
import { Queue } from '../queues/queue.ts';
import { PendingChanges } from './pending-changes.ts';

function setUp() {
  const queueId = 1 as QueueId;
  const queue = new Queue(0 as PartitionId, new QueueLedger(queueId, { group: '', name: 'q' }));
  const pending = new PendingChanges();
  const atom = (pid: string, kind: 'enqueue' | 'change'): void => {
    pending.begin();
    const states = kind === 'enqueue' ? { after: availableState } : { before: availableState, after: availableState };
    const change = { kind, queueId, pid: pid as Pid, data: undefined, ...states } as Parameters<Queue['apply']>[1];
    pending.note(queue.apply(pending.last as Ticket, change, undefined), kind === 'enqueue');
  };
  return {
    queue,
    pending,
    enqueue: (pid: string) => atom(pid, 'enqueue'),
    change: (pid: string) => atom(pid, 'change'),
    /** Begins to write the rows of all tasks. */
    write: () => pending.write(new WriteBatch(), Number.POSITIVE_INFINITY),
    pids: () => [...queue.pendingChanges()].map(({ pid }) => pid),
  };
}

test('a new task is pending until its atom is applied', () => {
  const { pending, enqueue, pids } = setUp();
  enqueue('a');
  enqueue('b');
  expect([pending.last, pending.applied, pending.shown]).toEqual([2, 0, 0]);
  pending.atomsApplied(1);
  expect([pending.last, pending.applied, pending.shown]).toEqual([2, 1, 1]);
  expect(pids()).toEqual(['b']);
});

test('a changed task is pending until its rows can be read, and no later atom is shown before', () => {
  const { pending, enqueue, change, write, pids } = setUp();
  enqueue('a');
  change('a');
  enqueue('b');
  pending.atomsApplied(3);
  expect([pending.applied, pending.shown]).toEqual([3, 1]);
  expect(pids()).toEqual(['a']);
  const written = write();
  expect([pending.stale, pending.shown]).toEqual([0, 1]);
  written();
  expect(pending.shown).toBe(3);
  expect(pids()).toEqual([]);
});

test('a task that changes while its rows are written stays pending until they are written again', () => {
  const { pending, enqueue, change, write, pids } = setUp();
  enqueue('a');
  change('a');
  const first = write();
  change('a');
  pending.atomsApplied(3);
  first();
  expect([pids(), pending.stale, pending.shown]).toEqual([['a'], 1, 2]);
  const second = write();
  second();
  expect([pids(), pending.shown]).toEqual([[], 3]);
});

test('rows that were written before their atom was applied do not show it', () => {
  const { pending, enqueue, change, write, pids } = setUp();
  enqueue('a');
  change('a');
  write()();
  expect([pids(), pending.shown]).toEqual([['a'], 0]);
  pending.atomsApplied(2);
  expect([pids(), pending.shown]).toEqual([[], 2]);
});

test('an empty write in progress hides no stale rows behind it', () => {
  const { pending, enqueue, change, write } = setUp();
  enqueue('a');
  const nothing = write();
  change('a');
  pending.atomsApplied(2);
  expect(pending.shown).toBe(1);
  nothing();
  expect(pending.shown).toBe(1);
});

test('a read keeps the changes that the store shows after it began, and no earlier ones', () => {
  const { queue, pending, enqueue, pids } = setUp();
  enqueue('a');
  pending.atomsApplied(1);
  const first = queue.hold();
  enqueue('b');
  pending.atomsApplied(1);
  const second = queue.hold();
  enqueue('c');
  pending.atomsApplied(1);
  expect(pids()).toEqual(['b', 'c']);
  first[Symbol.dispose]();
  expect(pids()).toEqual(['c']);
  second[Symbol.dispose]();
  expect(pids()).toEqual([]);
});

test('an endless sequence of overlapping reads keeps few changes', () => {
  const { queue, pending, enqueue, pids } = setUp();
  let hold = queue.hold();
  for (let i = 0; i < 1000; i++) {
    enqueue(`p${i}`);
    pending.atomsApplied(1);
    const next = queue.hold();
    hold[Symbol.dispose]();
    hold = next;
  }
  expect(pids().length).toBeLessThanOrEqual(1);
});

test('a read that began between two showings of a task keeps the second', () => {
  const { queue, pending, enqueue, change, write, pids } = setUp();
  const first = queue.hold();
  enqueue('a');
  pending.atomsApplied(1);
  const second = queue.hold();
  change('a');
  pending.atomsApplied(1);
  write()();
  first[Symbol.dispose]();
  expect(pids()).toEqual(['a']);
  second[Symbol.dispose]();
  expect(pids()).toEqual([]);
});

test('the rows of an ended queue are not written', () => {
  const { queue, pending, enqueue, change } = setUp();
  enqueue('a');
  change('a');
  queue.dropped = true;
  const rows = new WriteBatch();
  pending.write(rows, 10)();
  pending.atomsApplied(2);
  expect([rows.count, pending.stale, pending.shown]).toEqual([0, 0, 2]);
});
