import { expect, test } from 'vitest';
import { documentAt, rowsOf } from './documents.ts';

const rows = rowsOf(documentAt('docs/words.md'));

// That the headings exist is checked with all links of documents.
test('each word of other systems leads to a heading, once', () => {
  expect(rows.filter(({ here = '' }) => !/\]\([^)\s]*#[\w-]+\)/.test(here))).toEqual([]);
  const words = rows.flatMap(({ word = '' }) => word.split(', '));
  expect(words.filter((word, at) => word === '' || words.indexOf(word) !== at)).toEqual([]);
});

test.each([
  'ack',
  'cron',
  'dead letter',
  'debounce',
  'deduplication',
  'fan-in',
  'heartbeat',
  'idempotency',
  'jest',
  'nack',
  'outbox',
  'poison message',
  'prefetch',
  'priority',
  'rate limit',
  'saga',
  'tube',
  'visibility timeout',
])('a search for "%s" finds a row', (word) => {
  expect(rows.filter((row) => row.word?.split(', ').includes(word))).toHaveLength(1);
});
