import { Latencies } from './latencies.ts';

/** The kinds of calls that a load makes. `pipeline` completes tasks and adds others in one update. */
export const CALL_KINDS = ['enqueue', 'lease', 'complete', 'pipeline', 'renew', 'release', 'peek', 'stats'] as const;

export type CallKind = (typeof CALL_KINDS)[number];

export type CountsByReason = Readonly<Record<string, number>>;

/** The calls of one kind, of one interval or of all. */
export class CallFigures {
  /** Latencies of the successful calls. */
  readonly latencies: Latencies;
  /** Tasks of the successful calls. */
  tasks: number;
  /** Failed calls, by reason. */
  readonly errors: Map<string, number>;

  constructor(latencies = Latencies.empty(), tasks = 0, errors: CountsByReason = {}) {
    this.latencies = latencies;
    this.tasks = tasks;
    this.errors = new Map(Object.entries(errors));
  }

  get failed(): number {
    return sumOf(this.errors);
  }

  add(other: CallFigures): void {
    this.latencies.add(other.latencies);
    this.tasks += other.tasks;
    addCounts(this.errors, other.errors);
  }
}

export function addCounts(to: Map<string, number>, from: ReadonlyMap<string, number>): void {
  for (const [reason, count] of from) to.set(reason, (to.get(reason) ?? 0) + count);
}

export function sumOf(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}
