import { setTimeout as delay } from 'node:timers/promises';
import { metricOf } from '../metrics.ts';
import type { ServerProcess } from '../processes.ts';

/** What a node has read from its store since it started. */
export interface NodeCounters {
  /** Reads of many tasks, to extend the head of a queue in memory. */
  readonly refills: number;
  /** Reads of single tasks. */
  readonly coldReads: number;
  /** On this process's clock, in ms. */
  readonly at: number;
}

/** Reads the counters behind the warm-up, and again and again until the work is done. */
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
  // Whether it failed is told to whoever awaits the work itself.
  const ended = work.then(done, done);
  const samples: NodeCounters[] = [];
  for (let waitMs = warmUpMs; !isDone; waitMs = everyMs) {
    await Promise.race([delay(waitMs), ended]);
    if (!isDone || samples.length === 1) samples.push(await readCounters(node));
  }
  return samples;
}

/** Increase per second between each sample and the next. */
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
