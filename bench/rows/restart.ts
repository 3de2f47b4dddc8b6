import { credentials } from '@grpc/grpc-js';
import { TaskMasterServiceClient } from '@taskmaster/proto';
import { ProcessEndedError } from '../child.ts';
import { leaseTasks } from '../load/stub-calls.ts';
import type { LoadGenerator, Processes, ServerProcess } from '../processes.ts';
import type { Bench } from '../row.ts';

const IN_FLIGHT = 200;
const KILLS = 3;

export interface Start {
  readonly node: ServerProcess;
  /** Time from the start of the process to the reply to a lease, in ms. */
  readonly firstRpcMs: number;
  /** The part of `firstRpcMs` for that lease. */
  readonly leaseMs: number;
}

/** The queues of the load during a kill. */
export interface KilledAt {
  readonly dir: string;
  /** Prefix of the queues. The load goes to `spread` queues in turn. */
  readonly queue: string;
  readonly spread: number;
  /** The queue of the first lease after a start. */
  readonly first: string;
}

/** Kills a node under load and restarts it with its directory, several times. The last node keeps running. */
export async function killAndStart(bench: Bench, node: ServerProcess, at: KilledAt): Promise<readonly Start[]> {
  const starts: Start[] = [];
  for (let kill = 1; kill <= Math.min(KILLS, bench.scale.repetitions); kill++) {
    bench.progress(`kill ${kill}`);
    await killUnderLoad(bench, bench.processes.generator(), starts.at(-1)?.node ?? node, at);
    starts.push(await startAndServe(bench.processes, at.dir, at.first));
  }
  return starts;
}

/** Starts a node and leases one task. */
export async function startAndServe(
  processes: Processes,
  dir: string,
  queue: string,
  flags?: readonly string[],
): Promise<Start> {
  const began = performance.now();
  const node = await processes.node(dir, flags);
  const stub = new TaskMasterServiceClient(node.endpoint, credentials.createInsecure());
  try {
    const leasing = performance.now();
    await leaseTasks(stub, queue, 1);
    const now = performance.now();
    return { node, firstRpcMs: now - began, leaseMs: now - leasing };
  } finally {
    stub.close();
  }
}

/** Enqueues, leases and completes tasks until the node is killed. */
async function killUnderLoad(
  bench: Bench,
  generator: LoadGenerator,
  node: ServerProcess,
  { queue, spread }: KilledAt,
): Promise<void> {
  const { endpoint } = node;
  const operation = { kind: 'lease-complete', via: 'client', queue, spread, batch: 1, replace: true } as const;
  const warm = generator.run({ kind: 'loop', endpoint, operation, inFlight: IN_FLIGHT, ms: bench.scale.runMs });
  await warm;
  const cutOff = generator.run({ kind: 'loop', endpoint, operation, inFlight: IN_FLIGHT, ms: bench.scale.runMs });
  const cut = cutOff.then(
    () => Promise.reject(new Error('the load ended before the node was killed')),
    (error: unknown) => {
      if (!(error instanceof ProcessEndedError)) throw error;
    },
  );
  await new Promise((resolve) => setTimeout(resolve, bench.scale.runMs / 2));
  await node.kill();
  // Otherwise its calls would be retried until their deadlines.
  await generator.kill();
  await cut;
}
