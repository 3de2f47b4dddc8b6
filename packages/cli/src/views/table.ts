import { createRequire } from 'node:module';
import { styleText } from 'node:util';
import { escapeControls } from '@taskmaster/proto';
import type { OutputStream } from './output.ts';

const require = createRequire(import.meta.url);

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

/** A column of text is not made narrower than this, so that names can be told apart. */
const LEAST_WIDTH = 16;

/**
 * An aligned table without lines. Header and footer are bold on a terminal with colours. On a terminal that is too narrow, long
 * texts are cut in their middle.
 */
export function tableOf<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  stream: OutputStream,
  options: TableOptions = {},
): string {
  let cells = rows.map((row) => columns.map(({ cell }) => escapeControls(cell(row))));
  const header = (options.header ?? true) ? [columns.map(({ title }) => title)] : [];
  const footer = options.footer === undefined ? [] : [options.footer];
  const widths = columns.map(() => 0);
  for (const row of [...header, ...cells, ...footer]) {
    row.forEach((cell, at) => {
      widths[at] = Math.max(widths[at] ?? 0, widthOf(cell));
    });
  }
  for (const [at, width] of narrowed(widths, columns, stream)) {
    cells = cells.map((row) => row.with(at, cutTo(row[at] ?? '', width)));
    widths[at] = width;
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

/** The columns that must be narrower for the table to fit into the terminal, with their widths: all widest ones alike. */
function narrowed(
  widths: readonly number[],
  columns: readonly Column<never>[],
  { isTTY, columns: room }: OutputStream,
): ReadonlyMap<number, number> {
  const texts = [...widths.entries()].filter(([at, width]) => columns[at]?.align !== 'right' && width > LEAST_WIDTH);
  const tooMuch = widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1)) - (room ?? 0);
  if (!isTTY || !room || tooMuch <= 0) return new Map();
  const savedAt = (level: number): number => texts.reduce((sum, [, width]) => sum + Math.max(0, width - level), 0);
  let level = Math.max(LEAST_WIDTH, ...texts.map(([, width]) => width));
  while (level > LEAST_WIDTH && savedAt(level) < tooMuch) level--;
  return new Map(texts.filter(([, width]) => width > level).map(([at]) => [at, level]));
}

/** The beginning and the end of a text that is too wide. */
function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  const characters = [...text];
  let head = '';
  let tail = '';
  // Each end gets the next character while there is room for it and the mark.
  while (characters.length > 0) {
    const atHead = widthOf(head) <= widthOf(tail);
    const next = (atHead ? characters.shift() : characters.pop()) ?? '';
    if (widthOf(head) + widthOf(tail) + widthOf(next) + 1 > width) break;
    if (atHead) head += next;
    else tail = next + tail;
  }
  return `${head}…${tail}`;
}

const ascii = /^[\x20-\x7e]*$/;

/** Width on a terminal, in cells. ASCII text, the most frequent, has one cell per character. */
function widthOf(text: string): number {
  if (ascii.test(text)) return text.length;
  // Loaded only for other text: its tables of emoji take a fifth of the time of a short command.
  const { default: stringWidth } = require('string-width') as typeof import('string-width');
  return stringWidth(text);
}
