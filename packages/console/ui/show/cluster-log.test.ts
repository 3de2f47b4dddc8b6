import { expect, test } from 'vitest';
import { type LoggedChange, mergedChanges } from './cluster-log.ts';

const change = (at: number, node: string, fields: Partial<LoggedChange> = {}): LoggedChange => ({
  at,
  node,
  kind: 'membership',
  action: 'active',
  target: 'c',
  result: 'ok',
  ...fields,
});

test('what several nodes record at nearly the same time is one change', () => {
  const merged = mergedChanges([change(50_000, 'b'), change(49_000, 'a'), change(45_000, 'c', { action: 'joining' })]);
  expect(merged.map(({ action, nodes }) => [action, nodes])).toEqual([
    ['active', ['a', 'b']],
    ['joining', ['c']],
  ]);
});

test('what one node records twice, or later, stays two', () => {
  expect(mergedChanges([change(50_000, 'a'), change(49_000, 'a')])).toHaveLength(2);
  expect(mergedChanges([change(50_000, 'a'), change(10_000, 'b')])).toHaveLength(2);
  expect(mergedChanges([change(50_000, 'a'), change(49_000, 'b', { principal: 'eve' })])).toHaveLength(2);
});
