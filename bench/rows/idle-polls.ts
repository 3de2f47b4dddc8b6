import { setTimeout as delay } from 'node:timers/promises';
import type { Via } from '../load/jobs.ts';
import { cpuTimeOf, round } from '../machine.ts';
import { atMost, type Measurement } from '../measurement.ts';
import { type Bench, CannotRun, type Row } from '../row.ts';
import { memoryNow } from './memory.ts';

const KIB = 1024;
/** R20 of the faults we survive: memory of one idle poll. */
const MOST_KIB = 10;
/** grpc-js takes 1,000 calls on one connection; streams take all. */
const CONNECTIONS: Readonly<Record<Via, number>> = { unary: 10, client: 1, direct: 1 };
/** More polls opened on top, to tell what one more costs from what the first ones cost. */
const MORE_FACTOR = 4;
const QUEUE = 'bench';

/** Long polls that wait for tasks that do not come. */
export const idlePolls: Row = {
  name: 'idle-polls',
  about: '1,000 idle long polls: memory of each, CPU of the node',
  async *run(bench) {
    for (const via of ['unary', 'client'] as const) yield await measure(bench, via);
  },
};

async function measure(bench: Bench, via: Via): Promise<Measurement> {
  const { processes, scale } = bench;
  const node = await processes.node();
  const generator = processes.generator();
  const { endpoint } = node;
  const connections = CONNECTIONS[via];
  const poll = (count: number) =>
    generator.run({ kind: 'open-polls', endpoint, via, queue: QUEUE, count, connections });
  const watch = async (doing: string): Promise<{ readonly rss: number; readonly cpuPercent: number }> => {
    bench.progress(doing);
    await delay(scale.settleMs);
    const before = cpuTime(node.pid);
    const began = performance.now();
    await delay(scale.settleMs);
    const cpuPercent = ((cpuTime(node.pid) - before) * 100) / (performance.now() - began);
    return { rss: memoryNow(node.pid).rss, cpuPercent };
  };

  // One poll and one task first: connections, compiled code and the queue itself are not what a poll costs.
  await poll(connections);
  await generator.run({ kind: 'wake-poll', endpoint, queue: QUEUE });
  const idle = await watch('idle, without polls');
  await poll(scale.polls);
  const polled = await watch(`${scale.polls} polls`);
  await poll(scale.polls * MORE_FACTOR);
  const more = await watch(`${scale.polls * (1 + MORE_FACTOR)} polls`);
  const { ms: wakeMs, woken } = await generator.run({ kind: 'wake-poll', endpoint, queue: QUEUE });
  await generator.stop();
  await node.stop();

  const perPollKib = (polled.rss - idle.rss) / scale.polls / KIB;
  return {
    row: idlePolls.name,
    variant: via,
    baseline: 'no polls',
    load: bench.load,
    target: atMost('rss_kib_per_poll', round(perPollKib, 1), MOST_KIB),
    more: {
      polls: scale.polls,
      rss_kib_per_poll: round(perPollKib, 1),
      rss_kib_per_further_poll: round((more.rss - polled.rss) / (scale.polls * MORE_FACTOR) / KIB, 1),
      cpu_percent: round(polled.cpuPercent, 2),
      baseline_cpu_percent: round(idle.cpuPercent, 2),
      wake_ms: round(wakeMs, 2),
      woken,
    },
  };
}

function cpuTime(pid: number): number {
  const time = cpuTimeOf(pid);
  if (time === undefined) throw new CannotRun('the CPU time of a process can only be read on Linux');
  return time.all;
}
