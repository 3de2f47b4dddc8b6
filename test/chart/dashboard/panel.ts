/** A panel of the dashboard of Grafana. */
export interface Panel {
  readonly title: string;
  /** For somebody who sees the panel for the first time, at three in the morning. */
  readonly description: string;
  /** A number, lines over the time, or a line of states over the time. */
  readonly shown: 'number' | 'lines' | 'stack' | 'states';
  /** Unit of Grafana. */
  readonly unit: string;
  /** Expressions of PromQL by their legends. */
  readonly queries: Readonly<Record<string, string>>;
  /** A colour from each value on. The first has no value, and begins with the least. */
  readonly thresholds?: readonly (readonly [color: string, from: number | null])[];
  /** The sections of docs/operate/alerts.md that say what to do. */
  readonly alerts?: readonly string[];
  /** What a number without a series means. */
  readonly none?: string;
  readonly decimals?: number;
}

export interface Row {
  readonly title: string;
  /** Closed until somebody opens it, so that nobody asks for what a cluster does not have. */
  readonly collapsed?: boolean;
  readonly panels: readonly Panel[];
}

/** Colours of what is well without a value above these. */
export const good = (...steps: readonly (readonly [string, number])[]) => [['green', null], ...steps] as const;
export const WARNED = good(['orange', 1]);
export const CRITICAL = good(['red', 1]);
