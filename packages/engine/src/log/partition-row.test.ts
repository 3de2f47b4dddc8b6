import { expect, test } from 'vitest';
import type { Instant, PartitionId, QueueId, Ticket } from '../domain/ids.ts';
import { logKey, ticketOfLogKey } from '../domain/keys.ts';
import { decodePartitionRow, encodePartitionRow, ticketBehindEarlierLives } from './partition-row.ts';

const NOW = Date.UTC(2026, 0, 1) as Instant;

test('tickets of a partition that starts empty are larger than any of its earlier life', () => {
  const began = ticketBehindEarlierLives(NOW);
  const lived = 10_000;
  const used = 60 * lived;
  expect(ticketBehindEarlierLives((NOW + lived) as Instant)).toBeGreaterThan(began + used);
});

test('the row of an earlier build has no epoch, or no life either', () => {
  const row = { appliedTicket: 300 as Ticket, nextQueueId: 7 as QueueId, life: NOW, lastEpoch: 5 };
  const bytes = encodePartitionRow(row);
  expect(decodePartitionRow(bytes)).toEqual(row);
  const withoutEpoch = { ...row, lastEpoch: undefined };
  expect(decodePartitionRow(bytes.subarray(0, -1))).toEqual(withoutEpoch);
  expect(decodePartitionRow(encodePartitionRow(withoutEpoch))).toEqual(withoutEpoch);
  const ofLife = encodePartitionRow({ ...withoutEpoch, life: 0 }).length - 1;
  expect(decodePartitionRow(bytes.subarray(0, ofLife))).toEqual({ ...withoutEpoch, life: 0 });
});

test.each([Date.UTC(2100, 0, 1), Date.UTC(9999, 0, 1), Number.MAX_SAFE_INTEGER])(
  'tickets fit into keys when the clock shows %d',
  (now) => {
    const last = (ticketBehindEarlierLives(now as Instant) + 1e12) as Ticket;
    expect(ticketOfLogKey(logKey(0 as PartitionId, last))).toBe(last);
  },
);
