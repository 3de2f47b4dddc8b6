import { Memo } from '@taskmaster/proto';

const SECOND = 1000;
const HOUR = 3_600_000;
/** Clocks that are remembered, by time zone. All are forgotten when there are more. */
const MOST_CLOCKS = 500;
/** A wall clock is at most 12 hours behind UTC and 14 hours ahead of it, and was 16 hours behind once. */
const FARTHEST_OFFSET = 17 * HOUR;
/** Two changes of a zone are farther apart. */
const SAMPLE = 11 * HOUR;

/** A time with a constant offset. */
interface Piece {
  readonly from: number;
  /** The first instant with another offset, or the end of what was asked for. */
  readonly until: number;
  /** Wall clock minus UTC. */
  readonly offset: number;
}

/** Finds the first wall time that a rule names after another one. Undefined: there is none. */
export type WallSearch = (after: number) => number | undefined;

/**
 * The wall clock of a time zone. A wall time is written as the instant at which a clock in UTC shows it, in ms. All are whole
 * seconds, except where a time is only compared.
 */
export class WallClock {
  static readonly #clocks = new Memo<string, WallClock>(MOST_CLOCKS);

  readonly #format: Intl.DateTimeFormat;
  /** A time without a change, because each look at `Intl` takes long. */
  #known: Piece = { from: 0, until: 0, offset: 0 };

  private constructor(timeZone: string) {
    this.#format = formatOf(timeZone);
  }

  /** @throws RangeError if this release of Node.js does not know the time zone. */
  static of(timeZone: string): WallClock {
    return WallClock.#clocks.get(timeZone) ?? WallClock.#clocks.remember(timeZone, new WallClock(timeZone));
  }

  /** The first instant after `after` at which the clock has reached a wall time that the search finds. */
  firstReached(search: WallSearch, after: number): number | undefined {
    const wall = search(this.#furthest(after));
    return wall === undefined ? undefined : this.#reached(wall);
  }

  /** The first instant after `after` at which the clock shows a wall time that the search finds. */
  firstShown(search: WallSearch, after: number): number | undefined {
    const [now, ...later] = this.#pieces(after, after + 2 * FARTHEST_OFFSET);
    if (now === undefined) return undefined;
    const onward = this.#shownOnward(search, after, after + now.offset);
    // Where clocks go back soon, they show earlier times once more.
    let before = now.offset;
    for (const piece of later) {
      if (onward !== undefined && onward < piece.from) break;
      if (piece.offset < before) {
        const again = search(piece.from + piece.offset - 1);
        if (again !== undefined && again - piece.offset < piece.until) {
          return Math.min(again - piece.offset, onward ?? Number.POSITIVE_INFINITY);
        }
      }
      before = piece.offset;
    }
    return onward;
  }

  /** As `firstShown`, for wall times after `wall` alone. */
  #shownOnward(search: WallSearch, after: number, wall: number): number | undefined {
    for (let next = search(wall); next !== undefined; ) {
      let gapEnd: number | undefined;
      for (const { from, until, offset } of this.#piecesAround(next)) {
        const instant = next - offset;
        if (instant >= from && instant < until && instant > after) return instant;
        if (instant < from && from > after) gapEnd ??= from + offset;
      }
      // No time in a gap is shown, so the search goes on at its end.
      next = search(gapEnd === undefined ? next : Math.max(next, gapEnd - 1));
    }
    return undefined;
  }

  /** The latest wall time that the clock has shown up to an instant. */
  #furthest(at: number): number {
    let furthest = Number.NEGATIVE_INFINITY;
    for (const { until, offset } of this.#pieces(at - 2 * FARTHEST_OFFSET, at + 1)) {
      furthest = Math.max(furthest, until - 1 + offset);
    }
    return furthest;
  }

  #reached(wall: number): number {
    for (const { from, until, offset } of this.#piecesAround(wall)) {
      if (wall - offset < until) return Math.max(from, wall - offset);
    }
    throw new RangeError(`no clock shows ${wall}`);
  }

  /** The pieces in which a clock may show a wall time. */
  #piecesAround(wall: number): readonly Piece[] {
    return this.#pieces(wall - FARTHEST_OFFSET, wall + FARTHEST_OFFSET);
  }

  #pieces(from: number, until: number): readonly Piece[] {
    const known = this.#known;
    if (known.from <= from && until <= known.until) return [{ from, until, offset: known.offset }];
    const pieces = this.#foundPieces(from, until);
    const [first] = pieces;
    if (pieces.length === 1 && first !== undefined) {
      const isNextTo = first.offset === known.offset && from <= known.until && known.from <= until;
      this.#known = isNextTo ? union(known, first) : first;
    }
    return pieces;
  }

  #foundPieces(from: number, until: number): readonly Piece[] {
    const pieces: Piece[] = [];
    let start = from;
    let offset = this.#offset(from);
    for (let at = from; at < until; ) {
      const next = Math.min(at + SAMPLE, until);
      const later = this.#offset(next);
      if (later !== offset) {
        const change = this.#changeBetween(at, next, offset);
        pieces.push({ from: start, until: change, offset });
        start = change;
        offset = later;
      }
      at = next;
    }
    if (start < until) pieces.push({ from: start, until, offset });
    return pieces;
  }

  /** The first instant, a whole second, with another offset than the earlier end. */
  #changeBetween(earlier: number, later: number, offset: number): number {
    let same = Math.floor(earlier / SECOND);
    let other = Math.ceil(later / SECOND);
    while (other - same > 1) {
      const middle = Math.floor((same + other) / 2);
      if (this.#offset(middle * SECOND) === offset) same = middle;
      else other = middle;
    }
    return other * SECOND;
  }

  #offset(at: number): number {
    const second = Math.floor(at / SECOND) * SECOND;
    const fields = { year: 0, month: 0, day: 0, hour: 0, minute: 0, second: 0 };
    let isBeforeChrist = false;
    for (const { type, value } of this.#format.formatToParts(second)) {
      if (type === 'era') isBeforeChrist = value === 'B';
      else if (Object.hasOwn(fields, type)) fields[type as keyof typeof fields] = Number(value);
    }
    const { month, day, hour, minute, second: seconds } = fields;
    const year = isBeforeChrist ? 1 - fields.year : fields.year;
    // `Date.UTC` takes years below 100 for others. 400 years are always as long.
    return Date.UTC(year + 400, month - 1, day, hour, minute, seconds) - YEARS_400 - second;
  }
}

const YEARS_400 = Date.UTC(2400, 0) - Date.UTC(2000, 0);

const union = (a: Piece, b: Piece): Piece => ({
  from: Math.min(a.from, b.from),
  until: Math.max(a.until, b.until),
  offset: a.offset,
});

function formatOf(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    hourCycle: 'h23',
    era: 'narrow',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
}
