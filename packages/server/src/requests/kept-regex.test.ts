import { RE2JS } from 're2js';
import { afterEach, expect, test, vi } from 'vitest';
import { keptRegex } from './kept-regex.ts';

const PLACE = { field: 'regex' };

afterEach(() => void vi.restoreAllMocks());

test('an expression is compiled a few times for many requests and names', () => {
  const compile = vi.spyOn(RE2JS, 'compile');
  const names = Array.from({ length: 100 }, (_, at) => `tenant-${at}#jobs`);
  for (let request = 0; request < 10; request++) {
    const matches = keptRegex('^tenant-.*#jobs$', PLACE);
    expect(names.every((name) => matches?.(name))).toBe(true);
    expect(matches?.('tenant-1#mail')).toBe(false);
  }
  expect(compile.mock.calls.length).toBeLessThan(15);
});

test('an expression is compiled anew before its states take much memory', () => {
  const compile = vi.spyOn(RE2JS, 'compile');
  const matches = keptRegex('[ab]*a[ab]{20}$', PLACE);
  for (let at = 0; at < 20; at++) matches?.('ab'.repeat(300));
  expect(compile.mock.calls.length).toBeGreaterThan(2);
  expect(compile.mock.calls.length).toBeLessThan(21);
});

test('many expressions are matched, although few of them are kept', () => {
  const all = Array.from({ length: 100 }, (_, at) => keptRegex(`^q${at}$`, PLACE));
  expect(all.map((matches, at) => [matches?.(`q${at}`), matches?.('q')])).toEqual(all.map(() => [true, false]));
});

test('a wrong expression is refused each time', () => {
  for (const _ of [1, 2])
    expect(() => keptRegex('(', PLACE)).toThrow(expect.objectContaining({ reason: 'INVALID_REGEX' }));
  expect(keptRegex('', PLACE)).toBeUndefined();
});
