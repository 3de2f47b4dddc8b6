import { type Output, sizeOf } from './output.ts';

/** Alternate screen, hidden cursor, no line wrapping. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** A page on the alternate screen that is redrawn. Disposal restores the terminal. */
export class Screen implements Disposable {
  readonly #out: Output;

  constructor(out: Output) {
    this.#out = out;
    out.stream.write(ENTER);
  }

  /** Draws the page. Clears line by line, because clearing the whole page would flicker. */
  draw(page: string): void {
    const lines = page.split('\n').slice(0, sizeOf(this.#out.stream).rows);
    // Clears the end of the old line, which may have been longer.
    const drawn = lines.map((line) => `${line}${CLEAR_LINE}`).join('\n');
    this.#out.stream.write(`${HOME}${drawn}${CLEAR_BELOW}`);
  }

  [Symbol.dispose](): void {
    this.#out.stream.write(LEAVE);
  }
}
