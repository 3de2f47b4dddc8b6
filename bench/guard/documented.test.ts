import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { parseBaseline } from './baseline.ts';

const DOCUMENT = new URL('../HISTORY.md', import.meta.url);
const BASELINE = new URL('../baseline.json', import.meta.url);

/** The cells of a row of the document's table as numbers, without the title. */
const cellsOf = (document: string, title: string): number[][] => {
  const line = document.split('\n').find((text) => text.startsWith(`| ${title} |`)) ?? '';
  const cells = line.split('|').slice(2, -1);
  return cells.map((cell) => cell.split(/, | in /).map((figure) => Number.parseInt(figure.replaceAll(',', ''), 10)));
};

test('bench/HISTORY.md has the figures of the baseline', async () => {
  const document = await readFile(DOCUMENT, 'utf8');
  const counted = Object.values(parseBaseline(await readFile(BASELINE, 'utf8')).rows).map((row) => row.counted);
  const figures = (name: string): number[] => counted.map((row) => row[name] ?? Number.NaN);

  expect(counted).toHaveLength(6);
  expect(cellsOf(document, 'bytes given to RocksDB: rows and log entries')).toEqual(
    figures('stored_bytes').map((bytes) => [Math.round(bytes)]),
  );
  expect(cellsOf(document, 'bytes of these, to the node and back')).toEqual(
    counted.map((row) => [
      Math.round(row.message_bytes_to_node ?? Number.NaN),
      Math.round(row.message_bytes_from_node ?? Number.NaN),
    ]),
  );
  const fsyncs = cellsOf(document, 'fsyncs, when nothing else shares them');
  expect(fsyncs.map(([syncs = Number.NaN, tasks = 1]) => syncs / tasks)).toEqual(figures('fsyncs'));
});
