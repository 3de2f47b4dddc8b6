import { expect, test } from 'vitest';
import { isAllowed } from './rights.ts';

const rights = (...groups: string[]) => ({
  everything: false,
  clusterRights: ['back-up'],
  grants: [{ groups, rights: ['read', 'lease'] }],
});

test.each([
  ['*', 'any', true],
  ['billing-*', 'billing-eu', true],
  ['billing-*', 'bill', false],
  ['*-eu', 'billing-eu', true],
  ['a*b*a', 'aba', true],
  ['a*b*a', 'ab', false],
  ['*aa*a', 'aa', false],
  ['a*', 'a*', true],
  ['', '', true],
  ['', 'mail', false],
])('the pattern %s and the group %s', (pattern, group, expected) => {
  expect(isAllowed(rights(pattern), 'lease', group)).toBe(expected);
});

test('other rights are not given', () => {
  expect(isAllowed(rights('*'), 'manage-queues', 'mail')).toBe(false);
  expect(isAllowed(rights('*'), 'manage-cluster', undefined)).toBe(false);
  expect(isAllowed(rights('*'), 'back-up', undefined)).toBe(true);
});

test('without rules everything is allowed', () => {
  expect(isAllowed({ ...rights(), everything: true }, 'manage-cluster', undefined)).toBe(true);
  expect(isAllowed(undefined, 'lease', 'mail')).toBe(true);
});
