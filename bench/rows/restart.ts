import { credentials } from '@grpc/grpc-js';
import { TaskMasterServiceClient } from '@taskmaster/proto';
import { ProcessEnded } from '../child.ts';
import { fillDeep } from '../contestants.ts';
import { leaseTasks } from '../load/stub-calls.ts';
import { round } from '../machine.ts';
import { atMost, median } from '../measurement.ts';
import type { LoadGenerator, Processes, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';

/** R1 of the faults we survive: the first RPC is served within so long, in ms. */
const FIRST_RPC_MS = 3_000;
const IN_FLIGHT = 200;
const KILLS = 3;
const QUEUE = 'bench';

/** Kills a node that holds many tasks while it works, and starts it again on what it left. */
export const restart: Row = {
  name: 'restart-1m',
  about: 'SIGKILL at 1 M tasks under load: time to ready and to the first served RPC',
  async *run(bench) {
    const { processes, scale, load } = bench;
    const empty = await startAndServe(processes);
    await empty.node.stop();

    const dir = await processes.directory();
    const generator = processes.generator();
    let node = await processes.node(dir);
    const tasks = await fillDeep(bench, generator, node, QUEUE);
    const starts: Start[] = [];
    for (let kill = 1; kill <= Math.min(KILLS, scale.repetitions); kill++) {
      bench.progress(`kill ${kill}`);
      await killUnderLoad(bench, processes.generator(), node);
      const start = await startAndServe(processes, dir);
      starts.push(start);
      node = start.node;
    }
    await node.stop();
    const firstRpcMs = median(starts.map((start) => start.firstRpcMs));
    yield {
      row: restart.name,
      variant: 'killed',
      baseline: 'empty',
      ratio: firstRpcMs / empty.firstRpcMs,
      target: atMost('first_rpc_ms', firstRpcMs, FIRST_RPC_MS),
      load,
      more: {
        tasks,
        ready_ms: round(median(starts.map((start) => start.node.readyMs)), 0),
        first_rpc_ms: round(firstRpcMs, 0),
        baseline_ready_ms: round(empty.node.readyMs, 0),
        baseline_first_rpc_ms: round(empty.firstRpcMs, 0),
        all_first_rpc_ms: starts.map((start) => round(start.firstRpcMs, 0)),
      },
    };
  },
};

interface Start {
  readonly node: ServerProcess;
  /** From the start of the process to the reply of a lease, in ms. */
  readonly firstRpcMs: number;
}

async function startAndServe(processes: Processes, dir?: string): Promise<Start> {
  const began = performance.now();
  const node = await processes.node(dir);
  const stub = new TaskMasterServiceClient(node.endpoint, credentials.createInsecure());
  try {
    await leaseTasks(stub, QUEUE, 1);
    return { node, firstRpcMs: performance.now() - began };
  } finally {
    stub.close();
  }
}

/** Enqueues, leases and completes until the node is gone in the middle of it. */
async function killUnderLoad(bench: Bench, generator: LoadGenerator, node: ServerProcess): Promise<void> {
  const { endpoint } = node;
  const operation = { kind: 'lease-complete', via: 'client', queue: QUEUE, batch: 1, replace: true } as const;
  const warm = generator.run({ kind: 'loop', endpoint, operation, inFlight: IN_FLIGHT, ms: bench.scale.runMs });
  await warm;
  const cutOff = generator.run({ kind: 'loop', endpoint, operation, inFlight: IN_FLIGHT, ms: bench.scale.runMs });
  const cut = cutOff.then(
    () => Promise.reject(new Error('the load ended before the node was killed')),
    (error: unknown) => {
      if (!(error instanceof ProcessEnded)) throw error;
    },
  );
  await new Promise((resolve) => setTimeout(resolve, bench.scale.runMs / 2));
  await node.kill();
  // Its calls would be repeated until their deadlines.
  await generator.kill();
  await cut;
}
