/** An answer with the time of the database, in ms since 1970. The other two are by a clock that never jumps, in ms. */
interface TimeAnswer {
  readonly time: number;
  readonly sentAt: number;
  readonly answeredAt: number;
}

/**
 * The time of the database, as of its last answer, and then by a clock of this process that never jumps. So the nodes that
 * use a database agree about instants, whatever their own clocks say.
 */
export class DatabaseTime {
  readonly #monotonic: () => number;
  /** How far the database is ahead of the monotonic time. */
  #aheadMs = 0;

  constructor(monotonic: () => number = () => performance.now()) {
    this.#monotonic = monotonic;
  }

  /** The database has read its clock between the statement and its answer: the middle is wrong by half of the wait at most. */
  learn({ time, sentAt, answeredAt }: TimeAnswer): void {
    this.#aheadMs = time - (sentAt + answeredAt) / 2;
  }

  /** Runs a call that is answered with the time of the database, and learns it. */
  async measure<T extends { readonly found: { readonly time: number } }>(call: () => Promise<T>): Promise<T> {
    const sentAt = this.#monotonic();
    const answer = await call();
    this.learn({ time: answer.found.time, sentAt, answeredAt: this.#monotonic() });
    return answer;
  }

  /** In ms since 1970, with fractions. */
  now(): number {
    return this.#monotonic() + this.#aheadMs;
  }
}
