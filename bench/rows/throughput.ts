import { compete } from '../contest.ts';
import { type Load, onNode, onNoop, onStore } from '../contestants.ts';
import { type Measurement, versus } from '../measurement.ts';
import type { Bench, Row } from '../row.ts';

/** What a load is compared with. */
type Baseline =
  /** The same load against a grpc-js server that does nothing. */
  | 'noop'
  /** The same operations in unary calls of the plain stub, against that server. */
  | 'noop-unary'
  /** RocksDB alone, with the rows of the same operations. */
  | 'raw-store';

interface Variant {
  readonly variant: string;
  readonly load: Load;
  readonly baselines: readonly [Baseline, ...Baseline[]];
}

const IN_FLIGHT = 500;
const BATCH = 50;
const BATCHES_IN_FLIGHT = 10;

const single = { batch: 1, inFlight: IN_FLIGHT } as const;
const batches = { batch: BATCH, inFlight: BATCHES_IN_FLIGHT } as const;

/** Tasks per second of one kind of load. */
export const throughputRows: readonly Row[] = [
  throughput('enqueue-single-unary', 'one task a call, plain stub, 500 in flight', [
    { variant: 'node', load: { kind: 'enqueue', via: 'unary', ...single }, baselines: ['noop', 'raw-store'] },
  ]),
  throughput('enqueue-single-client', 'one task a call, typed client, 500 in flight', [
    {
      variant: 'node',
      load: { kind: 'enqueue', via: 'client', ...single },
      baselines: ['noop', 'noop-unary', 'raw-store'],
    },
  ]),
  throughput('lease-complete-unary', 'lease one, complete it, plain stub, 500 in flight', [
    { variant: 'node', load: { kind: 'lease-complete', via: 'unary', ...single }, baselines: ['noop', 'raw-store'] },
  ]),
  throughput('lease-complete-client', 'lease one, complete it, typed client, 500 in flight', [
    {
      variant: 'node',
      load: { kind: 'lease-complete', via: 'client', ...single },
      baselines: ['noop', 'noop-unary', 'raw-store'],
    },
  ]),
  throughput('worker-noop', 'a Worker whose handler does nothing, concurrency 500', [
    { variant: 'node', load: { kind: 'worker', concurrency: IN_FLIGHT }, baselines: ['noop', 'raw-store'] },
  ]),
  throughput('enqueue-50', '50 tasks a call, 10 in flight', [
    { variant: 'unary', load: { kind: 'enqueue', via: 'unary', ...batches }, baselines: ['noop', 'raw-store'] },
    { variant: 'client', load: { kind: 'enqueue', via: 'client', ...batches }, baselines: ['noop', 'raw-store'] },
  ]),
  throughput('lease-complete-50', 'lease 50, complete them in one call, 10 in flight', [
    { variant: 'unary', load: { kind: 'lease-complete', via: 'unary', ...batches }, baselines: ['noop', 'raw-store'] },
    {
      variant: 'client',
      load: { kind: 'lease-complete', via: 'client', ...batches },
      baselines: ['noop', 'raw-store'],
    },
  ]),
];

function throughput(name: string, about: string, variants: readonly Variant[]): Row {
  return {
    name,
    about,
    async *run(bench) {
      for (const variant of variants) yield* measure(bench, name, variant);
    },
  };
}

async function* measure(bench: Bench, row: string, { variant, load, baselines }: Variant): AsyncGenerator<Measurement> {
  const { processes } = bench;
  const node = await processes.node();
  const noop = await processes.noopServer();
  const rivals = baselines.map((baseline) => {
    switch (baseline) {
      case 'noop':
        return onNoop(bench, isUnary(load) ? 'noop-unary' : 'noop-stream', noop, load);
      case 'noop-unary':
        return onNoop(bench, 'noop-unary', noop, { ...load, via: 'unary' } as Load);
      case 'raw-store':
        return onStore(bench, load);
      default:
        return baseline satisfies never;
    }
  });
  const [measured, ...others] = await compete(bench, [onNode(bench, node, load), ...(await Promise.all(rivals))]);
  await node.stop();
  await noop.stop();
  if (measured === undefined) return;
  for (const baseline of others) yield versus({ row, variant, load: bench.load }, measured, baseline);
}

function isUnary(load: Load): boolean {
  return load.kind !== 'worker' && load.via === 'unary';
}
