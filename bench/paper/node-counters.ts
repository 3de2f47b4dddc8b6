import { setTimeout as delay } from 'node:timers/promises';
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

export async function readCounters({ ready }: ServerProcess): Promise<NodeCounters> {
  if (ready.http === undefined) throw new TypeError('the node serves no metrics');
  const reply = await fetch(new URL('/metrics', urlOf(ready.http)));
  const text = await reply.text();
  const at = performance.now();
  return { refills: counter(text, 'cache_refills_total'), coldReads: counter(text, 'cold_reads_total'), at };
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

function counter(text: string, name: string): number {
  const value = new RegExp(`^taskmaster_${name} (\\S+)$`, 'm').exec(text)?.[1];
  if (value === undefined) throw new Error(`the node has no metric taskmaster_${name}`);
  return Number(value);
}

/** Ready lines say `host:port` or a URL. */
function urlOf(address: string): string {
  return address.includes('://') ? address : `http://${address}`;
}
