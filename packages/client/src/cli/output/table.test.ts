import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
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
