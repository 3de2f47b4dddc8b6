import { describe, expect, test } from 'vitest';
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
  /** Functions to call when rows that are written with atoms can be read. */
  const written: (() => void)[] = [];
  const nothing = (): void => {};
  const atom = (pid: string, kind: 'enqueue' | 'change', data?: Uint8Array, isUrgent = kind === 'enqueue'): void => {
    pending.begin();
    const states = kind === 'enqueue' ? { after: availableState } : { before: availableState, after: availableState };
    const change = { kind, queueId, pid: pid as Pid, data, ...states } as Parameters<Queue['apply']>[1];
    pending.note(queue.apply(pending.last as Ticket, change, undefined), data !== undefined, isUrgent);
    written.push(pending.write(new WriteBatch(), 0) ?? nothing);
  };
  return {
    queue,
    pending,
    enqueue: (pid: string, data?: Uint8Array) => atom(pid, 'enqueue', data),
    /** A new task whose rows are written later. */
    defer: (pid: string, data?: Uint8Array) => atom(pid, 'enqueue', data, false),
    change: (pid: string, data?: Uint8Array) => atom(pid, 'change', data),
    /** A task is the last one with the order key 'k' from now on, or is it no longer. */
    changeLast: (pid: string, isLast: boolean) => {
      pending.begin();
      pending.note(queue.changeLast({ orderKey: 'k', pid: pid as Pid, isLast, isNew: isLast }), false, isLast);
      written.push(pending.write(new WriteBatch(), 0) ?? nothing);
    },
    applied: (count: number) => {
      pending.atomsApplied(count);
      for (const done of written.splice(0, count)) done();
    },
    /** Begins to write the rows of all tasks. */
    write: () => pending.write(new WriteBatch(), Number.POSITIVE_INFINITY) ?? nothing,
    pids: () => [...queue.pendingChanges()].map(({ pid }) => pid),
  };
}

test('a new task is pending until its atom is applied', () => {
  const { pending, enqueue, pids, applied } = setUp();
  enqueue('a');
  enqueue('b');
  expect([pending.last, pending.applied, pending.shown]).toEqual([2, 0, 0]);
  applied(1);
  expect([pending.last, pending.applied, pending.shown]).toEqual([2, 1, 1]);
  expect(pids()).toEqual(['b']);
});

test('a changed task is pending until its rows can be read, and no later atom is shown before', () => {
  const { pending, enqueue, change, write, pids, applied } = setUp();
  enqueue('a');
  change('a');
  enqueue('b');
  applied(3);
  expect([pending.applied, pending.shown]).toEqual([3, 1]);
  expect(pids()).toEqual(['a']);
  const written = write();
  expect([pending.stale, pending.shown]).toEqual([0, 1]);
  written();
  expect(pending.shown).toBe(3);
  expect(pids()).toEqual([]);
});

test('a task that changes while its rows are written stays pending until they are written again', () => {
  const { pending, enqueue, change, write, pids, applied } = setUp();
  enqueue('a');
  change('a');
  const first = write();
  change('a');
  applied(3);
  first();
  expect([pids(), pending.stale, pending.shown]).toEqual([['a'], 1, 2]);
  const second = write();
  second();
  expect([pids(), pending.shown]).toEqual([[], 3]);
});

test('rows that were written with their atom show it when both can be read', () => {
  const { pending, enqueue, change, write, pids, applied } = setUp();
  enqueue('a');
  change('a');
  const written = write();
  expect([pids(), pending.shown]).toEqual([['a'], 0]);
  applied(2);
  expect([pids(), pending.shown]).toEqual([['a'], 1]);
  written();
  expect([pids(), pending.shown]).toEqual([[], 2]);
});

test('a new task whose rows are written later is pending until they can be read', () => {
  const { pending, enqueue, defer, write, pids, applied } = setUp();
  defer('a');
  enqueue('b');
  applied(2);
  expect([pids(), pending.applied, pending.shown, pending.stale]).toEqual([['a'], 2, 0, 1]);
  write()();
  expect([pids(), pending.shown]).toEqual([[], 2]);
});

test('the last task of an order key is pending until its row can be read: a million keys cost no memory', () => {
  const { queue, pending, enqueue, changeLast, write, applied } = setUp();
  enqueue('a');
  changeLast('a', true);
  expect(queue.lastInOrder('k')?.last).toBe('a');
  applied(2);
  expect([queue.lastInOrder('k'), queue.isShown]).toEqual([undefined, true]);
  changeLast('a', false);
  changeLast('b', true);
  // It is not the last one any more, so its end changes nothing.
  changeLast('a', false);
  applied(3);
  expect([queue.lastInOrder('k')?.last, queue.isShown, pending.stale]).toEqual(['b', false, 1]);
  const written = write();
  using _hold = queue.hold();
  written();
  expect(queue.lastInOrder('k')?.last, 'a read that began before may not show it').toBe('b');
});

test.each([
  ['a new task, which finds none', true, 0],
  ['a task that others stood behind', false, 1],
])('an order key that ends with %s leaves no row', (_what, isNew, deletions) => {
  const { queue, pending } = setUp();
  for (const isLast of [true, false]) {
    pending.begin();
    pending.note(queue.changeLast({ orderKey: 'k', pid: 'a' as Pid, isLast, isNew }), false, false);
  }
  const rows = new WriteBatch();
  pending.write(rows, 10);
  expect(rows.count).toBe(deletions);
});

describe('a new payload stays in memory', () => {
  const DATA = Buffer.from('payload');
  const ROOM_BYTES = 8 * 1024 * 1024;

  test('until its atom is applied', () => {
    const { queue, defer, applied } = setUp();
    const data = (): Uint8Array | undefined => queue.pendingOf('a' as Pid)?.data;
    defer('a', DATA);
    expect(data()).toBe(DATA);
    applied(1);
    expect(data()).toBeUndefined();
  });

  test('until the rows are written, if it arrived during a read of the store', () => {
    const { queue, defer, write, pids, applied } = setUp();
    const hold = queue.hold();
    defer('a', DATA);
    applied(1);
    expect(queue.pendingOf('a' as Pid)?.data).toBe(DATA);
    hold[Symbol.dispose]();
    expect(queue.pendingOf('a' as Pid)?.data).toBe(DATA);
    write()();
    expect(pids()).toEqual([]);
  });

  test('although an earlier payload of the task is applied', () => {
    const { queue, defer, change, applied } = setUp();
    defer('a', Buffer.from('earlier'));
    change('a', DATA);
    applied(1);
    expect(queue.pendingOf('a' as Pid)?.data).toBe(DATA);
    applied(1);
    expect(queue.pendingOf('a' as Pid)?.data).toBeUndefined();
  });

  test('and counts towards the limit only if it stays after its atom is applied', () => {
    const { queue, pending, defer, applied } = setUp();
    defer('a', Buffer.alloc(2 * ROOM_BYTES));
    applied(1);
    expect(pending.excess).toBeLessThanOrEqual(0);
    using _hold = queue.hold();
    defer('b', Buffer.alloc(2 * ROOM_BYTES));
    expect(pending.excess).toBeLessThanOrEqual(0);
    applied(1);
    expect(pending.excess).toBeGreaterThan(0);
  });
});

test('an empty write in progress hides no stale rows behind it', () => {
  const { pending, enqueue, change, write, applied } = setUp();
  enqueue('a');
  const nothing = write();
  change('a');
  applied(2);
  expect(pending.shown).toBe(1);
  nothing();
  expect(pending.shown).toBe(1);
});

test('a read keeps the changes that the store shows after it began, and no earlier ones', () => {
  const { queue, enqueue, pids, applied } = setUp();
  enqueue('a');
  applied(1);
  const first = queue.hold();
  enqueue('b');
  applied(1);
  const second = queue.hold();
  enqueue('c');
  applied(1);
  expect(pids()).toEqual(['b', 'c']);
  first[Symbol.dispose]();
  expect(pids()).toEqual(['c']);
  second[Symbol.dispose]();
  expect(pids()).toEqual([]);
});

test('an endless sequence of overlapping reads keeps few changes', () => {
  const { queue, enqueue, pids, applied } = setUp();
  let hold = queue.hold();
  for (let i = 0; i < 1000; i++) {
    enqueue(`p${i}`);
    applied(1);
    const next = queue.hold();
    hold[Symbol.dispose]();
    hold = next;
  }
  expect(pids().length).toBeLessThanOrEqual(1);
});

test('a read that began between two showings of a task keeps the second', () => {
  const { queue, enqueue, change, write, pids, applied } = setUp();
  const first = queue.hold();
  enqueue('a');
  applied(1);
  const second = queue.hold();
  change('a');
  applied(1);
  write()();
  first[Symbol.dispose]();
  expect(pids()).toEqual(['a']);
  second[Symbol.dispose]();
  expect(pids()).toEqual([]);
});

test('the rows of an ended queue are not written', () => {
  const { queue, pending, enqueue, change, applied } = setUp();
  enqueue('a');
  change('a');
  queue.dropped = true;
  const rows = new WriteBatch();
  pending.write(rows, 10)?.();
  applied(2);
  expect([rows.count, pending.stale, pending.shown]).toEqual([0, 0, 2]);
});
