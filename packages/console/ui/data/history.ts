import type { QueueStats } from '@taskmaster/proto/messages';

type Values = readonly (number | null)[];

/** A queue over time. Null: unknown. */
export interface QueueHistory {
  /** In ms since 1970 by the clock of the node. */
  readonly at: readonly number[];
  readonly available: Values;
  readonly leased: Values;
  readonly delayed: Values;
  readonly enqueueRate: Values;
  readonly completeRate: Values;
  readonly failureRate: Values;
}

/** The samples of the node, and the queue as it is now. */
export function historyOf(stats: QueueStats, now: number): QueueHistory {
  const { watch, available, leased, delayed, enqueueRate, completeRate } = stats;
  const samples = watch?.history;
  const length = samples?.available.length ?? 0;
  const last = samples?.lastUnixMs ?? 0;
  const step = samples?.stepMs ?? 0;
  const at = Array.from({ length }, (_, nth) => last - (length - 1 - nth) * step);
  // A node of an earlier release has not sampled all of them.
  const known = (values: readonly number[] | undefined): (number | null)[] =>
    at.map((_, nth) => {
      const value = values?.[nth] ?? -1;
      return value < 0 ? null : value;
    });
  return {
    at: [...at, Math.max(now, last + 1)],
    available: [...known(samples?.available), available],
    leased: [...known(samples?.leased), leased],
    delayed: [...known(samples?.delayed), delayed],
    enqueueRate: [...known(samples?.enqueueRate), enqueueRate],
    completeRate: [...known(samples?.completeRate), completeRate],
    failureRate: [...known(samples?.failureRate), watch?.failureRate ?? null],
  };
}
