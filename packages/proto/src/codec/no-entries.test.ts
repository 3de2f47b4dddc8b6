import { expect, test } from 'vitest';
import { Error as WireError } from '../gen/taskmaster/v1/tasks.ts';
import { encodeToBuffer } from './encode-to-buffer.ts';
import { NO_ENTRIES } from './no-entries.ts';

const errorWith = (metadata: { [key: string]: string }): WireError => ({
  code: 0,
  reason: '',
  message: '',
  metadata,
  retryDelayMs: 0,
  items: [],
});
const decoded = (metadata: { [key: string]: string }) =>
  WireError.decode(encodeToBuffer(WireError, errorWith(metadata))).metadata;

test('a map has all entries that were sent, also those that every object has', () => {
  const metadata = Object.fromEntries([
    ['__proto__', 'a'],
    ['constructor', 'b'],
    ['', 'c'],
  ]);
  expect(Object.entries(decoded(metadata))).toEqual(Object.entries(metadata));
  expect(decoded({}).constructor).toBeUndefined();
});

test('maps without entries are one', () => {
  expect(decoded({})).toBe(NO_ENTRIES);
  expect(() => Object.assign(decoded({}), { a: 'b' })).toThrow(TypeError);
});

test('a map that is too large is not read to its end', () => {
  const metadata = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`key ${at}`, '']));
  expect(Object.keys(decoded(metadata))).toHaveLength(1_000);
  expect({ ...decoded({ a: 'b' }) }).toEqual({ a: 'b' });
});
