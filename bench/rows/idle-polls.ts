import type { Via } from '../load/jobs.ts';
import { round } from '../machine.ts';
import { atMost, type Measurement, percentile } from '../measurement.ts';
import type { Bench, Row } from '../row.ts';
import { cpuPercent, memoryNow, settled } from './memory.ts';

const KIB = 1024;
const MOST_KIB = 10;
const MOST_CPU_PERCENT = 1;
const MOST_WAKE_MS = 10;
/** A node lets 1,000 calls of one connection wait. One stream is enough for all polls. */
const CONNECTIONS: Readonly<Record<Via, number>> = { unary: 12, client: 1, direct: 1 };
const QUEUE = 'bench';

/** Long polls without tasks. */
export const idlePolls: Row = {
  name: 'B15',
  about: '10,000 idle long polls: memory of each, CPU of the node, how soon an enqueue wakes one of them',
  when: 'all',
  async *run(bench) {
    for (const via of ['unary', 'client'] as const) yield* measure(bench, via);
  },
};

async function* measure(bench: Bench, via: Via): AsyncGenerator<Measurement> {
  const { processes, scale, load } = bench;
  const node = await processes.node();
  const generator = processes.generator();
  const { endpoint } = node;
  const connections = CONNECTIONS[via];
  const poll = (count: number) =>
    generator.run({ kind: 'open-polls', endpoint, via, queue: QUEUE, count, connections });
  const watch = async (): Promise<{ readonly rss: number; readonly cpu: number }> => {
    await settled(bench, node.pid);
    const cpu = await cpuPercent(node.pid, 2 * scale.settleMs);
    return { rss: memoryNow(node.pid).rss, cpu };
  };

  // One poll and one task first, so that connections, compiled code and the queue do not count as the cost of polls.
  await poll(connections);
  await generator.run({ kind: 'wake-poll', endpoint, queue: QUEUE });
  const idle = await watch();
  bench.progress(`opening ${scale.polls} polls`);
  await poll(scale.polls);
  const polled = await watch();
  const wakes: number[] = [];
  let woken = 0;
  for (let wake = 0; wake < scale.wakes; wake++) {
    bench.progress(`waking ${wake + 1} of ${scale.wakes}`);
    const one = await generator.run({ kind: 'wake-poll', endpoint, queue: QUEUE });
    wakes.push(one.ms);
    woken += one.woken;
  }
  await generator.stop();
  await node.stop();

  const line = { row: idlePolls.name, baseline: 'no polls', load };
  const kib = round((polled.rss - idle.rss) / scale.polls / KIB, 1);
  yield {
    ...line,
    variant: `${via} memory`,
    ratio: polled.rss / idle.rss,
    target: atMost('rss_kib_per_poll', kib, MOST_KIB),
    more: { polls: scale.polls, rss_kib_per_poll: kib, baseline_rss_mb: round(idle.rss / 1e6, 1) },
  };
  yield {
    ...line,
    variant: `${via} CPU`,
    target: atMost('cpu_percent', round(polled.cpu, 2), MOST_CPU_PERCENT),
    more: { polls: scale.polls, cpu_percent: round(polled.cpu, 2), baseline_cpu_percent: round(idle.cpu, 2) },
  };
  const wakeMs = round(percentile(wakes, 99), 2);
  yield {
    ...line,
    variant: `${via} wake-up`,
    p50Ms: percentile(wakes, 50),
    p99Ms: percentile(wakes, 99),
    target: atMost('wake_p99_ms', wakeMs, MOST_WAKE_MS),
    more: {
      polls: scale.polls,
      wake_p99_ms: wakeMs,
      wake_max_ms: round(Math.max(...wakes), 2),
      wakes: wakes.length,
      woken,
    },
  };
}
