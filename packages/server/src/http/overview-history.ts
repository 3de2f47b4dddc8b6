import type { OverviewHistory } from '@taskmaster/proto';

/** Samples that are kept: those of two hours. */
const MOST = 720;

const historySeries = ['available', 'leased', 'delayed', 'enqueued', 'completed', 'failed', 'deadLettered'] as const;
type Series = (typeof historySeries)[number];

/** Sums over the nodes, the oldest first. null: no node knows it. */
export type ClusterHistory = { readonly stepMs: number; readonly at: readonly number[] } & {
  readonly [S in Series]: readonly (number | null)[];
};

/** Adds the samples of several nodes. It remembers them, so that a node has to send only the new ones. */
export class ClusterSamples {
  /** By node, then by instant. */
  readonly #nodes = new Map<string, Map<number, readonly number[]>>();
  #stepMs = 10_000;

  /** Takes over what a node has sent. */
  add(node: string, history: OverviewHistory): void {
    const { stepMs, lastUnixMs, available } = history;
    this.#stepMs = stepMs;
    const known = this.#nodes.get(node) ?? new Map<number, readonly number[]>();
    this.#nodes.set(node, known);
    for (const index of available.keys()) {
      const at = lastUnixMs - (available.length - 1 - index) * stepMs;
      known.set(
        at,
        historySeries.map((name) => history[name][index] ?? -1),
      );
    }
    for (const at of known.keys()) if (at <= lastUnixMs - MOST * stepMs) known.delete(at);
  }

  /** Behind which instant a node has to send its samples. 0: all of them, because some are missing here. */
  get after(): number {
    const last = [...this.#nodes.values()].map((known) => Math.max(0, ...known.keys()));
    return last.length === 0 ? 0 : Math.min(...last);
  }

  /** Forgets nodes that are no members any more. */
  keep(nodes: ReadonlySet<string>): void {
    for (const node of this.#nodes.keys()) if (!nodes.has(node)) this.#nodes.delete(node);
  }

  has(node: string): boolean {
    return this.#nodes.has(node);
  }

  /** The sums of all samples behind an instant. */
  sums(after: number): ClusterHistory {
    const last = Math.max(0, ...[...this.#nodes.values()].flatMap((known) => [...known.keys()]));
    const at = [...new Set([...this.#nodes.values()].flatMap((known) => [...known.keys()]))]
      .filter((instant) => instant > after && instant > last - MOST * this.#stepMs)
      .sort((a, b) => a - b);
    const sumOf = (instant: number, index: number): number | null => {
      let sum: number | null = null;
      for (const known of this.#nodes.values()) {
        const value = known.get(instant)?.[index] ?? -1;
        if (value >= 0) sum = (sum ?? 0) + value;
      }
      return sum === null ? null : Math.round(sum * 1000) / 1000;
    };
    const series = historySeries.map((name, index) => [name, at.map((instant) => sumOf(instant, index))]);
    return { stepMs: this.#stepMs, at, ...Object.fromEntries(series) } as ClusterHistory;
  }
}
