import type { Instant, PartitionId, Ticket } from '@taskmaster/server/domain';
import { expect, test } from 'vitest';
import type { ApplyAtom } from '../domain/atom.ts';
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

test('a follower gets atoms in order, when they and the rows of their tasks can be read', () => {
  const tails = new LogTails();
  const tail = tails.follow(PARTITION, 4 as Ticket);
  const told = () => tail.take(1_000_000).map(({ ticket }) => ticket);
  tails.committed(atom(5), { atoms: 1, tasks: 2 });
  tails.committed(atom(6), { atoms: 2, tasks: 2 });
  tails.committed(atom(7), { atoms: 3, tasks: 5 });

  tails.applied({ atoms: 3, tasks: 1 });
  expect(told()).toEqual([]);
  tails.applied({ atoms: 1, tasks: 4 });
  expect(told()).toEqual([5]);
  tails.applied({ atoms: 3, tasks: 4 });
  expect(told()).toEqual([6]);
  tails.applied({ atoms: 3, tasks: 5 });
  expect(told()).toEqual([7]);
});

test('a later follower gets no earlier atoms', () => {
  const tails = new LogTails();
  tails.follow(PARTITION, 0 as Ticket);
  tails.committed(atom(1), { atoms: 1, tasks: 0 });
  const later = tails.follow(PARTITION, 1 as Ticket);
  tails.committed(atom(2), { atoms: 2, tasks: 0 });
  tails.applied({ atoms: 2, tasks: 0 });
  expect(later.take(1_000_000).map(({ ticket }) => ticket)).toEqual([2]);
});
