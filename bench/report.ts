import { describeMachine, round } from './machine.ts';
import { type Measurement, targetText } from './measurement.ts';

/** The output of the figures. */
export interface Report {
  begin(): void;
  line(measurement: Measurement): void;
  /** Reports that a row could not be measured. */
  failed(row: string, error: unknown): void;
  end(): void;
}

/** Prints one JSON object per line on standard output. An error has `error` instead of figures. */
export function jsonReport(common: Readonly<Record<string, unknown>>): Report {
  const print = (fields: object): void => void process.stdout.write(`${JSON.stringify({ ...fields, ...common })}\n`);
  return {
    begin() {},
    line: (measurement) => print(jsonFields(measurement)),
    failed: (row, error) => print({ row, error: messageOf(error) }),
    end() {},
  };
}

/**
 * The fields of a JSON line. Figures that a row does not have are null. A target is a bound of the ratio, or of the figure that
 * `target_of` names.
 */
function jsonFields(measurement: Measurement): Record<string, unknown> {
  const { row, variant, tasksPerS, p50Ms, p99Ms, baseline, baselinePerS, ratio, target, load, more } = measurement;
  return {
    row,
    variant,
    tasks_per_s: rounded(tasksPerS, 0),
    p50_ms: rounded(p50Ms, 3),
    p99_ms: rounded(p99Ms, 3),
    baseline: baseline ?? null,
    baseline_per_s: rounded(baselinePerS, 0),
    ratio: rounded(ratio, 3),
    target: target?.bound ?? null,
    met: target?.met ?? null,
    ...(target !== undefined && target.of !== 'ratio' && { target_of: target.of }),
    load,
    ...more,
  };
}

const COLUMNS = [
  ['row', 15],
  ['variant', 30],
  ['tasks/s', 9],
  ['p50 ms', 9],
  ['p99 ms', 9],
  ['baseline', 20],
  ['its /s', 9],
  ['ratio', 7],
  ['target', 0],
] as const;

/** Columns of text. The other columns have figures, which are aligned to the right. */
const TEXT_COLUMNS = new Set(['row', 'variant', 'baseline', 'target']);

/** A table that grows as the rows are measured. */
export function tableReport(): Report {
  let failures = 0;
  let missed = 0;
  const print = (text: string): void => void process.stdout.write(`${text}\n`);
  return {
    begin() {
      print(describeMachine());
      print(alignedLine(COLUMNS.map(([name]) => name)));
    },
    line(measurement) {
      const { row, variant, tasksPerS, p50Ms, p99Ms, baseline, baselinePerS, ratio, target, more } = measurement;
      if (target?.met === false) missed++;
      print(
        alignedLine([
          row,
          variant,
          count(tasksPerS),
          fixed(p50Ms),
          fixed(p99Ms),
          baseline ?? '',
          count(baselinePerS),
          ratio === undefined ? '' : ratio.toFixed(2),
          target === undefined ? '' : `${targetText(target)}: ${target.met ? 'met' : 'MISSED'}`,
        ]),
      );
      const figures = Object.entries(more ?? {}).filter(([, value]) => typeof value !== 'object');
      if (figures.length > 0) print(`  ${figures.map(([name, value]) => `${name} ${value}`).join(' · ')}`);
    },
    failed(row, error) {
      failures++;
      print(`${row}: ${messageOf(error)}`);
    },
    end() {
      if (failures > 0) print(`${failures} rows could not be measured`);
      if (missed > 0) print(`${missed} targets missed`);
    },
  };
}

/** Time between two progress lines without a terminal, in ms. */
const LOG_EVERY_MS = 20_000;

/** The progress, on one line of the terminal that the next text replaces. */
export class Progress {
  readonly #out = process.stderr;
  #shown = false;
  #saidAt = performance.now();

  show(text: string): void {
    if (!this.#out.isTTY) {
      if (performance.now() - this.#saidAt < LOG_EVERY_MS) return;
      this.#saidAt = performance.now();
      this.#out.write(`${text}\n`);
      return;
    }
    this.#out.write(`\r\x1b[2K${text.slice(0, (this.#out.columns ?? 80) - 1)}`);
    this.#shown = true;
  }

  clear(): void {
    if (!this.#shown) return;
    this.#out.write('\r\x1b[2K');
    this.#shown = false;
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function alignedLine(cells: readonly string[]): string {
  const padded = COLUMNS.map(([name, width], i) => {
    const cell = cells[i] ?? '';
    return TEXT_COLUMNS.has(name) ? cell.padEnd(width) : cell.padStart(width);
  });
  return padded.join(' ').trimEnd();
}

const count = (value: number | undefined): string =>
  value === undefined ? '' : Math.round(value).toLocaleString('en');
const fixed = (value: number | undefined): string => (value === undefined ? '' : value.toFixed(2));
const rounded = (value: number | undefined, digits: number): number | null =>
  value === undefined || !Number.isFinite(value) ? null : round(value, digits);
