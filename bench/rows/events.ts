import { setTimeout as delay } from 'node:timers/promises';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { round } from '../machine.ts';
import { type Measurement, percentile } from '../measurement.ts';
import type { LoadGenerator, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';

/** Rounds of an enqueue, a lease and a completion in a second. Each of them has an event. */
const RATES = [300, 2_000] as const;
const EVENTS_OF_A_ROUND = 3;
/** For so many times `settleMs` the reader is away: a minute. */
const AWAY = 12;

/** How late a reader hears of what happens, and what one that was away has missed. */
export const events: Row = {
  name: 'events',
  about:
    'time from a change to its event at a reader, 300 and 2,000 rounds per second; a reader that is away for a minute',
  when: 'all',
  async *run(bench) {
    const node = await bench.processes.node();
    const generator = bench.processes.generator();
    await using client = await connect(node.endpoint);
    for (const tasksPerS of RATES) {
      yield await lagOf(bench, node, generator, client, tasksPerS);
    }
    yield await afterAbsence(bench, node, generator, client);
    await generator.stop();
    await node.stop();
  },
};

function paced(generator: LoadGenerator, { endpoint }: ServerProcess, group: string, tasksPerS: number, ms: number) {
  const queues = [`${group}#paced`];
  return generator.run({ kind: 'paced', endpoint, via: 'client', queues, batch: 1, tasksPerS, ms });
}

async function lagOf(
  bench: Bench,
  node: ServerProcess,
  generator: LoadGenerator,
  client: TaskMasterClient,
  tasksPerS: number,
): Promise<Measurement> {
  const group = `lag-${tasksPerS}`;
  const after = await client.eventPosition(`${group}#*`);
  const end = new AbortController();
  const lags: number[] = [];
  let missed = 0;
  const read = async () => {
    for await (const { kind, at } of client.events(`${group}#*`, { after, signal: end.signal })) {
      if (kind === 'missed') missed++;
      else if (at !== undefined) lags.push(Date.now() - at.getTime());
    }
  };
  const reading = read().catch((error: unknown) => {
    if (!end.signal.aborted) throw error;
  });
  await paced(generator, node, group, tasksPerS, bench.scale.runMs * bench.scale.repetitions);
  await delay(bench.scale.settleMs);
  end.abort();
  await reading;
  return {
    row: 'events',
    variant: `${tasksPerS} rounds per second`,
    p50Ms: percentile(lags, 50),
    p99Ms: percentile(lags, 99),
    load: bench.load,
    more: { events_per_s: round((lags.length * 1000) / (bench.scale.runMs * bench.scale.repetitions), 0), missed },
  };
}

/** What is there when a reader comes back, and how fast it has it. */
async function afterAbsence(
  bench: Bench,
  node: ServerProcess,
  generator: LoadGenerator,
  client: TaskMasterClient,
): Promise<Measurement> {
  const [tasksPerS] = RATES;
  const after = await client.eventPosition('away#*');
  const ms = bench.scale.settleMs * AWAY;
  bench.progress(`the reader is away for ${ms} ms`);
  await paced(generator, node, 'away', tasksPerS, ms);
  const began = performance.now();
  let missed = 0;
  let read = 0;
  for await (const { kind } of client.events('away#*', { after, follow: false })) {
    if (kind === 'missed') missed++;
    else read++;
  }
  return {
    row: 'events',
    variant: `away for ${ms} ms`,
    tasksPerS: (read * 1000) / (performance.now() - began),
    load: bench.load,
    more: { events: read, rounds: Math.round(read / EVENTS_OF_A_ROUND), missed },
  };
}
