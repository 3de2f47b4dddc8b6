import { styleText } from 'node:util';
import Table from 'cli-table3';
import { escapeControls } from './bytes-text.ts';
import type { OutputStream } from './output.ts';

/** A column of a table of `Row`s. */
export interface Column<Row> {
  readonly title: string;
  /** Numbers stand at the right. Default: left. */
  readonly align?: 'left' | 'right';
  readonly cell: (row: Row) => string;
}

export interface TableOptions {
  /** Default true. */
  readonly header?: boolean;
  /** Of one row, in bold below the others. */
  readonly footer?: readonly string[];
}

const noLines = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};

/** An aligned table without lines. Bold where `stream` is a terminal that wants it. */
export function tableOf<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  stream: OutputStream,
  options: TableOptions = {},
): string {
  const table = new Table({
    colAligns: columns.map(({ align }) => align ?? 'left'),
    chars: noLines,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0, compact: true },
  });
  const bold = (text: string): string => (text === '' ? '' : styleText('bold', text, { stream }));
  if (options.header ?? true) table.push(columns.map(({ title }) => bold(title)));
  for (const row of rows) table.push(columns.map(({ cell }) => escapeControls(cell(row))));
  if (options.footer !== undefined) table.push(options.footer.map(bold));
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}
