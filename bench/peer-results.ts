import { readFile } from 'node:fs/promises';
import { bestPeer, type PeerResult, parseResults, type WorkloadName } from './peers/results.ts';

/** Results of other queues on this machine. */
export class PeerResults {
  readonly #results: readonly PeerResult[];

  constructor(results: readonly PeerResult[]) {
    this.#results = results;
  }

  /** The fastest result of a workload. `confirmed`: only of queues that confirm completions to the client, or only of others. */
  best(workload: WorkloadName, confirmed?: boolean): PeerResult | undefined {
    return bestPeer(this.#results, workload, (one) => confirmed === undefined || one.confirmed === confirmed);
  }
}

/** Reads results from a file. Throws `UnreadableResultsError`. */
export async function readPeerResults(file: string): Promise<PeerResults> {
  return new PeerResults(parsePeerResults(await readFile(file, 'utf8')));
}

/**
 * Parses lines of `npm run bench -- peers`, or of the earlier comparison with workloads W1 to W4, which has `mode` instead of
 * `durability`. Of the latter, only results with syncs count.
 */
export function parsePeerResults(text: string): PeerResult[] {
  const earlier = text.split('\n').map((line) => ({ line, fields: fieldsOf(line) }));
  const ours = earlier.map(({ line, fields }) => (fields?.mode === undefined ? line : '')).join('\n');
  return [...parseResults(ours), ...earlier.flatMap(({ fields }) => (fields ? earlierResult(fields) : []))];
}

const EARLIER_WORKLOADS: Readonly<Record<string, WorkloadName>> = {
  W1: 'enqueue-single',
  W2: 'lease-complete-single',
  'W2-worker': 'worker',
  'W3-enqueue': 'enqueue-50',
  'W3-lease': 'lease-complete-50',
};

/** Workloads of the earlier comparison whose completions are not confirmed. Its results say that only in prose. */
const UNCONFIRMED: Readonly<Record<string, readonly WorkloadName[]>> = {
  rabbitmq: ['lease-complete-single', 'worker', 'lease-complete-50'],
  'nats-jetstream': ['worker'],
  'graphile-worker': ['worker', 'lease-complete-50'],
};

function earlierResult(fields: Readonly<Record<string, unknown>>): PeerResult[] {
  const { peer, mode, workload, version, tasks_per_s: tasksPerS } = fields;
  const known = typeof workload === 'string' ? EARLIER_WORKLOADS[workload] : undefined;
  if (typeof peer !== 'string' || mode !== 'sync' || known === undefined || typeof tasksPerS !== 'number') return [];
  const confirmed = !(UNCONFIRMED[peer]?.includes(known) ?? false);
  const versions = typeof version === 'string' ? version : '';
  return [{ peer, workload: known, durability: 'fsync', tasksPerS, confirmed, versions }];
}

function fieldsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // `parseResults` reports the error
  }
}
