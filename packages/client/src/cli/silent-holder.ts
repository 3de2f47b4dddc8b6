import { parseQueueName, partitionOf, type Reason } from '@taskmaster/proto';
import type { TaskMasterClient } from '../api/client.ts';
import type { ClusterPartitions } from '../api/cluster.ts';
import { isTaskMasterError, type TaskMasterError } from '../values/errors.ts';
import { escapeControls } from './input/bytes-text.ts';

/** A node that does not answer, and which of the queues of a command it holds. */
export interface SilentHolder {
  readonly name: string;
  readonly queues: readonly string[];
}

const HOLDER_UNREACHABLE = 'HOLDER_UNREACHABLE' satisfies Reason;
/** Nobody waits longer for a name, in ms. */
const NAME_MS = 1_000;
/** Nodes wait two seconds for each other. */
const LOOK_MS = 3_000;

/**
 * Who it is that a call about these queues found silent. None where that cannot be told, or where the call failed for
 * another reason.
 */
export async function silentHolders(
  client: TaskMasterClient,
  error: TaskMasterError,
  queues: readonly string[],
): Promise<readonly SilentHolder[]> {
  if (error.reason !== HOLDER_UNREACHABLE || queues.length === 0) return [];
  if (queues.length > 1) return holdersIn(await orNothing(client.cluster.partitions({ timeout: LOOK_MS })), queues);
  // Of one queue the refusal says at which address it is held, and members tell quickly whose that is.
  const { holder } = error.metadata;
  if (holder === undefined) return [];
  const cluster = await orNothing(client.cluster.members({ timeout: NAME_MS }));
  const name = cluster?.members.find(({ role, rpcAddress }) => role === 'node' && rpcAddress === holder)?.name;
  return name === undefined ? [] : [{ name, queues }];
}

/** `b, which holds g1#q, does not answer`. */
export function silenceText(holders: readonly SilentHolder[]): string {
  const texts = holders.map(({ name, queues }) => `${name}, which holds ${queues.join(', ')}, does not answer`);
  return escapeControls(texts.join('; '));
}

function holdersIn(listing: ClusterPartitions | undefined, queues: readonly string[]): readonly SilentHolder[] {
  const byName = new Map<string, string[]>();
  for (const queue of queues) {
    const found = listing?.partitions[partitionOf(parseQueueName(queue).group, listing.partitions.length)];
    if (found?.state !== 'unreachable' || found.holder === undefined) continue;
    const { name } = found.holder;
    byName.set(name, [...(byName.get(name) ?? []), queue]);
  }
  return [...byName].map(([name, held]) => ({ name, queues: held }));
}

/** What only makes a message better may fail. */
async function orNothing<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isTaskMasterError(error)) return undefined;
    throw error;
  }
}
