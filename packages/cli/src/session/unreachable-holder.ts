import {
  type ClusterPartitions,
  isTaskMasterError,
  type TaskMasterClient,
  type TaskMasterError,
} from '@taskmaster/client';
import { parseQueueName, partitionOf, type Reason } from '@taskmaster/proto';

/** A node that does not answer. */
export interface UnreachableHolder {
  readonly name: string;
  /** The queues of the command that the node holds. */
  readonly queues: readonly string[];
}

const HOLDER_UNREACHABLE = 'HOLDER_UNREACHABLE' satisfies Reason;
/** Timeout for the name of a holder, in ms. */
const NAME_TIMEOUT_MS = 1_000;
/** Timeout for the list of partitions, in ms. For it nodes wait two seconds for each other. */
const PARTITIONS_TIMEOUT_MS = 3_000;

/**
 * The nodes whose silence made a call about these queues fail. Empty if the call failed for another reason, or if the nodes
 * are unknown.
 */
export async function unreachableHolders(
  client: TaskMasterClient,
  error: TaskMasterError,
  queues: readonly string[],
): Promise<readonly UnreachableHolder[]> {
  if (error.reason !== HOLDER_UNREACHABLE || queues.length === 0) return [];
  if (queues.length > 1)
    return holdersIn(await orNothing(client.cluster.partitions({ timeout: PARTITIONS_TIMEOUT_MS })), queues);
  // For one queue the refusal has the address of the holder. The list of members is quicker than the list of partitions.
  const { holder } = error.metadata;
  if (holder === undefined) return [];
  const cluster = await orNothing(client.cluster.members({ timeout: NAME_TIMEOUT_MS }));
  const name = cluster?.members.find(({ role, rpcAddress }) => role === 'node' && rpcAddress === holder)?.name;
  return name === undefined ? [] : [{ name, queues }];
}

/** `b, which holds g1#q, does not answer`. */
export function unreachableText(holders: readonly UnreachableHolder[]): string {
  const texts = holders.map(({ name, queues }) => `${name}, which holds ${queues.join(', ')}, does not answer`);
  return texts.join('; ');
}

function holdersIn(listing: ClusterPartitions | undefined, queues: readonly string[]): readonly UnreachableHolder[] {
  const byName = new Map<string, string[]>();
  for (const queue of queues) {
    const found = listing?.partitions[partitionOf(parseQueueName(queue).group, listing.partitions.length)];
    if (found?.state !== 'unreachable' || found.holder === undefined) continue;
    const { name } = found.holder;
    byName.set(name, [...(byName.get(name) ?? []), queue]);
  }
  return [...byName].map(([name, held]) => ({ name, queues: held }));
}

/** The lookup only makes a message better, so it may fail. */
async function orNothing<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isTaskMasterError(error)) return undefined;
    throw error;
  }
}
