import { expect, test } from 'vitest';
import type { Instant, PartitionId, Ticket } from '../domain/ids.ts';
import { logKey, ticketOfLogKey } from '../domain/keys.ts';
import { ticketBehindEarlierLives } from './partition-row.ts';

const NOW = Date.UTC(2026, 0, 1) as Instant;

test('tickets of a partition that starts empty are larger than any of its earlier life', () => {
  const began = ticketBehindEarlierLives(NOW);
  const lived = 10_000;
  const used = 60 * lived;
  expect(ticketBehindEarlierLives((NOW + lived) as Instant)).toBeGreaterThan(began + used);
});

test.each([Date.UTC(2100, 0, 1), Date.UTC(9999, 0, 1), Number.MAX_SAFE_INTEGER])(
  'tickets fit into keys when the clock shows %d',
  (now) => {
    const last = (ticketBehindEarlierLives(now as Instant) + 1e12) as Ticket;
    expect(ticketOfLogKey(logKey(0 as PartitionId, last))).toBe(last);
  },
);
