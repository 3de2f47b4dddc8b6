import { expect, test } from 'vitest';
import { UsageError } from '../arguments.ts';
import { readPaperArguments } from './arguments.ts';
import { figures } from './result.ts';

test('measures all figures if none are named', () => {
  expect(readPaperArguments([])).toMatchObject({ kind: 'measure', figures, quick: false, out: 'bench/results/paper' });
  expect(readPaperArguments(['figure-3', 'table-1', '--quick', '--out', 'here'])).toMatchObject({
    figures: ['figure-3', 'table-1'],
    quick: true,
    out: 'here',
    command: 'npm run bench -- paper figure-3 table-1 --quick',
  });
});

test('draws the report of an earlier measurement again', () => {
  expect(readPaperArguments(['--from', 'a/result.json'])).toEqual({
    kind: 'redraw',
    from: 'a/result.json',
    out: undefined,
  });
});

test.each([
  [['figure-2'], /figure-2 is not measured; the figures are: table-1, figure-3/],
  [['--seconds', '0'], /--seconds: 0 is not a number above 0/],
  [['--nonsense'], /--nonsense/],
])('refuses %j', (argv, message) => {
  expect(() => readPaperArguments(argv)).toThrow(UsageError);
  expect(() => readPaperArguments(argv)).toThrow(message);
});
