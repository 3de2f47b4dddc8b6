import type { LoggedChange } from '../show/cluster-log.ts';

/** `GET /api/overview`: the whole cluster. It is made at most once a second for all pages. Instants are in ms since 1970. */
export interface Overview {
  readonly at: number;
  readonly servedBy: { readonly role: string; readonly name: string };
  /** Empty without a cluster. */
  readonly members: readonly OverviewMember[];
  /** Nodes that did not answer. Their queues are missing from the totals. */
  readonly unreachable: readonly {
    readonly id: string;
    readonly name: string;
    readonly address: string;
    readonly reason: string;
    readonly since: number | null;
  }[];
  readonly partitions: {
    readonly total: number | null;
    readonly served: number | null;
    readonly unserved: number | null;
    readonly moving: readonly OverviewMove[];
  };
  readonly totals: Readonly<Record<Total, number>>;
  readonly attention: readonly Attention[];
  readonly history: OverviewHistory;
  /** The latest first, if they were asked for and the user has the right manage-cluster. */
  readonly changes?: readonly LoggedChange[];
}

type Total =
  | 'queues'
  | 'available'
  | 'leased'
  | 'delayed'
  | 'deadLettered'
  | 'enqueueRate'
  | 'completeRate'
  | 'failRate'
  | 'deadLetterRate';

interface OverviewMove {
  readonly id: number;
  readonly from: string;
  readonly to: string;
  readonly rows: number;
  readonly bytes: number;
}

export interface OverviewMember {
  readonly id: string;
  readonly name: string;
  readonly role: 'node' | 'proxy';
  readonly address: string;
  readonly http: string;
  readonly state: string;
  readonly alive: boolean;
  readonly suspect: boolean;
  /** Since when it is alive or dead, as this server saw it. */
  readonly since: number | null;
  readonly sinceIsExact: boolean;
  readonly version: string;
  readonly partitions: number;
  readonly partitionsWanted: number;
  readonly clockDifferenceMs: number | null;
  readonly health?: string;
  readonly disk?: { readonly freeBytes: number; readonly fullBelowBytes: number };
}

export interface Attention {
  readonly severity: 'critical' | 'warning';
  readonly kind: string;
  readonly subject: string;
  readonly message: string;
  readonly since: number;
  /** False: it may have begun earlier. */
  readonly sinceIsExact: boolean;
  readonly queue?: string;
  readonly member?: string;
}

/** Samples. Null: unknown. */
export interface OverviewHistory {
  readonly stepMs: number;
  readonly at: readonly number[];
  readonly available: readonly (number | null)[];
  readonly leased: readonly (number | null)[];
  readonly delayed: readonly (number | null)[];
  readonly enqueued: readonly (number | null)[];
  readonly completed: readonly (number | null)[];
  readonly failed: readonly (number | null)[];
}

/** The samples, and the sums as they are now: samples come every ten seconds, and the figures beside the charts are newer. */
export function withNow({ at, history, totals }: Pick<Overview, 'at' | 'history' | 'totals'>): OverviewHistory {
  if (at <= (history.at.at(-1) ?? 0)) return history;
  const { available, leased, delayed } = history;
  const latest = (values: readonly (number | null)[]): number | null => values.at(-1) ?? null;
  return {
    stepMs: history.stepMs,
    at: [...history.at, at],
    available: [...available, totals.available],
    leased: [...leased, totals.leased],
    delayed: [...delayed, totals.delayed],
    enqueued: [...history.enqueued, latest(history.enqueued)],
    completed: [...history.completed, latest(history.completed)],
    failed: [...history.failed, latest(history.failed)],
  };
}

const MOST_SAMPLES = 720;

/** The samples that are known, and those behind them. */
export function joined(known: OverviewHistory | undefined, more: OverviewHistory): OverviewHistory {
  if (known === undefined) return more;
  const last = known.at.at(-1) ?? 0;
  const from = more.at.findIndex((at) => at > last);
  if (from < 0) return known;
  const join = <T>(before: readonly T[], behind: readonly T[]): T[] =>
    [...before, ...behind.slice(from)].slice(-MOST_SAMPLES);
  return {
    stepMs: more.stepMs,
    at: join(known.at, more.at),
    available: join(known.available, more.available),
    leased: join(known.leased, more.leased),
    delayed: join(known.delayed, more.delayed),
    enqueued: join(known.enqueued, more.enqueued),
    completed: join(known.completed, more.completed),
    failed: join(known.failed, more.failed),
  };
}
