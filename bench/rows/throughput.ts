import { compete } from '../contest.ts';
import { type Load, onNode, onNoop, onStore } from '../contestants.ts';
import { round } from '../machine.ts';
import { atLeast, type Figures, type Measurement, ratioOf, versus } from '../measurement.ts';
import { PeerResults } from '../peer-results.ts';
import type { PeerResult, WorkloadName } from '../peers/results.ts';
import type { Bench, Row } from '../row.ts';

/** The target of a load. */
type Goal =
  /** A ratio to a server that does nothing, under the same load. */
  | { readonly of: 'no-op'; readonly ratio: number }
  /** Ratios to the fastest of other queues, with a bound for each group of them; see `PeerBound`. */
  | { readonly of: 'peer'; readonly workload: WorkloadName; readonly bounds: readonly PeerBound[] };

interface PeerBound {
  readonly ratio: number;
  /** True: only queues that confirm completions; false: only others; undefined: all. */
  readonly confirmed?: boolean;
}

interface Variant {
  readonly variant: string;
  readonly load: Load;
  readonly goal: Goal;
}

const NO_PEERS = new PeerResults([]);

const IN_FLIGHT = 500;
const BATCH = 50;
const BATCHES_IN_FLIGHT = 10;

const single = { batch: 1, inFlight: IN_FLIGHT } as const;
const batches = { batch: BATCH, inFlight: BATCHES_IN_FLIGHT } as const;

const ahead = (workload: WorkloadName, ratio: number): Goal => ({ of: 'peer', workload, bounds: [{ ratio }] });
/** A queue that does not confirm completions has less work: it is enough to be faster. */
const aheadOfBoth = (workload: WorkloadName, ratio: number): Goal => ({
  of: 'peer',
  workload,
  bounds: [
    { ratio, confirmed: true },
    { ratio: 1, confirmed: false },
  ],
});

/** Tasks per second of one kind of load. */
export const throughputRows: readonly Row[] = [
  throughput('B1', 'single enqueue, plain unary stub, 500 in flight', [
    { variant: 'unary', load: { kind: 'enqueue', via: 'unary', ...single }, goal: { of: 'no-op', ratio: 0.75 } },
  ]),
  throughput('B2', 'single lease, then complete, plain unary stubs, 500 in flight', [
    { variant: 'unary', load: { kind: 'lease-complete', via: 'unary', ...single }, goal: { of: 'no-op', ratio: 0.7 } },
  ]),
  throughput('B3', 'single enqueue, typed client, 500 in flight', [
    { variant: 'client', load: { kind: 'enqueue', via: 'client', ...single }, goal: ahead('enqueue-single', 2) },
  ]),
  throughput('B4', 'single lease, then complete, typed client, 500 in flight; a Worker that does nothing', [
    {
      variant: 'client',
      load: { kind: 'lease-complete', via: 'client', ...single },
      goal: aheadOfBoth('lease-complete-single', 1.5),
    },
    { variant: 'worker', load: { kind: 'worker', concurrency: IN_FLIGHT }, goal: aheadOfBoth('worker', 1.5) },
  ]),
  throughput('B5', 'enqueue 50 at a time, 10 in flight', [
    { variant: 'unary', load: { kind: 'enqueue', via: 'unary', ...batches }, goal: ahead('enqueue-50', 1.2) },
    { variant: 'client', load: { kind: 'enqueue', via: 'client', ...batches }, goal: ahead('enqueue-50', 1.2) },
  ]),
  throughput('B6', 'lease 50, complete them in one call, 10 in flight', [
    {
      variant: 'unary',
      load: { kind: 'lease-complete', via: 'unary', ...batches },
      goal: ahead('lease-complete-50', 1),
    },
    {
      variant: 'client',
      load: { kind: 'lease-complete', via: 'client', ...batches },
      goal: ahead('lease-complete-50', 1),
    },
  ]),
];

function throughput(name: string, about: string, variants: readonly Variant[]): Row {
  return {
    name,
    about,
    when: 'always',
    async *run(bench) {
      for (const variant of variants) yield* measure(bench, name, variant);
    },
  };
}

async function* measure(bench: Bench, row: string, variant: Variant): AsyncGenerator<Measurement> {
  const { load } = variant;
  const node = await bench.processes.node();
  const noop = await bench.processes.noopServer();
  const [measured, ceiling, disk] = await compete(bench, [
    onNode(bench, node, load),
    onNoop(bench, noopName(load), noop, load),
    await onStore(bench, load),
  ]);
  await node.stop();
  await noop.stop();
  const peers = variant.goal.of === 'peer' ? await bench.peers.of(variant.goal.workload, bench) : NO_PEERS;
  yield* lines(bench.load, peers, row, variant, measured, ceiling, disk);
}

/** One line for each bound. The other baselines are figures of each line. */
function* lines(
  load: number,
  peers: PeerResults,
  row: string,
  { variant, goal }: Variant,
  measured: Figures,
  ceiling: Figures,
  disk: Figures,
): Generator<Measurement> {
  const beside = { ...against('noop', measured, ceiling), ...against('raw_store', measured, disk) };
  const toNoop = versus({ row, variant, load, more: against('raw_store', measured, disk) }, measured, ceiling);
  if (goal.of === 'no-op') {
    yield { ...toNoop, target: atLeast('ratio', toNoop.ratio ?? Number.NaN, goal.ratio) };
    return;
  }
  const found = goal.bounds.flatMap(({ ratio, confirmed }) => {
    const peer = peers.best(goal.workload, confirmed);
    return peer === undefined ? [] : [{ bound: ratio, peer }];
  });
  if (found.length === 0) {
    const note = `not compared with other queues: none was measured (${goal.workload}); see --peer-results`;
    yield { ...toNoop, more: { ...toNoop.more, note } };
    return;
  }
  for (const { bound, peer } of found) {
    const line = { row, variant: peer.confirmed ? variant : `${variant} unconfirmed`, load, more: beside };
    yield besidePeer(line, measured, peer, bound);
  }
}

/** Compares with a peer's figure: one number from its own run on the same machine at another time. */
function besidePeer(
  line: Pick<Measurement, 'row' | 'variant' | 'load' | 'more'>,
  measured: Figures,
  { peer, tasksPerS = Number.NaN, p50Ms, p99Ms, versions, confirmed }: PeerResult,
  bound: number,
): Measurement {
  const ratio = measured.tasksPerS / tasksPerS;
  return {
    ...versus(line, measured, measured),
    baseline: confirmed ? peer : `${peer} (unconfirmed)`,
    baselinePerS: tasksPerS,
    ratio,
    target: atLeast('ratio', ratio, bound),
    more: {
      ...line.more,
      ...(p50Ms !== undefined && { baseline_p50_ms: p50Ms }),
      ...(p99Ms !== undefined && { baseline_p99_ms: p99Ms }),
      baseline_versions: versions,
      all_per_s: measured.all.map(Math.round),
    },
  };
}

function against(name: string, measured: Figures, baseline: Figures): Record<string, number> {
  return {
    [`${name}_per_s`]: Math.round(baseline.tasksPerS),
    [`${name}_ratio`]: round(ratioOf(measured, baseline), 3),
  };
}

function noopName(load: Load): string {
  if (load.kind === 'worker' || load.via !== 'unary') return 'no-op stream';
  return load.kind === 'lease-complete' ? 'no-op unary, two calls' : 'no-op unary';
}
