/** The longest time without an answer. */
export interface Pause {
  readonly ms: number;
  readonly group: string;
  /** Its end, in ms since the start. */
  readonly endedAtMs: number;
}

interface Waiting {
  calls: number;
  /** Since when calls wait without an answer. Undefined: none waits. */
  since: number | undefined;
}

/**
 * Finds the longest pause: the longest time in which a group had calls waiting and none was answered with success. Groups are
 * served by one node each, so this is how long a failure keeps one of them from its users.
 */
export class Pauses {
  readonly #groups = new Map<string, Waiting>();
  readonly #start: number;
  #longest: Pause | undefined;

  constructor(start: number) {
    this.#start = start;
  }

  get longest(): Pause | undefined {
    return this.#longest;
  }

  began(group: string, now: number): void {
    const waiting = this.#groups.get(group) ?? { calls: 0, since: undefined };
    this.#groups.set(group, waiting);
    waiting.calls++;
    waiting.since ??= now;
  }

  succeeded(group: string, now: number): void {
    const waiting = this.#ended(group);
    if (waiting === undefined) return;
    this.#notice(group, waiting, now);
    waiting.since = waiting.calls > 0 ? now : undefined;
  }

  /** The pause goes on: the call was not answered, or was refused. */
  failed(group: string): void {
    this.#ended(group);
  }

  /** Call this at the end of the load, because a pause may not have ended. */
  finish(now: number): void {
    for (const [group, waiting] of this.#groups) this.#notice(group, waiting, now);
  }

  #ended(group: string): Waiting | undefined {
    const waiting = this.#groups.get(group);
    if (waiting !== undefined) waiting.calls--;
    return waiting;
  }

  #notice(group: string, { since }: Waiting, now: number): void {
    if (since === undefined || now - since <= (this.#longest?.ms ?? 0)) return;
    this.#longest = { ms: now - since, group, endedAtMs: now - this.#start };
  }
}
