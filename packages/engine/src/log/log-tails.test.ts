import { expect, test } from 'vitest';
import type { ApplyAtom } from '../domain/atom.ts';
import type { Instant, PartitionId, Ticket } from '../domain/ids.ts';
import { LogTails } from './log-tails.ts';

const PARTITION = 3 as PartitionId;

const atom = (ticket: number): ApplyAtom => ({
  partition: PARTITION,
  ticket: ticket as Ticket,
  at: 0 as Instant,
  created: [],
  changes: [],
  dropped: [],
  request: undefined,
});

test('a follower gets atoms in order, when the store shows all their changes', () => {
  const tails = new LogTails();
  const tail = tails.follow(PARTITION, 4 as Ticket);
  const told = () => tail.take(1_000_000).map(({ ticket }) => ticket);
  tails.committed(atom(5), 1);
  tails.committed(atom(6), 2);
  tails.committed(atom(7), 5);

  tails.shown(0);
  expect(told()).toEqual([]);
  tails.shown(1);
  expect(told()).toEqual([5]);
  tails.shown(4);
  expect(told()).toEqual([6]);
  tails.shown(5);
  expect(told()).toEqual([7]);
});

test('a later follower gets no earlier atoms', () => {
  const tails = new LogTails();
  tails.follow(PARTITION, 0 as Ticket);
  tails.committed(atom(1), 1);
  const later = tails.follow(PARTITION, 1 as Ticket);
  tails.committed(atom(2), 2);
  tails.shown(2);
  expect(later.take(1_000_000).map(({ ticket }) => ticket)).toEqual([2]);
});
