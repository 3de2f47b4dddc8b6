import { type Comparison, isFailure, type Verdict } from './baseline.ts';

const REMARKS: Readonly<Record<Verdict, string>> = {
  same: '',
  better: 'better',
  worse: 'worse',
  new: 'new',
  gone: 'not measured any more',
};

const WIDTHS = [4, 24, 12, 12, 9] as const;

/** The comparison as a text table, with failures marked. */
export function guardTable(comparisons: readonly Comparison[]): string {
  const lines = [
    line(['row', 'of one task', 'baseline', 'now', 'change'], ''),
    ...comparisons.map((one) => line([one.row, one.figure, shown(one.was), shown(one.is), change(one)], remark(one))),
  ];
  return `${lines.join('\n')}\n${summary(comparisons)}\n`;
}

function summary(comparisons: readonly Comparison[]): string {
  const failed = comparisons.filter(isFailure).length;
  if (failed > 0) {
    return `Figures that do not depend on the machine are worse: ${failed}. If the change is right, explain it and run guard --update.`;
  }
  const gained = comparisons.some(
    ({ kind, verdict }) => kind === 'counted' && (verdict === 'better' || verdict === 'new'),
  );
  return gained
    ? 'No counted figure is worse, and some are better or new: store them with guard --update.'
    : 'All counted figures are unchanged.';
}

function remark(one: Comparison): string {
  const text = REMARKS[one.verdict];
  if (isFailure(one)) return `${text}  <<<`;
  return text !== '' && one.kind === 'measured' ? `${text} (depends on the machine)` : text;
}

function change({ was, is }: Comparison): string {
  if (was === undefined || is === undefined || was === 0) return '';
  const percent = (is / was - 1) * 100;
  return Math.abs(percent) < 0.05 ? '' : `${percent > 0 ? '+' : ''}${percent.toFixed(1)} %`;
}

function shown(value: number | undefined): string {
  if (value === undefined) return '';
  return value >= 100 ? value.toFixed(1) : String(Number(value.toPrecision(4)));
}

function line(cells: readonly string[], remark: string): string {
  const padded = cells.map((cell, i) => (i < 2 ? cell.padEnd(WIDTHS[i] ?? 0) : cell.padStart(WIDTHS[i] ?? 0)));
  return `${padded.join('')}  ${remark}`.trimEnd();
}
