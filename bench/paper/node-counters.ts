import { setTimeout as delay } from 'node:timers/promises';
import { metricOf } from '../metrics.ts';
import type { ServerProcess } from '../processes.ts';

/** The reads of a node from its store since its start. */
export interface NodeCounters {
  /** Reads of many tasks, to extend the head of a queue in memory. */
  readonly refills: number;
  /** Reads of single tasks. */
  readonly coldReads: number;
  /** Time of the reading by this process's clock, in ms. */
  readonly at: number;
}

/** Reads the counters after the warm-up, and then repeatedly until the work is done. */
export async function watchCounters(
  node: ServerProcess,
  warmUpMs: number,
  everyMs: number,
  work: Promise<unknown>,
): Promise<readonly NodeCounters[]> {
  let isDone = false;
  const done = () => {
    isDone = true;
  };
  // The caller awaits the work itself and sees its failure.
  const ended = work.then(done, done);
  const samples: NodeCounters[] = [];
  for (let waitMs = warmUpMs; !isDone; waitMs = everyMs) {
    await Promise.race([delay(waitMs), ended]);
    if (!isDone || samples.length === 1) samples.push(await readCounters(node));
  }
  return samples;
}

/** Increase per second between neighbouring samples. */
export function perSecond(samples: readonly NodeCounters[], of: (counters: NodeCounters) => number): number[] {
  return samples.slice(1).flatMap((sample, i) => {
    const before = samples[i];
    return before === undefined ? [] : [((of(sample) - of(before)) * 1000) / (sample.at - before.at)];
  });
}

async function readCounters(node: ServerProcess): Promise<NodeCounters> {
  const [refills, coldReads] = await Promise.all([
    metricOf(node, 'taskmaster_cache_refills_total'),
    metricOf(node, 'taskmaster_cold_reads_total'),
  ]);
  return { refills, coldReads, at: performance.now() };
}
