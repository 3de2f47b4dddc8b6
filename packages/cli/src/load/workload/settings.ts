import type { Mix } from './operations.ts';

/** When operations begin. */
type Pace =
  /** Open loop: at fixed instants, whether or not earlier operations have ended. The rate is of all instances together. */
  | { readonly kind: 'rate'; readonly perSecond: number; readonly maxInFlight: number }
  /** Closed loop: an operation begins when another one ends. The depth is of all instances together. */
  | { readonly kind: 'depth'; readonly depth: number };

/** The load that all instances make together. */
export interface Workload {
  /** Beginning of the names of all groups. */
  readonly group: string;
  /** Groups of each instance. */
  readonly groups: number;
  /** Queues of each group. */
  readonly queues: number;
  readonly pace: Pace;
  readonly durationMs: number;
  readonly mix: Mix;
  /** Tasks of one operation. */
  readonly batch: number;
  readonly payloadMinBytes: number;
  readonly payloadMaxBytes: number;
  /** Exponent of Zipf's law for the choice of queues. 0: all are equal. */
  readonly skew: number;
  /** `fifo`: the node assigns PIDs. `random`: tasks have random PIDs, so they come in any order. */
  readonly pids: 'fifo' | 'random';
  readonly leaseDurationMs: number;
  /** How long `lease` waits if there is no task. */
  readonly waitMs: number;
  /** Longest delay of `delay`. */
  readonly delayMs: number;
  /** Tasks in the queues of each instance: with half of them it takes no more, with twice as many it adds no more. */
  readonly backlog: number;
  readonly seed: number;
}

/** One of the processes that make a load together. */
export interface Instance {
  /** From 0. */
  readonly index: number;
  readonly count: number;
}

/** The names of the queues of an instance. No two instances share a group, so each knows all calls about its tasks. */
export function queuesOf({ group, groups, queues }: Workload, { index }: Instance): string[] {
  const first = index * groups;
  return Array.from({ length: groups * queues }, (_, at) => {
    // Neighbours are in different groups, so that a skew does not favour one group.
    return `${group}-${first + (at % groups)}#q${Math.floor(at / groups)}`;
  });
}
