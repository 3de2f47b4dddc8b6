import { type Output, sizeOf } from './output.ts';

/** The alternate screen, without a cursor, cutting long lines off instead of wrapping them. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** A page that is drawn over and over. What the terminal showed before is back when it is disposed of. */
export class Screen implements Disposable {
  readonly #out: Output;

  constructor(out: Output) {
    this.#out = out;
    out.stream.write(ENTER);
  }

  /** Lines are cleared one by one while they are drawn over: a page cleared as a whole would flicker. */
  draw(page: string): void {
    const lines = page.split('\n').slice(0, sizeOf(this.#out.stream).rows);
    // After the line, so that the end of the longer one before goes; before the line break, which moves on.
    const drawn = lines.map((line) => `${line}${CLEAR_LINE}`).join('\n');
    this.#out.stream.write(`${HOME}${drawn}${CLEAR_BELOW}`);
  }

  [Symbol.dispose](): void {
    this.#out.stream.write(LEAVE);
  }
}
