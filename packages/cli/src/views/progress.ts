import { styleText } from 'node:util';
import { escapeControls } from '@taskmaster/proto';
import { bytes, count, duration, rate } from './format.ts';
import { type OutputStream, sizeOf } from './output.ts';

/** Progress of reading an input. */
export interface Reached {
  readonly tasks: number;
  /** Bytes of the input. */
  readonly bytes: number;
}

export interface ProgressOptions {
  readonly stream: OutputStream;
  /** The text to show after this time. */
  readonly line: (elapsedMs: number) => string;
}

const REDRAW_MS = 100;
const BAR_CELLS = 24;

/** A line on a terminal that is redrawn until disposal. Without a terminal nothing is shown. */
export class Progress implements Disposable {
  readonly #options: ProgressOptions;
  readonly #start = performance.now();
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(options: ProgressOptions) {
    this.#options = options;
    if (options.stream.isTTY) this.#timer = setInterval(() => this.#draw(), REDRAW_MS).unref();
  }

  [Symbol.dispose](): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#options.stream.write('\r\u001b[K');
  }

  #draw(): void {
    const { stream, line } = this.#options;
    const text = line(performance.now() - this.#start);
    const room = Math.max(20, sizeOf(stream).columns - 1);
    stream.write(`\r\u001b[K${styleText('cyan', escapeControls(text).slice(0, room), { stream })}`);
  }
}

/** Progress of reading an input: `[######      ]  25%  12,345 tasks  1.2 MiB  4,321/s  3m12s left`. */
export function progressLine(reached: Reached, totalBytes: number | undefined, elapsedMs: number): string {
  const perSecond = elapsedMs > 0 ? (reached.tasks * 1000) / elapsedMs : 0;
  const figures = `${count(reached.tasks)} tasks  ${bytes(reached.bytes)}  ${rate(perSecond)}/s`;
  if (totalBytes === undefined || totalBytes === 0) return `${figures}  ${duration(elapsedMs)}`;
  const part = Math.min(1, reached.bytes / totalBytes);
  const filled = Math.floor(part * BAR_CELLS);
  const bar = `[${'#'.repeat(filled)}${' '.repeat(BAR_CELLS - filled)}]`;
  const leftMs = (elapsedMs * (1 - part)) / part;
  const left = part > 0 ? `  ${duration(Math.ceil(leftMs / 1000) * 1000)} left` : '';
  return `${bar} ${String(Math.floor(part * 100)).padStart(3)}%  ${figures}${left}`;
}
