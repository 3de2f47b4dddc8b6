import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, extname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { fill, type Load } from '../contestants.ts';
import { type LoadResult, median } from '../measurement.ts';
import { type LoadGenerator, Processes, type ServerProcess } from '../processes.ts';
import type { Figures } from './baseline.ts';
import { SOCKET, type Usage } from './probe.ts';

/** Limit of the tasks of one run. */
const SINGLE_TASKS = 4_000;
const BATCH_TASKS = 15_000;
const MOST_MS = 1_000;
const RUNS = 2;

const IN_FLIGHT = 500;
const BATCH = 50;
const BATCHES_IN_FLIGHT = 10;

const single = { batch: 1, inFlight: IN_FLIGHT, tasks: SINGLE_TASKS } as const;
const batches = { batch: BATCH, inFlight: BATCHES_IN_FLIGHT, tasks: BATCH_TASKS } as const;

/** The loads of the rows, as `npm run bench` measures them. */
export const measuredLoads: readonly { readonly row: string; readonly load: Load; readonly tasks: number }[] = [
  loadOf('B1', 'enqueue', 'unary', single),
  loadOf('B2', 'lease-complete', 'unary', single),
  loadOf('B3', 'enqueue', 'client', single),
  loadOf('B4', 'lease-complete', 'client', single),
  loadOf('B5', 'enqueue', 'client', batches),
  loadOf('B6', 'lease-complete', 'client', batches),
];

function loadOf(
  row: string,
  kind: 'enqueue' | 'lease-complete',
  via: 'unary' | 'client',
  { tasks, ...size }: typeof single | typeof batches,
) {
  return { row, load: { kind, via, ...size }, tasks };
}

const here = fileURLToPath(import.meta.url);
const probe = pathToFileURL(join(dirname(here), `probe${extname(here)}`)).href;

/** Processes with a probe in each of them, whose sockets are in `probeDir`. `checkout`: see `ProcessesOptions`. */
export function probedProcesses(dir: string, probeDir: string, checkout?: string): Processes {
  const execArgv = [`--import=${probe}?${encodeURIComponent(probeDir)}`];
  const other = checkout === undefined ? {} : { checkout };
  return new Processes({ dir, nodeFlags: [], profileDir: undefined, execArgv, ...other });
}

/**
 * The cost of tasks at full load: CPU time and allocations as ratios to a server that does nothing, and bytes that are written
 * to the disk.
 */
export async function measuredFigures(
  processes: Processes,
  probeDir: string,
  progress: (row: string) => void,
): Promise<ReadonlyMap<string, Figures>> {
  const node = await processes.node();
  const noop = await processes.noopServer();
  const generator = processes.generator();
  const found = new Map<string, Figures>();
  for (const { row, load, tasks } of measuredLoads) {
    progress(row);
    const costs: { readonly node: Cost; readonly noop: Cost }[] = [];
    // The first run is the warm-up.
    for (let run = 0; run <= RUNS; run++) {
      const queue = `${row}-${run}`;
      if (load.kind === 'lease-complete') await fill(generator, node, queue, tasks);
      const ofNode = await cost(node, probeDir, () => runLoad(generator, node, load, queue, tasks));
      const ofNoop = await cost(noop, probeDir, () => runLoad(generator, noop, load, queue, tasks));
      if (run > 0) costs.push({ node: ofNode, noop: ofNoop });
    }
    found.set(row, {
      cpu_ratio: median(costs.map((one) => one.node.cpuUs / one.noop.cpuUs)),
      main_cpu_ratio: median(costs.map((one) => one.node.mainCpuUs / one.noop.mainCpuUs)),
      allocated_ratio: median(costs.map((one) => one.node.allocatedBytes / one.noop.allocatedBytes)),
      allocated_bytes: median(costs.map((one) => one.node.allocatedBytes)),
      disk_bytes: median(costs.map((one) => one.node.diskBytes)),
    });
  }
  await node.stop();
  await noop.stop();
  return found;
}

/** The cost of one task. */
interface Cost extends Usage {
  readonly diskBytes: number;
}

async function cost(server: ServerProcess, probeDir: string, run: () => Promise<LoadResult>): Promise<Cost> {
  const diskBefore = diskBytesOf(server.pid);
  await usageSince(server, probeDir);
  const { tasks, lateTasks } = await run();
  const { cpuUs, mainCpuUs, allocatedBytes } = await usageSince(server, probeDir);
  const all = tasks + lateTasks;
  return {
    cpuUs: cpuUs / all,
    mainCpuUs: mainCpuUs / all,
    allocatedBytes: allocatedBytes / all,
    diskBytes: (diskBytesOf(server.pid) - diskBefore) / all,
  };
}

/** The usage of a server since the last call. */
export async function usageSince({ pid }: ServerProcess, probeDir: string): Promise<Usage> {
  return JSON.parse(await text(connect(join(probeDir, `${pid}-${SOCKET}`)))) as Usage;
}

/** Bytes that a process has written to the disk. 0 if the system does not report it. */
function diskBytesOf(pid: number): number {
  try {
    return Number(/^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

export function runLoad(
  generator: LoadGenerator,
  { endpoint }: ServerProcess,
  load: Load,
  queue: string,
  maxTasks: number,
  ms = MOST_MS,
): Promise<LoadResult> {
  if (load.kind === 'worker') throw new TypeError('a Worker is not guarded');
  const { kind, via, batch, inFlight } = load;
  const common = { via, queue, batch };
  const operation = kind === 'enqueue' ? { kind, ...common } : { kind, ...common, replace: false };
  return generator.run({ kind: 'loop', endpoint, operation, inFlight, ms, maxTasks });
}
