import { drawBlock, drawLine, fit, type Paint, paintFor } from './draw.ts';
import type { CrawlStatus } from './observe.ts';

/** Interval between two lines of progress when the output is not a terminal, in ms. */
const LINE_INTERVAL_MS = 2_000;
/** Width of a terminal that does not report one. */
const DEFAULT_COLUMNS = 80;

/**
 * Shows messages and the progress. On a terminal the progress is a block below the messages that is redrawn. Elsewhere it is
 * a line from time to time.
 */
export class Screen {
  readonly #stream: NodeJS.WriteStream;
  readonly #quiet: boolean;
  readonly paint: Paint;
  #drawn = 0;
  #status: CrawlStatus | undefined;
  #lineAt = 0;

  constructor(stream: NodeJS.WriteStream, options: { readonly quiet: boolean }) {
    this.#stream = stream;
    this.#quiet = options.quiet;
    this.paint = paintFor(stream);
  }

  /** Prints a line that stays. */
  say(line = ''): void {
    if (this.#quiet) return;
    this.#erase();
    this.#stream.write(`${line}\n`);
    this.#draw();
  }

  show(status: CrawlStatus): void {
    if (this.#quiet) return;
    this.#status = status;
    if (this.#stream.isTTY) {
      this.#erase();
      this.#draw();
    } else if (status.elapsedMs - this.#lineAt >= LINE_INTERVAL_MS) {
      this.#lineAt = status.elapsedMs;
      this.#stream.write(`${drawLine(status)}\n`);
    }
  }

  /** Leaves the block on the screen. Later messages come below it. */
  release(): void {
    this.#status = undefined;
    this.#drawn = 0;
  }

  #erase(): void {
    if (this.#drawn === 0) return;
    this.#stream.moveCursor(0, -this.#drawn);
    this.#stream.cursorTo(0);
    this.#stream.clearScreenDown();
    this.#drawn = 0;
  }

  #draw(): void {
    if (!this.#stream.isTTY || this.#status === undefined) return;
    const lines = drawBlock(this.#status, this.paint).map((line) =>
      fit(line, (this.#stream.columns || DEFAULT_COLUMNS) - 1),
    );
    this.#stream.write(`${lines.join('\n')}\n`);
    this.#drawn = lines.length;
  }
}
