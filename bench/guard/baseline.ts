/** Figures of one task, by name. */
export type Figures = Readonly<Record<string, number>>;

/** The figures of each row, as stored in `bench/baseline.json`. */
export interface Baseline {
  /** Version of Node that made it: CPU time and allocations depend on V8. */
  readonly node: string;
  readonly rows: Readonly<Record<string, RowFigures>>;
}

interface RowFigures {
  /** Figures that are the same in every run: fsyncs, bytes, messages. Larger ones than before are failures. */
  readonly counted: Figures;
  /** Figures that differ in every run: CPU time, allocations. They are only shown. */
  readonly measured: Figures;
}

export type Verdict =
  /** Within the tolerance. */
  | 'same'
  /** Less than before: update the baseline, so that it stays so. */
  | 'better'
  | 'worse'
  /** Not in the baseline. */
  | 'new'
  /** Only in the baseline. */
  | 'gone';

export interface Comparison {
  readonly row: string;
  readonly figure: string;
  readonly kind: keyof RowFigures;
  readonly was: number | undefined;
  readonly is: number | undefined;
  readonly verdict: Verdict;
}

/** One more byte in a row of the store is no failure; a fiftieth more is one. */
const COUNTED_BYTES_TOLERANCE = 0.02;
/** Large, because machines and other processes make more difference than most changes. */
const MEASURED_TOLERANCE = 0.25;
/** Stored figures are rounded to this number of digits. */
const DIGITS = 5;

/** The allowed difference from the baseline, as a fraction of it. */
function toleranceOf(kind: keyof RowFigures, figure: string): number {
  if (kind === 'measured') return MEASURED_TOLERANCE;
  return figure.includes('bytes') ? COUNTED_BYTES_TOLERANCE : 0;
}

/** Compares every figure of both, in the order of the rows. */
export function compare(was: Baseline, is: Baseline): Comparison[] {
  const rows = new Set([...Object.keys(is.rows), ...Object.keys(was.rows)]);
  return [...rows].flatMap((row) =>
    (['counted', 'measured'] as const).flatMap((kind) =>
      compareFigures(row, kind, was.rows[row]?.[kind] ?? {}, is.rows[row]?.[kind] ?? {}),
    ),
  );
}

/** True if a comparison must fail: a figure that does not depend on the machine is worse or missing. */
export function isFailure({ kind, verdict }: Comparison): boolean {
  return kind === 'counted' && (verdict === 'worse' || verdict === 'gone');
}

function compareFigures(row: string, kind: keyof RowFigures, was: Figures, is: Figures): Comparison[] {
  const names = new Set([...Object.keys(is), ...Object.keys(was)]);
  return [...names].map((figure) => {
    const [before, now] = [was[figure], is[figure]];
    return { row, kind, figure, was: before, is: now, verdict: judge(before, now, toleranceOf(kind, figure)) };
  });
}

/** Smaller values are better, for all figures. */
function judge(was: number | undefined, is: number | undefined, tolerance: number): Verdict {
  if (was === undefined) return 'new';
  if (is === undefined) return 'gone';
  // Stored figures are rounded.
  const difference = rounded(is) - rounded(was);
  if (Math.abs(difference) <= rounded(was) * tolerance) return 'same';
  return difference > 0 ? 'worse' : 'better';
}

/** The file of the baseline cannot be read. */
export class UnreadableBaselineError extends Error {
  override readonly name = 'UnreadableBaselineError';
}

export function formatBaseline({ node, rows }: Baseline): string {
  const short = (figures: Figures): Figures =>
    Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, rounded(value)]));
  const shortRows = Object.entries(rows).map(([row, { counted, measured }]) => [
    row,
    { counted: short(counted), measured: short(measured) },
  ]);
  return `${JSON.stringify({ node, rows: Object.fromEntries(shortRows) }, undefined, 2)}\n`;
}

/** Parses the file of the baseline. Throws `UnreadableBaselineError`. */
export function parseBaseline(text: string): Baseline {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new UnreadableBaselineError('the baseline is not JSON', { cause });
  }
  const { node, rows } = recordOf(value, 'the baseline');
  if (typeof node !== 'string') throw new UnreadableBaselineError('the baseline does not say which Node made it');
  const parsed = Object.entries(recordOf(rows, 'rows')).map(([row, figures]) => {
    const { counted, measured } = recordOf(figures, row);
    return [row, { counted: figuresOf(counted, row), measured: figuresOf(measured, row) }] as const;
  });
  return { node, rows: Object.fromEntries(parsed) };
}

function figuresOf(value: unknown, row: string): Figures {
  const figures = recordOf(value, row);
  for (const [name, figure] of Object.entries(figures)) {
    if (typeof figure !== 'number' || !Number.isFinite(figure)) {
      throw new UnreadableBaselineError(`${name} of ${row} is not a number`);
    }
  }
  return figures as Figures;
}

function recordOf(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new UnreadableBaselineError(`${what} is not an object`);
}

function rounded(value: number): number {
  return Number(value.toPrecision(DIGITS));
}
