import { Cluster, type HandOff } from '../../cluster.ts';
import { fill, fillDeep } from '../../contestants.ts';
import { round } from '../../machine.ts';
import { atMost, type Measurement, type PacedResult, percentile } from '../../measurement.ts';
import type { LoadGenerator } from '../../processes.ts';
import type { Bench, Row } from '../../row.ts';

const MIB = 1024 * 1024;
/** Longest time that callers may wait during a hand-off, for 99 of 100 partitions. */
const MOST_FROZEN_MS = 100;
/** Tasks per second that are enqueued, leased and completed while partitions move. */
const TASKS_PER_S = 300;
const LONG_MS = 30 * 60_000;

/** The group of the partition with nearly all data. */
const LARGE_GROUP = 'large';
const SPEEDS = [
  { name: 'default', flags: [] },
  { name: 'unbounded', flags: ['--cluster-max-transfer-bytes-per-second=0'] },
] as const;

const PARTITIONS = 256;
/** Tasks in all partitions together, as a fraction of those in the large partition. */
const SMALL_SHARE = 0.1;
const LEAST_MOVES = 100;

/** Partitions that move under load: a large one, and many small ones. */
export const handOff: Row = {
  name: 'hand-off-1m',
  about: 'partitions move under load: one of 1 M tasks, and 256 with 100,000; time, freezes, latency of calls',
  when: 'all',
  async *run(bench) {
    yield* large(bench);
    yield* many(bench);
  },
};

async function* large(bench: Bench): AsyncGenerator<Measurement> {
  const { processes, scale } = bench;
  const cluster = await Cluster.start(processes, 1, ['--engine-partitions=1']);
  const queue = `${LARGE_GROUP}#bench`;
  const generator = processes.generator();
  const tasks = await fillDeep(bench, generator, cluster.node('a'), queue);
  await cluster.add('b');
  await cluster.settled();
  bench.progress('undisturbed');
  const still = await generator.run({ ...loadOn(cluster, [queue]), ms: scale.runMs });
  for (const { name, flags } of SPEEDS) {
    const moves: Move[] = [];
    for (let move = 1; move <= scale.repetitions; move++) {
      bench.progress(`${name}: move ${move}`);
      moves.push(await moveLarge(cluster, generator, queue, flags));
    }
    yield largeLine(bench, name, tasks, moves, still);
  }
  await generator.stop();
  await cluster.stop();
}

interface Move {
  readonly handOff: HandOff;
  /** Time from the call that started the move, in ms. */
  readonly ms: number;
  readonly load: PacedResult;
}

/** Drains the node that holds the partition, under load, and starts it again. */
async function moveLarge(
  cluster: Cluster,
  generator: LoadGenerator,
  queue: string,
  flags: readonly string[],
): Promise<Move> {
  const holder = await holderOf(cluster);
  // Restart the holder, because its settings count. Nothing moves.
  await cluster.node(holder).stop();
  await cluster.restart(holder, flags);
  await cluster.settled();
  const before = cluster.handOffs.length;
  const load = generator.run(loadOn(cluster, [queue]));
  // Awaited below. If another step fails first, its error is reported.
  load.catch(() => {});
  const began = performance.now();
  await cluster.beginDrain(holder);
  await cluster.handedOver(before + 1);
  await generator.run({ kind: 'stop-paced' });
  const result = await load;
  await cluster.node(holder).end(LONG_MS);
  await cluster.restart(holder);
  // The ring may assign it back at once; that move is not measured.
  await cluster.settled();
  const handOff = cluster.handOffs[before];
  if (handOff === undefined) throw new Error('no partition was handed over');
  return { handOff, ms: handOff.at - began, load: result };
}

async function holderOf(cluster: Cluster): Promise<string> {
  for (const [name, held] of await cluster.held()) if (held > 0) return name;
  throw new Error('no node holds the partition');
}

function largeLine(
  { load }: Bench,
  speed: string,
  tasks: number,
  moves: readonly Move[],
  still: PacedResult,
): Measurement {
  const of = (figure: (move: Move) => number): number => percentile(moves.map(figure), 50);
  const seconds = (move: Move): number => move.ms / 1000;
  const p50Ms = of((move) => move.load.p50Ms ?? 0);
  const frozen = moves.map((move) => move.handOff.frozenMs);
  return {
    row: handOff.name,
    variant: `large ${speed}`,
    tasksPerS: of((move) => tasks / seconds(move)),
    p50Ms,
    p99Ms: of((move) => move.load.p99Ms ?? 0),
    baseline: 'undisturbed',
    ratio: p50Ms / (still.p50Ms ?? Number.NaN),
    target: atMost('frozen_max_ms', Math.max(...frozen), MOST_FROZEN_MS),
    load,
    more: {
      tasks,
      moves: moves.length,
      move_s: round(of(seconds), 1),
      rows_per_s: Math.round(of((move) => move.handOff.rows / seconds(move))),
      mib_per_s: round(
        of((move) => move.handOff.bytes / MIB / seconds(move)),
        1,
      ),
      frozen_max_ms: round(Math.max(...frozen), 1),
      all_frozen_ms: frozen.map((ms) => round(ms, 1)),
      all_told_ms: moves.map((move) => round(move.handOff.toldMs, 1)),
      ...loadFields(moves.map((move) => move.load)),
      ...baselineFields(still),
    },
  };
}

/** A third node joins and leaves until enough partitions have moved. */
async function* many(bench: Bench): AsyncGenerator<Measurement> {
  const { processes, scale } = bench;
  const cluster = await Cluster.start(processes, 2, [`--engine-partitions=${PARTITIONS}`]);
  const generator = processes.generator();
  const queues = Array.from({ length: PARTITIONS }, (_, number) => `g${number}#bench`);
  const each = Math.ceil((scale.deepTasks * SMALL_SHARE) / PARTITIONS);
  for (const [number, queue] of queues.entries()) {
    if (number % 16 === 0) bench.progress(`filling: ${number} of ${PARTITIONS} groups`);
    await fill(generator, cluster.node('a'), queue, each);
  }
  bench.progress('undisturbed');
  const still = await generator.run({ ...loadOn(cluster, queues), ms: scale.runMs });
  const first = cluster.handOffs.length;
  const loads: PacedResult[] = [];
  let ms = 0;
  const whileMoving = async (move: () => Promise<unknown>): Promise<void> => {
    const load = generator.run(loadOn(cluster, queues));
    load.catch(() => {});
    const began = performance.now();
    await move();
    await cluster.settled();
    ms += performance.now() - began;
    await generator.run({ kind: 'stop-paced' });
    loads.push(await load);
  };
  for (let round = 0; cluster.handOffs.length - first < LEAST_MOVES * scale.repetitions; round++) {
    bench.progress(`${cluster.handOffs.length - first} partitions moved`);
    await whileMoving(() => (round === 0 ? cluster.add('c') : cluster.restart('c')));
    await whileMoving(() => cluster.drain('c'));
  }
  await generator.stop();
  await cluster.stop();
  yield manyLine(bench, cluster.handOffs.slice(first), ms, loads, still);
}

function manyLine(
  { load }: Bench,
  handOffs: readonly HandOff[],
  ms: number,
  loads: readonly PacedResult[],
  still: PacedResult,
): Measurement {
  const frozen = handOffs.map(({ frozenMs }) => frozenMs);
  const frozenP99 = percentile(frozen, 99);
  const p50Ms = percentile(
    loads.map((one) => one.p50Ms ?? 0),
    50,
  );
  return {
    row: handOff.name,
    variant: 'many',
    p50Ms,
    p99Ms: percentile(
      loads.map((one) => one.p99Ms ?? 0),
      50,
    ),
    baseline: 'undisturbed',
    ratio: p50Ms / (still.p50Ms ?? Number.NaN),
    target: atMost('frozen_p99_ms', round(frozenP99, 1), MOST_FROZEN_MS),
    load,
    more: {
      moves: handOffs.length,
      rows_per_move: Math.round(handOffs.reduce((sum, { rows }) => sum + rows, 0) / handOffs.length),
      ms_per_move: round(ms / handOffs.length, 1),
      frozen_p50_ms: round(percentile(frozen, 50), 1),
      frozen_p99_ms: round(frozenP99, 1),
      frozen_max_ms: round(Math.max(...frozen), 1),
      ...loadFields(loads),
      ...baselineFields(still),
    },
  };
}

function loadOn(cluster: Cluster, queues: readonly string[]) {
  const endpoint = cluster.endpoints.join(',');
  return { kind: 'paced', endpoint, via: 'client', queues, batch: 1, tasksPerS: TASKS_PER_S, ms: LONG_MS } as const;
}

function loadFields(loads: readonly PacedResult[]): Record<string, number> {
  const sum = (figure: (load: PacedResult) => number): number => loads.reduce((all, one) => all + figure(one), 0);
  return {
    call_max_ms: round(Math.max(...loads.map(({ maxMs }) => maxMs)), 1),
    calls: sum(({ calls }) => calls),
    repeated: sum(({ repeated }) => repeated),
    failed: sum(({ failed }) => failed),
  };
}

function baselineFields({ p50Ms = 0, p99Ms = 0, maxMs }: PacedResult): Record<string, number> {
  return {
    baseline_p50_ms: round(p50Ms, 3),
    baseline_p99_ms: round(p99Ms, 3),
    baseline_call_max_ms: round(maxMs, 1),
  };
}
