import { type OverviewHistory, type OverviewSeries, overviewSeries } from '@taskmaster/proto';

/** Samples that are kept: those of two hours. */
const MOST = 720;

/** Different instants behind which pages ask for samples, at the same time. */
const MOST_SUMS = 16;

/** Steps by which the samples of a node may be behind those of others. */
const MOST_BEHIND = 3;

/** Samples further ahead than this are of a wrong clock, in ms; as the alert ClockDifference. */
const MOST_AHEAD_MS = 60_000;

/** Sums over the nodes, the oldest first. null: no node knows it, or one that was there before and after does not. */
export type ClusterHistory = { readonly stepMs: number; readonly at: readonly number[] } & {
  readonly [S in OverviewSeries]: readonly (number | null)[];
};

/** Adds the samples of several nodes. It remembers them, so that a node has to send only the new ones. */
export class ClusterSamples {
  /** By node, then by instant. */
  readonly #nodes = new Map<string, Map<number, readonly number[]>>();
  #answered: ReadonlySet<string> = new Set();
  #stepMs = 10_000;
  /** The last sample of the node whose clock is nearest to that of this program. */
  #present = 0;
  /** The sums that were made since the last new sample, by the instant behind which they are. */
  readonly #sums = new Map<number, ClusterHistory>();

  /** Takes over what a node has sent. */
  add(node: string, history: OverviewHistory): void {
    const { stepMs, lastUnixMs, available } = history;
    this.#stepMs = stepMs;
    const known = this.#nodes.get(node) ?? new Map<number, readonly number[]>();
    this.#nodes.set(node, known);
    for (const index of available.keys()) {
      const at = lastUnixMs - (available.length - 1 - index) * stepMs;
      if (!known.has(at)) this.#sums.clear();
      known.set(
        at,
        overviewSeries.map((name) => history[name][index] ?? -1),
      );
    }
    // Those that are ahead are of a clock that was set back.
    for (const at of known.keys()) if (at <= lastUnixMs - MOST * stepMs || at > lastUnixMs) known.delete(at);
  }

  /** Behind which instant the nodes have to send their samples. 0: all of them. */
  get after(): number {
    // A node that is down must not have the others send again what they have sent.
    const last = [...this.#answered].filter((node) => this.#nodes.has(node)).map((node) => this.#lastOf(node));
    return last.length === 0 ? 0 : Math.min(...last);
  }

  /** Whether the samples of a node have gaps here, because it has not answered the last time. */
  isBehind(node: string): boolean {
    return !this.#answered.has(node);
  }

  /** The nodes that have answered now. The samples of others stay until they are too old. `now`: the system clock. */
  answered(nodes: ReadonlySet<string>, now: number): void {
    if (nodes.size !== this.#answered.size || [...nodes].some((node) => !this.#answered.has(node))) this.#sums.clear();
    this.#answered = nodes;
    const last = [...this.#nodes.keys()].map((node) => this.#lastOf(node));
    const present = last.sort((a, b) => Math.abs(a - now) - Math.abs(b - now))[0] ?? 0;
    if (present !== this.#present) this.#sums.clear();
    this.#present = present;
    for (const node of this.#nodes.keys()) {
      if (nodes.has(node) || this.#lastOf(node) > present - MOST * this.#stepMs) continue;
      this.#nodes.delete(node);
      this.#sums.clear();
    }
  }

  #lastOf(node: string): number {
    return Math.max(0, ...(this.#nodes.get(node)?.keys() ?? []));
  }

  /** The sums of all samples behind an instant. Pages that are open ask for the same. */
  sums(after: number): ClusterHistory {
    const known = this.#sums.get(after);
    if (known !== undefined) return known;
    const made = this.#sumsBehind(after);
    if (this.#sums.size < MOST_SUMS) this.#sums.set(after, made);
    return made;
  }

  #sumsBehind(after: number): ClusterHistory {
    // A node whose clock is wrong must not take the place of all others.
    const last = this.#present + MOST_AHEAD_MS;
    const all = new Set([...this.#nodes.values()].flatMap((known) => [...known.keys()]));
    const instants = [...all].filter((instant) => instant <= last);
    const newest = Math.max(0, ...instants);
    // A sum without a node that has not sent its sample yet would be too low, and pages keep what they have. But one whose clock
    // is behind must not hold back the others for long.
    const complete = Math.max(this.after, newest - MOST_BEHIND * this.#stepMs);
    const at = instants
      .filter((instant) => instant > after && instant > newest - MOST * this.#stepMs && instant <= complete)
      .sort((a, b) => a - b);
    const nodes = [...this.#nodes.values()].map((known) => ({
      known,
      first: Math.min(...known.keys()),
      last: Math.max(...known.keys()),
    }));
    const sumOf = (instant: number, index: number): number | null => {
      let sum: number | null = null;
      for (const { known, first, last: end } of nodes) {
        const value = known.get(instant)?.[index] ?? -1;
        if (value >= 0) sum = (sum ?? 0) + value;
        // It was busy or down. A sum without it would look as if its tasks had been gone meanwhile.
        else if (instant > first && instant < end) return null;
      }
      return sum === null ? null : Math.round(sum * 1000) / 1000;
    };
    const series = overviewSeries.map((name, index) => [name, at.map((instant) => sumOf(instant, index))]);
    return { stepMs: this.#stepMs, at, ...Object.fromEntries(series) } as ClusterHistory;
  }
}
