import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { escapeControls } from '../input/bytes-text.ts';
import type { OutputStream } from './output.ts';

/** A column of a table of `Row`s. */
export interface Column<Row> {
  readonly title: string;
  /** Default: left. */
  readonly align?: 'left' | 'right';
  readonly cell: (row: Row) => string;
}

export interface TableOptions {
  /** Default true. */
  readonly header?: boolean;
  /** Last row. Default: none. */
  readonly footer?: readonly string[];
}

const GAP = '  ';

/** An aligned table without lines. Header and footer are bold on a terminal with colours. */
export function tableOf<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  stream: OutputStream,
  options: TableOptions = {},
): string {
  const cells = rows.map((row) => columns.map(({ cell }) => escapeControls(cell(row))));
  const header = (options.header ?? true) ? [columns.map(({ title }) => title)] : [];
  const footer = options.footer === undefined ? [] : [options.footer];
  const widths = columns.map(() => 0);
  for (const row of [...header, ...cells, ...footer]) {
    row.forEach((cell, at) => {
      widths[at] = Math.max(widths[at] ?? 0, widthOf(cell));
    });
  }
  const lineOf = (row: readonly string[]): string => {
    const padded = row.map((cell, at) => {
      const padding = ' '.repeat(Math.max(0, (widths[at] ?? 0) - widthOf(cell)));
      return columns[at]?.align === 'right' ? padding + cell : cell + padding;
    });
    return padded.join(GAP).trimEnd();
  };
  const bold = (row: readonly string[]): string => styleText('bold', lineOf(row), { stream });
  return [...header.map(bold), ...cells.map(lineOf), ...footer.map(bold)].join('\n');
}

const ascii = /^[\x20-\x7e]*$/;

/** Width on a terminal, in cells. ASCII text, the most frequent, has one cell per character. */
function widthOf(text: string): number {
  return ascii.test(text) ? text.length : stringWidth(text);
}
