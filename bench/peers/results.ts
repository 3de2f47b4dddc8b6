/** The workloads of every system that supports them; see `workloads.ts`. */
export const workloadNames = [
  'enqueue-single',
  'lease-complete-single',
  'worker',
  'enqueue-50',
  'lease-complete-50',
  'enqueue-to-waiting',
  'memory-1m',
] as const;

export type WorkloadName = (typeof workloadNames)[number];

/** The name of this system among its peers. */
export const OURSELVES = 'taskmaster';

/** The result of one system for one workload. */
export interface PeerResult {
  readonly peer: string;
  readonly workload: WorkloadName;
  /** `fsync`: everything acknowledged is synced to the disk. */
  readonly durability: 'fsync';
  /** Median of all rounds. Undefined if the workload measures a latency or memory. */
  readonly tasksPerS?: number | undefined;
  /** Latency of single calls, in ms. Undefined if it is not measured. */
  readonly p50Ms?: number | undefined;
  readonly p99Ms?: number | undefined;
  /** True if the server confirms completions, or enqueues, to the client. */
  readonly confirmed: boolean;
  /** Versions of the server and of the client library. */
  readonly versions: string;
  /** Rates, or median latencies, of every round. */
  readonly all?: readonly number[];
  /** Load average of the machine at the start. */
  readonly load?: number;
  /** The calls, if they are not obvious. */
  readonly how?: string;
  /** More figures. Their names end with the unit. */
  readonly more?: Readonly<Record<string, number>>;
}

/** The file has no valid results; the message names the wrong line. */
export class UnreadableResultsError extends Error {
  override readonly name = 'UnreadableResultsError';
}

/** One line of JSON, as `npm run bench -- peers --json` prints it. */
export function formatResult(result: PeerResult): string {
  const { peer, workload, durability, tasksPerS, p50Ms, p99Ms, confirmed, versions, all, load, how, more } = result;
  return JSON.stringify({
    peer,
    workload,
    durability,
    tasks_per_s: tasksPerS ?? null,
    p50_ms: p50Ms ?? null,
    p99_ms: p99Ms ?? null,
    confirmed,
    versions,
    ...(all !== undefined && { all }),
    ...(load !== undefined && { load }),
    ...(how !== undefined && { how }),
    ...more,
  });
}

/**
 * Parses the output of `formatResult`, one object per line. Skips lines about skipped or failed peers, and unknown workloads.
 * Throws `UnreadableResultsError`.
 */
export function parseResults(text: string): PeerResult[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    return parseResult(line, index + 1);
  });
}

function parseResult(line: string, number: number): PeerResult[] {
  const fields = objectOf(line, number);
  if ('skipped' in fields || 'error' in fields) return [];
  const { peer, durability, confirmed, versions } = fields;
  const workload = workloadNames.find((name) => name === fields.workload);
  if (workload === undefined && typeof fields.workload === 'string') return [];
  if (typeof peer !== 'string' || workload === undefined || typeof confirmed !== 'boolean') {
    throw new UnreadableResultsError(`line ${number} is not a result: it needs peer, workload and confirmed`);
  }
  if (durability !== 'fsync') throw new UnreadableResultsError(`line ${number}: durability is not fsync`);
  return [
    {
      peer,
      workload,
      durability,
      tasksPerS: figure(fields, 'tasks_per_s', number),
      p50Ms: figure(fields, 'p50_ms', number),
      p99Ms: figure(fields, 'p99_ms', number),
      confirmed,
      versions: typeof versions === 'string' ? versions : '',
    },
  ];
}

/** The fastest other system in a workload with rates; undefined if none was measured. */
export function bestPeer(
  results: readonly PeerResult[],
  workload: WorkloadName,
  only: (result: PeerResult) => boolean = () => true,
): PeerResult | undefined {
  const rateOf = ({ tasksPerS = 0 }: PeerResult): number => tasksPerS;
  return results
    .filter((one) => one.workload === workload && one.peer !== OURSELVES && rateOf(one) > 0 && only(one))
    .reduce<PeerResult | undefined>((best, one) => (best && rateOf(best) >= rateOf(one) ? best : one), undefined);
}

function objectOf(line: string, number: number): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new UnreadableResultsError(`line ${number} is not JSON`, { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UnreadableResultsError(`line ${number} is not an object`);
  }
  return value as Record<string, unknown>;
}

function figure(fields: Record<string, unknown>, name: string, number: number): number | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
  throw new UnreadableResultsError(`line ${number}: ${name} is not a number from 0 up`);
}
