/** What is measured of every system that can do it; see `workloads.ts` for how. */
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

/** The name this system has among its peers. */
export const OURSELVES = 'taskmaster';

/** What one system did of one workload. */
export interface PeerResult {
  readonly peer: string;
  readonly workload: WorkloadName;
  /** `fsync`: what is acknowledged has been synced to the disk. */
  readonly durability: 'fsync';
  /** Median of all rounds. Undefined where a latency or memory is what is measured. */
  readonly tasksPerS?: number | undefined;
  /** Of single calls, in ms. Undefined where they have no latency of their own. */
  readonly p50Ms?: number | undefined;
  readonly p99Ms?: number | undefined;
  /** Whether the client hears that what it completed, or enqueued, is done. */
  readonly confirmed: boolean;
  /** Of the server and of the client library. */
  readonly versions: string;
  /** Rates, or median latencies, of every round. */
  readonly all?: readonly number[];
  /** Load average of the machine when it began. */
  readonly load?: number;
  /** Which calls these are, where that is not obvious. */
  readonly how?: string;
  /** More figures; names end in their units. */
  readonly more?: Readonly<Record<string, number>>;
}

/** The file cannot be read as results; the message says which line is wrong. */
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
 * Reads what `formatResult` wrote, one object a line. Lines about peers that were skipped or failed are passed over, and
 * so are workloads this version does not know.
 *
 * @throws UnreadableResultsError
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

/** The quickest of the others in a workload that is measured as a rate; undefined: none of them did it. */
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
