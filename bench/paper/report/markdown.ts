import type { Figure, PaperResult, Point } from '../result.ts';
import { figureThree } from './figure-3.ts';
import { figureFour } from './figure-4.ts';
import { figureFive } from './figure-5.ts';
import { figureSix } from './figure-6.ts';
import { figureSeven } from './figure-7.ts';
import type { Section, Table } from './section.ts';
import { tableOne } from './table-1.ts';

/** Sections in the order of the paper. */
const makers: Readonly<Record<Figure, (points: readonly Point[]) => Section>> = {
  'figure-3': figureThree,
  'figure-4': figureFour,
  'table-1': tableOne,
  'figure-5': figureFive,
  'figure-6': figureSix,
  'figure-7': figureSeven,
};

/** The sections of the measured figures. */
export function sectionsOf({ points }: PaperResult): Section[] {
  return Object.entries(makers).flatMap(([figure, make]) => {
    const own = points.filter((point) => point.figure === figure);
    return own.length === 0 ? [] : [make(own)];
  });
}

export function markdownOf(result: PaperResult, sections: readonly Section[]): string {
  return [head(result), differences, ...sections.map(sectionText), notes(result)]
    .filter((part) => part !== '')
    .join('\n\n')
    .concat('\n');
}

function head({ command, date, machine, versions, minutes, quick, seconds }: PaperResult): string {
  const rows = [
    ['command', `\`${command}\``],
    ['date', `${date.slice(0, 16).replace('T', ' ')} UTC, ${minutes} minutes, ${seconds} s for each point`],
    ['machine', machine],
    [
      'versions',
      Object.entries(versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(', '),
    ],
    ['data', '[result.json](result.json); `npm run bench -- paper --from` draws it again'],
  ];
  const warning = quick
    ? ['', '**This was a quick run, which shows only that everything works. Its figures say nothing.**']
    : [];
  return ['# The paper’s figures, measured', '', tableText({ columns: ['', ''], rows }), ...warning].join('\n');
}

const differences = `The paper’s section 6 measured TaskMaster on Bigtable in 2008. Absolute figures compare machines and decades more than
designs; the shapes of the curves are what compares. What is different here:

- **Machines.** The paper’s node, its 20 tablet servers and every worker had machines of their own with four cores, and less
  than a millisecond between them. Here everything shares one machine, the load generator included; calls go over the loopback
  interface.
- **Storage.** The paper’s node wrote to Bigtable over the network, where writes were durable in GFS, and cheaper than random
  reads. This node writes to RocksDB on its own disk and replies only after the fsync, with many calls sharing one.
- **Workers.** The paper’s were processes. Here a worker is a connection of its own with as many calls in flight as the
  paper’s had threads; all of them are in one process, whose CPU time bounds the load too.
- **Payloads** have 1,000 bytes that cannot be compressed, where not said otherwise. The cache has the paper’s 1 GB where not
  said otherwise.`;

function sectionText({ heading, setUp, charts, table, paper, shows }: Section): string {
  return [
    `## ${heading}`,
    setUp,
    ...charts.map(([name, { title }]) => `![${title}](${name}.svg)`),
    tableText(table),
    `**The paper:** ${paper}`,
    `**Here:** ${shows}`,
  ].join('\n\n');
}

/** Notes about failures, refused calls and loads that ended early. */
function notes({ points, failures }: PaperResult): string {
  const name = ({ figure, series, x }: Point): string => `${figure}, ${series}${x === 0 ? '' : ` at ${x}`}`;
  const refused = points.filter((point) => point.refused > 0);
  const dry = points.filter(({ ranDry }) => ranDry);
  const lines = [
    ...failures.map(({ figure, error }) => `- ${figure} could not be measured to its end: ${error}`),
    ...refused.map(
      (point) => `- ${name(point)}: the node refused ${point.refused} calls as OVERLOADED; they were made again.`,
    ),
    ...dry.map(
      (point) =>
        `- ${name(point)}: a worker’s queues were empty before the time was over; what is shown is until then.`,
    ),
  ];
  return lines.length === 0 ? '' : ['## Notes', '', ...lines].join('\n');
}

function tableText({ columns, rows }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  // Text on the left, figures on the right.
  const isText = columns.map((_, i) => rows.some((row) => !/^([\d.–]|$)/.test(row[i] ?? '')));
  return [line(columns), line(isText.map((left) => (left ? '---' : '---:'))), ...rows.map(line)].join('\n');
}
