import { drawBlock, drawLine, fit, type Paint, paintFor } from './draw.ts';
import type { CrawlStatus } from './observe.ts';

/** On what is no terminal, the progress is a line this often, in ms. */
const LINE_INTERVAL_MS = 2_000;
/** Of a terminal that does not know its own width. */
const DEFAULT_COLUMNS = 80;

/**
 * Shows what happens: lines that stay, and below them, on a terminal, a block that is drawn again and again. Elsewhere
 * the progress is a line now and then.
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

  /** A line that stays. */
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

  /** Leaves the block as it is; what is said from now on comes below it. */
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
