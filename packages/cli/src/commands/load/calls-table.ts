import { CALL_KINDS, type CallKind } from '../../load/measure/call-figures.ts';
import type { CallsByKind, ReportedCalls } from '../../load/report/load-report.ts';
import { count, rate } from '../../views/format.ts';
import type { OutputStream } from '../../views/output.ts';
import { type Column, tableOf } from '../../views/table.ts';
import { latency } from './latency.ts';

type Row = ReportedCalls & { readonly kind: CallKind };

/** A table of the calls of a time, by kind. */
export function callsTable(calls: CallsByKind, elapsedMs: number, stream: OutputStream): string {
  const rows = CALL_KINDS.flatMap((kind): Row[] => {
    const figures = calls[kind];
    return figures === undefined ? [] : [{ kind, ...figures }];
  });
  const seconds = Math.max(elapsedMs, 1) / 1_000;
  return tableOf(rows, columnsOf(seconds), stream);
}

function columnsOf(seconds: number): readonly Column<Row>[] {
  const figure = (title: string, cell: (row: Row) => string): Column<Row> => ({ title, align: 'right', cell });
  return [
    { title: 'CALL', cell: ({ kind }) => kind },
    figure('CALLS', (row) => count(row.count)),
    figure('PER S', (row) => rate(row.count / seconds)),
    figure('TASKS PER S', (row) => rate(row.tasks / seconds)),
    figure('P50', (row) => latency(row.p50Ms)),
    figure('P90', (row) => latency(row.p90Ms)),
    figure('P99', (row) => latency(row.p99Ms)),
    figure('P99.9', (row) => latency(row.p999Ms)),
    figure('MAX', (row) => latency(row.maxMs)),
    figure('FAILED', (row) => count(Object.values(row.errors).reduce((sum, n) => sum + n, 0))),
  ];
}
