import { connect, type TaskMasterClient } from '@taskmaster/client';
import { compete } from '../contest.ts';
import { type Load, onNode, type Way } from '../contestants.ts';
import { round } from '../machine.ts';
import { cpuRatioOf, versus } from '../measurement.ts';
import type { Row } from '../row.ts';

const loads: readonly (readonly [name: string, load: Load])[] = [
  ['B1', { kind: 'enqueue', via: 'unary', batch: 1, inFlight: 500 }],
  ['B2', { kind: 'lease-complete', via: 'unary', batch: 1, inFlight: 500 }],
  ['B3', { kind: 'enqueue', via: 'client', batch: 1, inFlight: 500 }],
  ['B4', { kind: 'lease-complete', via: 'client', batch: 1, inFlight: 500 }],
  ['B5', { kind: 'enqueue', via: 'client', batch: 50, inFlight: 10 }],
  ['B6', { kind: 'lease-complete', via: 'client', batch: 50, inFlight: 10 }],
];

/** No load reaches it. */
const NEVER_REACHED = { maxLeased: 1_000_000 };
const NEVER_REACHED_RATE = { tasks: 1_000_000, per: '1s' } as const;
const MANY_LIMITS = 100;
const KEYS = 1_000;

/** What a group has that the other one has not. */
interface Control {
  readonly name: string;
  readonly limitKeys?: number;
  /** Resolves when the group has it. It keeps it until the signal. */
  setUp(client: TaskMasterClient, signal: AbortSignal): Promise<unknown>;
}

const controls: readonly Control[] = [
  { name: 'limit', setUp: (client) => client.limitQueues('limit#*', NEVER_REACHED) },
  {
    name: 'limits',
    async setUp(client) {
      // Patterns with some letters of the queue's name in their order match it.
      for (let chosen = 1; chosen <= MANY_LIMITS / 2; chosen++) {
        const letters = [...'limits'].filter((_, at) => (chosen >> at) % 2 === 1);
        await client.limitQueues(`limits#*${letters.join('*')}*`, NEVER_REACHED);
        await client.limitQueues(`limits#other-${chosen}*`, NEVER_REACHED);
      }
    },
  },
  {
    name: 'keys',
    limitKeys: KEYS,
    setUp: (client) => client.limitQueues('keys#*', { ...NEVER_REACHED, keys: '*' }),
  },
  { name: 'rate', setUp: (client) => client.limitQueues('rate#*', { rate: NEVER_REACHED_RATE }) },
  {
    name: 'key-rates',
    limitKeys: KEYS,
    setUp: (client) => client.limitQueues('key-rates#*', { rate: NEVER_REACHED_RATE, keys: '*' }),
  },
  {
    name: 'reader',
    async setUp(client, signal) {
      const after = await client.eventPosition('reader#*');
      void follow(client, after, signal);
    },
  },
];

async function follow(client: TaskMasterClient, after: string, signal: AbortSignal): Promise<void> {
  try {
    for await (const { kind } of client.events('reader#*', { after, signal })) {
      // A reader that misses events is none.
      if (kind === 'missed') console.error('the reader of events has missed some');
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** What limits, limit keys, rates and readers of events cost. */
export const controlCost: Row = {
  name: 'controls',
  about:
    'B1 to B6 with one limit, 100 limits, 1,000 limit keys with a limit, a rate, a rate of each of 1,000 keys, or a reader of events, against none',
  when: 'all',
  async *run(bench) {
    const node = await bench.processes.node();
    const { endpoint, pid } = node;
    await using client = await connect(endpoint);
    const end = new AbortController();
    const wayTo = (name: string): Way => ({ name, endpoint, serverPids: [pid], group: name });
    for (const { setUp } of controls) await setUp(client, end.signal);
    for (const [name, load] of loads) {
      const ways = controls.map((control): Way => ({ ...wayTo(control.name), limitKeys: control.limitKeys }));
      const [none, ...others] = await compete(bench, [
        onNode(bench, node, load, wayTo('none')),
        ...ways.map((way) => onNode(bench, node, load, way)),
      ]);
      for (const ours of others) {
        const more = { cpu_ratio: round(cpuRatioOf(ours, none, false), 3) };
        yield versus({ row: 'controls', variant: `${name} ${ours.name}`, load: bench.load, more }, ours, none);
      }
    }
    end.abort();
    await node.stop();
  },
};
