import { Connections } from '../load/connections.ts';
import { metricOf } from '../metrics.ts';
import type { Processes, ServerProcess } from '../processes.ts';
import type { Figures } from './baseline.ts';
import { Relay } from './relay.ts';
import { type GuardedWorkload, TASKS } from './workloads.ts';

/** Time between two checkpoints. A run must be shorter, so that no checkpoint happens during it. */
const CHECKPOINT_MS = 60_000;
const CHECKPOINT_FLAG = `--engine-checkpoint-interval-ms=${CHECKPOINT_MS}`;
const ATTEMPTS = 3;

/**
 * The cost of one task on a new node, in figures that do not depend on the machine: fsyncs, written bytes, messages and their
 * bytes. The node's metrics count writes and syncs. A relay between the node and its clients counts the messages.
 */
export async function countedFigures(processes: Processes, workload: GuardedWorkload): Promise<Figures> {
  for (let attempt = 1; ; attempt++) {
    const began = performance.now();
    const figures = await count(processes, workload);
    if (performance.now() - began < CHECKPOINT_MS) return figures;
    if (attempt === ATTEMPTS) throw new Error(`${workload.row} took longer than the time between two checkpoints`);
  }
}

async function count(processes: Processes, workload: GuardedWorkload): Promise<Figures> {
  const node = await processes.node(undefined, [CHECKPOINT_FLAG]);
  await using relay = await Relay.to(node.endpoint);
  await using connections = new Connections();
  const stub = await connections.stub(relay.endpoint);
  const client = await connections.client(relay.endpoint);
  await workload.prepare({ stub, client });
  const before = await countersOf(node, relay);
  await workload.run({ stub, client });
  const after = await countersOf(node, relay);
  await node.stop();
  return Object.fromEntries(
    Object.entries(after).map(([name, value]) => [name, (value - (before[name] ?? 0)) / TASKS]),
  );
}

async function countersOf(node: ServerProcess, { toServer, toClient }: Relay): Promise<Record<string, number>> {
  return {
    fsyncs: await metricOf(node, 'taskmaster_commit_duration_seconds_count'),
    stored_bytes: await metricOf(node, 'taskmaster_commit_batch_bytes_sum'),
    messages_to_node: toServer.messages,
    messages_from_node: toClient.messages,
    message_bytes_to_node: toServer.bytes,
    message_bytes_from_node: toClient.bytes,
  };
}
