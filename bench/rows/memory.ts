import { setTimeout as delay } from 'node:timers/promises';
import { fillDeep } from '../contestants.ts';
import { memoryOf, round } from '../machine.ts';
import { CannotRun, type Row } from '../row.ts';

const MIB = 1024 * 1024;

/** Memory of a node that holds many tasks, against that of an empty one. */
export const memory: Row = {
  name: 'memory-1m',
  about: 'RSS of the node with 1 M tasks of 1 KB queued',
  async *run(bench) {
    const node = await bench.processes.node();
    const generator = bench.processes.generator();
    const settled = async (): Promise<{ readonly rss: number; readonly peak: number }> => {
      bench.progress('leaving the node alone');
      await delay(bench.scale.settleMs);
      return memoryNow(node.pid);
    };
    const empty = await settled();
    const tasks = await fillDeep(bench, generator, node, 'bench');
    const filled = await settled();
    bench.progress('leasing and completing');
    const operation = { kind: 'lease-complete', via: 'client', queue: 'bench', batch: 50, replace: true } as const;
    const { endpoint } = node;
    await generator.run({ kind: 'loop', endpoint, operation, inFlight: 10, ms: bench.scale.runMs });
    const worked = memoryNow(node.pid);
    await node.stop();
    yield {
      row: memory.name,
      variant: 'queued',
      baseline: 'empty',
      ratio: filled.rss / empty.rss,
      load: bench.load,
      more: {
        tasks,
        rss_mib: mib(filled.rss),
        baseline_rss_mib: mib(empty.rss),
        rss_bytes_per_task: Math.round((filled.rss - empty.rss) / tasks),
        rss_at_work_mib: mib(worked.rss),
        rss_peak_mib: mib(worked.peak),
      },
    };
  },
};

export function memoryNow(pid: number): { readonly rss: number; readonly peak: number } {
  const found = memoryOf(pid);
  if (found === undefined) throw new CannotRun('the memory of a process can only be read on Linux');
  return found;
}

const mib = (bytes: number): number => round(bytes / MIB, 1);
