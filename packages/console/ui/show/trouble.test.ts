import { QueueLimit, QueuePause, QueueStats, QueueWatch, Trouble, TroubleSeverity } from '@taskmaster/proto/messages';
import { expect, test } from 'vitest';
import { sortQueues, troubleOf } from './trouble.ts';

const NOTHING = new Uint8Array(0);
const stats = (fields: Partial<QueueStats>): QueueStats => ({
  ...QueueStats.decode(NOTHING),
  queue: 'mail',
  ...fields,
});
const watch = (...troubles: Partial<Trouble>[]): QueueWatch => ({
  ...QueueWatch.decode(NOTHING),
  troubles: troubles.map((one) => ({ ...Trouble.decode(NOTHING), ...one })),
});
const { TROUBLE_SEVERITY_CRITICAL, TROUBLE_SEVERITY_WARNING } = TroubleSeverity;
const pause: QueuePause = { ...QueuePause.decode(NOTHING), queues: 'mail', sinceUnixMs: 7 };

test('a queue without trouble has none', () => {
  expect(troubleOf(stats({ available: 5 }))).toEqual({ urgency: 0, text: '' });
});

test('what its node has seen comes before a pause', () => {
  const seen = {
    severity: TROUBLE_SEVERITY_CRITICAL,
    message: 'nobody works on it',
    sinceUnixMs: 5,
    sinceIsExact: true,
  };
  expect(troubleOf(stats({ watch: watch(seen), pause }))).toEqual({
    urgency: 3,
    text: 'nobody works on it',
    since: 5,
    sinceIsExact: true,
  });
  expect(troubleOf(stats({ watch: watch({ severity: TROUBLE_SEVERITY_WARNING }) })).urgency).toBe(2);
});

test('a pause and a limit are good to know', () => {
  expect(troubleOf(stats({ pause, available: 2 }))).toMatchObject({
    urgency: 1,
    text: 'paused, 2 tasks wait',
    since: 7,
  });
  const limit = QueueLimit.decode(NOTHING);
  expect(troubleOf(stats({ heldBy: [limit] }))).toEqual({ urgency: 1, text: 'held back by a limit' });
  expect(troubleOf(stats({ heldBy: [limit, limit], heldSinceUnixMs: 9 }))).toMatchObject({
    text: 'held back by 2 limits',
    since: 9,
    sinceIsExact: false,
  });
});

test('the largest comes first, and equals keep the order of the server', () => {
  const queues = [
    stats({ queue: 'b', available: 1 }),
    stats({ queue: 'c', available: 9, oldestAgeMs: 1 }),
    stats({ queue: 'a', available: 1, oldestAgeMs: 5 }),
  ];
  const names = (by: Parameters<typeof sortQueues>[1]) => sortQueues(queues, by).map(({ queue }) => queue);
  expect(names('available')).toEqual(['c', 'b', 'a']);
  expect(names('oldest')).toEqual(['a', 'c', 'b']);
  expect(names('trouble')).toEqual(['b', 'c', 'a']);
});
