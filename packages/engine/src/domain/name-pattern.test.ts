import { expect, test } from 'vitest';
import { namePattern, patternsMeet } from './name-pattern.ts';

test.each([
  ['', '', true],
  ['', 'shop', false],
  ['*', '', true],
  ['*', 'shop', true],
  ['shop', 'shop', true],
  ['shop', 'shopping', false],
  ['shop-*', 'shop-', true],
  ['shop-*', 'shop-eu', true],
  ['shop-*', 'shop', false],
  ['*-eu', 'shop-eu', true],
  ['a*a', 'a', false],
  ['a*b*c', 'a-b-c', true],
  ['a*b*c', 'ac-b', false],
  ['a*b*bc', 'abc', false],
  ['a**c', 'abc', true],
  ['[a-z]+', 'b', false],
])('the pattern %j matches %j: %s', (pattern, name, expected) => {
  expect(namePattern(pattern)(name)).toBe(expected);
});

/** All texts of up to this number of these characters. */
function texts(characters: string, length: number): string[] {
  if (length === 0) return [''];
  const shorter = texts(characters, length - 1);
  const longest = shorter.filter((text) => text.length === length - 1);
  return [...shorter, ...longest.flatMap((text) => [...characters].map((one) => text + one))];
}

test('two patterns meet if a name matches both', () => {
  const names = texts('ab', 6);
  const patterns = texts('ab*', 3);
  const matching = new Map(patterns.map((pattern) => [pattern, names.filter(namePattern(pattern))]));
  for (const one of patterns) {
    for (const other of patterns) {
      const expected = matching.get(one)?.some(namePattern(other));
      expect([one, other, patternsMeet(one, other)]).toEqual([one, other, expected]);
    }
  }
});
