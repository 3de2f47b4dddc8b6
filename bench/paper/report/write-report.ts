import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PaperResult } from '../result.ts';
import { drawChart } from './chart.ts';
import { markdownOf, sectionsOf } from './markdown.ts';

const REPORT_FILE = 'report.md';

/** Writes the report. Resolves with the names of its files. */
export async function writeReport(result: PaperResult, out: string): Promise<readonly string[]> {
  await mkdir(out, { recursive: true });
  const sections = sectionsOf(result);
  const files = new Map([[REPORT_FILE, markdownOf(result, sections)]]);
  for (const [name, chart] of sections.flatMap(({ charts }) => charts))
    files.set(`${name}.svg`, await drawChart(chart));
  for (const [name, text] of files) await writeFile(join(out, name), text);
  return [...files.keys()];
}
