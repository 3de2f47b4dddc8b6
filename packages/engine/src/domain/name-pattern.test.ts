import { expect, test } from 'vitest';
import { namePattern } from './name-pattern.ts';

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
