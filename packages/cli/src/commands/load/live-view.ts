import { escapeControls } from '@taskmaster/proto';
import { CALL_KINDS, sumOf } from '../../load/measure/call-figures.ts';
import { Latencies } from '../../load/measure/latencies.ts';
import { Interval } from '../../load/measure/timeline.ts';
import type { Tick } from '../../load/processes/messages.ts';
import { reported } from '../../load/report/load-report.ts';
import { intervalOf } from '../../load/report/read-report.ts';
import { count, countOf, duration, rate } from '../../views/format.ts';
import type { Shell } from '../../views/output.ts';
import { Screen } from '../../views/screen.ts';
import { callsTable } from './calls-table.ts';
import { latency } from './latency.ts';

export interface LiveViewParts {
  readonly shell: Shell;
  readonly processes: number;
  readonly durationMs: number;
}

/** Time between two lines without a terminal, in ms. */
const LINE_EVERY_MS = 10_000;

/**
 * Shows a load while it runs: a table on a terminal, a line now and then elsewhere, and with `--json` an object every second.
 * Disposal restores the terminal.
 */
export class LiveView implements Disposable {
  readonly #parts: LiveViewParts;
  readonly #screen: Screen | undefined;
  #startedAt: number | undefined;
  #ticks = 0;
  #second = new Interval();
  #sinceLine = new Interval();
  #lineAt = 0;
  #kills = 0;

  constructor(parts: LiveViewParts) {
    this.#parts = parts;
    const { out } = parts.shell;
    this.#screen = out.isTerminal && !out.json ? new Screen(out) : undefined;
    this.#screen?.draw(parts.processes === 1 ? 'Connecting' : 'Waiting for all processes');
  }

  started(): void {
    this.#startedAt = performance.now();
  }

  killed(): void {
    this.#kills++;
  }

  /** Shows the figures of a second when all processes have told theirs. */
  tick(tick: Tick): void {
    const interval = intervalOf(tick);
    this.#second.add(interval);
    this.#second.openTasks += interval.openTasks;
    if (++this.#ticks % this.#parts.processes !== 0) return;
    this.#show(this.#second);
    this.#second = new Interval();
  }

  [Symbol.dispose](): void {
    this.#screen?.[Symbol.dispose]();
  }

  #show(second: Interval): void {
    const { out, err } = this.#parts.shell;
    const elapsedMs = performance.now() - (this.#startedAt ?? performance.now());
    if (out.json) {
      void out.object({ at: new Date().toISOString(), elapsedMs: Math.round(elapsedMs), ...withoutHistograms(second) });
    } else if (this.#screen !== undefined) {
      const { stream } = out;
      this.#screen.draw(
        `${escapeControls(this.#heading(second, elapsedMs))}\n\n${callsTable(reported(second).calls, 1_000, stream)}`,
      );
    } else {
      this.#sinceLine.add(second);
      if (elapsedMs < this.#lineAt + LINE_EVERY_MS) return;
      err.line(this.#line(second, elapsedMs));
      this.#sinceLine = new Interval();
      this.#lineAt = elapsedMs;
    }
  }

  #heading({ openTasks, retries }: Interval, elapsedMs: number): string {
    const { durationMs } = this.#parts;
    const parts = [
      `TaskMaster load  ${duration(elapsedMs)} of ${duration(durationMs)}`,
      `${countOf(openTasks, 'open task')}`,
    ];
    if (retries.size > 0)
      parts.push(`retries ${[...retries].map(([reason, n]) => `${reason} ${count(n)}`).join(', ')}`);
    if (this.#kills > 0) parts.push(countOf(this.#kills, 'kill'));
    return `${parts.join('  ')}  Ctrl-C ends`;
  }

  #line(now: Interval, elapsedMs: number): string {
    const all = Latencies.empty();
    let failed = 0;
    for (const kind of CALL_KINDS) {
      const figures = this.#sinceLine.calls.get(kind);
      if (figures === undefined) continue;
      all.add(figures.latencies);
      failed += figures.failed;
    }
    const perSecond = (all.count * 1_000) / Math.max(1, elapsedMs - this.#lineAt);
    const retries = sumOf(this.#sinceLine.retries);
    const told = [`${duration(elapsedMs)}`, `${rate(perSecond)} calls/s`, `p50 ${latency(all.at(50))}`];
    told.push(`p99 ${latency(all.at(99))}`, `max ${latency(all.at(100))}`, countOf(failed, 'error'));
    return [...told, `${count(retries)} retries`, `${countOf(now.openTasks, 'open task')}`].join('  ');
  }
}

/** The figures of an interval for programs. */
function withoutHistograms(interval: Interval): object {
  const { calls, ...rest } = reported(interval);
  const plain = Object.entries(calls).map(([kind, { histogram, ...figures }]) => [kind, figures]);
  return { ...rest, calls: Object.fromEntries(plain) };
}
