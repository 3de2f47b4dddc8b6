import { Family } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { DatabaseError } from './database.ts';
import { NewRows } from './new-rows.ts';

const refusal = (code: string, table?: string): DatabaseError =>
  new DatabaseError('failed', 'refused', { cause: Object.assign(new Error('refused'), { code, table }) });

test('rows of a family count as new until one is there, and again after 1,000 commits', () => {
  const rows = new NewRows();
  expect(rows.isRefuted(refusal('23505', 'data'))).toBe(true);
  const commits: boolean[] = [];
  for (let nth = 0; nth < 1_001; nth++) {
    commits.push(rows.expects(Family.data));
    rows.committed();
  }
  expect(commits.indexOf(true)).toBe(1_000);
  expect(rows.expects(Family.log)).toBe(true);
});

test('all families are asked about if the server does not name the table', () => {
  const rows = new NewRows();
  expect(rows.isRefuted(refusal('23505'))).toBe(true);
  expect([Family.data, Family.ready, Family.log, Family.requests].some((family) => rows.expects(family))).toBe(false);
});

test('a commit that was refused for another reason, or again, is not repeated', () => {
  const rows = new NewRows();
  expect(rows.isRefuted(refusal('23514', 'data'))).toBe(false);
  expect(rows.isRefuted(new Error('other'))).toBe(false);
  expect(rows.isRefuted(refusal('23505'))).toBe(true);
  expect(rows.isRefuted(refusal('23505'))).toBe(false);
});
