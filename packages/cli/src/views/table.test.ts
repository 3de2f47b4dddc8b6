import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { type Column, tableOf } from './table.ts';

interface Item {
  readonly name: string;
  readonly size: string;
}

const columns: readonly Column<Item>[] = [
  { title: 'NAME', cell: ({ name }) => name },
  { title: 'SIZE', align: 'right', cell: ({ size }) => size },
];

/** Not a terminal: nothing is bold. */
const stream = new PassThrough();

test('cells are aligned in every script', () => {
  const rows = [
    { name: 'a', size: '1' },
    { name: '日本', size: '1,234' },
    { name: 'größe', size: '' },
  ];
  expect(tableOf(rows, columns, stream, { footer: ['3 rows', '1,235'] }).split('\n')).toEqual([
    'NAME     SIZE',
    'a           1',
    '日本    1,234',
    'größe',
    '3 rows  1,235',
  ]);
});

test('control characters in names cannot change the terminal or break lines', () => {
  const rows = [{ name: 'a\u001b[2J\nb', size: '1' }];
  expect(tableOf(rows, columns, stream, { header: false })).toBe(String.raw`a\u{1b}[2J\nb  1`);
});

describe('on a terminal that is too narrow', () => {
  const terminal = (width: number) => Object.assign(new PassThrough(), { isTTY: true, columns: width });
  const plain = stripVTControlCharacters;
  const linesOn = (width: number, rows: readonly Item[]): string[] =>
    plain(tableOf(rows, columns, terminal(width), { footer: ['1 row', '1'] })).split('\n');

  test.each([40, 80, 200])('one long name widens no table beyond %i columns, and keeps its ends', (width) => {
    const rows = [
      { name: `shop#${'x'.repeat(500)}-end`, size: '12' },
      { name: 'mail', size: '1,234' },
    ];
    const lines = linesOn(width, rows);
    expect(lines.every((line) => line.length <= width)).toBe(true);
    expect(lines[1]).toMatch(/^shop#x+…x+-end +12$/);
    expect(lines[1]).toHaveLength(width);
    expect(lines[2]).toMatch(/^mail +1,234$/);
  });

  test('characters of two cells are not cut in two', () => {
    for (const width of [30, 31, 32]) {
      const [, row = ''] = linesOn(width, [{ name: '日'.repeat(100), size: '1' }]);
      expect(row).toMatch(/^日+…日+ +1$/);
      expect(stringWidth(row)).toBeLessThanOrEqual(width);
    }
  });

  test('the widest of several columns is cut first, and numbers are not', () => {
    const wide: readonly Column<readonly string[]>[] = [
      { title: 'A', cell: ([a = '']) => a },
      { title: 'N', align: 'right', cell: () => '1'.repeat(30) },
      { title: 'B', cell: ([, b = '']) => b },
    ];
    const [, row = ''] = plain(tableOf([['a'.repeat(300), 'b'.repeat(20)]], wide, terminal(80))).split('\n');
    expect(row).toMatch(/^a+…a+ {2}1{30} {2}b{20}$/);
    expect(row).toHaveLength(80);
    const [, both = ''] = plain(tableOf([['a'.repeat(300), 'b'.repeat(299)]], wide, terminal(80))).split('\n');
    expect(both.split('  ').map((cell) => cell.length)).toEqual([23, 30, 23]);
    // Nothing more can be cut.
    const [, least = ''] = plain(tableOf([['a'.repeat(300), 'b'.repeat(299)]], wide, terminal(20))).split('\n');
    expect(least.split('  ').map((cell) => cell.length)).toEqual([16, 30, 16]);
  });

  test('nothing is cut in a pipe or a file', () => {
    const name = 'x'.repeat(500);
    expect(tableOf([{ name, size: '1' }], columns, stream)).toContain(name);
  });
});
