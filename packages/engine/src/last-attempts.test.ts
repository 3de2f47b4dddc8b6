import { parseQueueName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { Instant, LeaseToken, PartitionId, QueueId, Ticket } from './domain/ids.ts';
import { LastAttempts } from './last-attempts.ts';
import { QueueLedger } from './log/queue-ledger.ts';
import { newState } from './operations/attempts.ts';
import { waitsOf, withWaits } from './operations/flows/waiting.ts';
import { Queue } from './queues/queue.ts';

const NOW = 1_000 as Instant;
const LATER = 100_000 as Instant;

test('a task that waited at the start counts as one of these until it ends', () => {
  const queue = new Queue(0 as PartitionId, new QueueLedger(1 as QueueId, parseQueueName('g#q')));
  queue.ledger.starting = 1;
  queue.ledger.dueFloor = NOW;
  const attempts = new LastAttempts();
  attempts.adopt(queue, 5 as Ticket, NOW);
  const retry = { maxAttempts: 1, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' };
  const state = newState({ data: new Uint8Array(0), headerBytes: 0, retry }, NOW, NOW);
  const waits = waitsOf({ signals: 1, timeoutMs: 10, action: 'dead-letter', collect: false }, NOW);
  const lease = { workerAddress: '', worker: '', since: NOW, suspects: 0 };
  const visibility = { kind: 'hidden' as const, until: NOW, lease };
  attempts.changed(queue, undefined, { ...state, attempts: 1, token: 6 as LeaseToken, visibility });
  const elsewhere = (): readonly Queue[] => attempts.into(parseQueueName('g#elsewhere'), LATER);
  expect(elsewhere()).toEqual([queue]);
  attempts.changed(queue, withWaits(state, waits, NOW), undefined);
  expect(elsewhere()).toEqual([]);
});
