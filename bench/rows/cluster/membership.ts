import { connect, type TaskMasterClient } from '@taskmaster/client';
import { Cluster, until } from '../../cluster.ts';
import { round } from '../../machine.ts';
import { atMost, type Measurement, percentile } from '../../measurement.ts';
import type { Bench, Row } from '../../row.ts';

const SIZES = [3, 9] as const;
/** The promise of docs/operate/cluster.md. */
const MOST_DEATH_MS = 4_000;
const LOOK_MS = 50;
const PARTITIONS = 1024;
/** Limit of the moved partitions, as a multiple of the necessary ones. */
const MOST_MOVED = 1.2;

/** Time until members know of a death or a leave, and number of partitions that move at a join and a leave. */
export const membership: Row = {
  name: 'membership',
  about: 'a death until all know it, a member that leaves, partitions that move at a join and a leave',
  when: 'all',
  async *run(bench) {
    for (const size of SIZES) yield* deaths(bench, size);
    yield* moves(bench);
  },
};

async function* deaths(bench: Bench, size: number): AsyncGenerator<Measurement> {
  const cluster = await Cluster.start(bench.processes, size, ['--engine-partitions=64']);
  const known: number[] = [];
  const back: number[] = [];
  const names = cluster.running.map(({ name }) => name);
  for (let kill = 0; kill < bench.scale.repetitions; kill++) {
    const victim = names[(kill + 1) % names.length] ?? '';
    bench.progress(`${size} nodes: death ${kill + 1}`);
    await cluster.node(victim).kill();
    const died = performance.now();
    await using watch = await Watch.open(cluster);
    known.push((await watch.untilAll(victim, (member) => !member.alive)) - died);
    const node = await cluster.restart(victim);
    const ready = performance.now();
    back.push(node.readyMs + (await watch.untilAll(victim, (member) => member.alive)) - ready);
  }
  bench.progress(`${size} nodes: a member leaves`);
  const leaver = names.at(-1) ?? '';
  const before = cluster.handOffs.length;
  await using watch = await Watch.open(cluster, leaver);
  const began = performance.now();
  await cluster.beginDrain(leaver);
  const left = (await watch.untilAll(leaver, (member) => member.state === 'left')) - began;
  await cluster.node(leaver).end(60_000);
  const ended = performance.now() - began;
  const longest = Math.max(...known);
  yield {
    row: membership.name,
    variant: `death ${size} nodes`,
    baseline: 'bound',
    ratio: longest / MOST_DEATH_MS,
    target: atMost('death_known_max_ms', Math.round(longest), MOST_DEATH_MS),
    load: bench.load,
    more: {
      deaths: known.length,
      death_known_median_ms: Math.round(percentile(known, 50)),
      death_known_max_ms: Math.round(longest),
      return_known_median_ms: Math.round(percentile(back, 50)),
      leave_known_ms: Math.round(left),
      leave_ended_ms: Math.round(ended),
      leave_partitions: cluster.handOffs.length - before,
    },
  };
  await cluster.stop();
}

/** Adds a fourth node to three, and drains it again. */
async function* moves(bench: Bench): AsyncGenerator<Measurement> {
  const cluster = await Cluster.start(bench.processes, 3, [`--engine-partitions=${PARTITIONS}`]);
  bench.progress('a fourth node');
  const before = cluster.handOffs.length;
  const joining = performance.now();
  await cluster.add('d');
  await cluster.settled();
  const joinMs = performance.now() - joining;
  const joined = cluster.handOffs.slice(before);
  const held = [...(await cluster.held()).values()];
  yield movedLine(bench, 'join 3 to 4', joined.length, PARTITIONS / 4, joinMs, {
    targets: new Set(joined.map(({ to }) => to)).size,
    fullest_over_mean: round((Math.max(...held) * held.length) / PARTITIONS, 3),
    emptiest_over_mean: round((Math.min(...held) * held.length) / PARTITIONS, 3),
  });
  bench.progress('and three again');
  const middle = cluster.handOffs.length;
  const leaving = performance.now();
  await cluster.drain('d');
  await cluster.settled();
  const leaveMs = performance.now() - leaving;
  const left = cluster.handOffs.slice(middle);
  yield movedLine(bench, 'leave 4 to 3', left.length, PARTITIONS / 4, leaveMs, {
    sources: new Set(left.map(({ from }) => from)).size,
  });
  await cluster.stop();
}

function movedLine(
  { load }: Bench,
  variant: string,
  moved: number,
  least: number,
  ms: number,
  more: Readonly<Record<string, number>>,
): Measurement {
  const ratio = moved / least;
  const figures = { moved, baseline_moved: least, took_ms: Math.round(ms), moves_per_s: round((moved * 1000) / ms, 1) };
  return {
    row: membership.name,
    variant,
    baseline: '1/4',
    ratio,
    target: atMost('ratio', ratio, MOST_MOVED),
    load,
    more: { ...figures, ...more },
  };
}

type Seen = { readonly alive: boolean; readonly state?: string };

/** Asks every running member repeatedly for its view of the others. */
class Watch implements AsyncDisposable {
  readonly #clients: readonly TaskMasterClient[];

  private constructor(clients: readonly TaskMasterClient[]) {
    this.#clients = clients;
  }

  static async open(cluster: Cluster, except?: string): Promise<Watch> {
    const others = cluster.running.filter(({ name }) => name !== except);
    return new Watch(await Promise.all(others.map(({ process }) => connect(process.endpoint))));
  }

  /** Resolves with the time at which all members had this view of a member. */
  async untilAll(name: string, isSo: (member: Seen) => boolean): Promise<number> {
    const when = this.#clients.map(async (client) => {
      const say = async (): Promise<boolean> => {
        const { members } = await client.cluster.members();
        const member = members.find((one) => one.name === name);
        return member !== undefined && isSo(member);
      };
      await until('agree', say, LOOK_MS);
      return performance.now();
    });
    return Math.max(...(await Promise.all(when)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
  }
}
