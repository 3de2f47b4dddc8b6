import { setTimeout as delay } from 'node:timers/promises';
import { noPostgres, PostgresServer } from '@taskmaster/postgres/testing';
import { Cluster } from '../../cluster.ts';
import { fill } from '../../contestants.ts';
import { atMost, type Measurement, type PacedResult, percentile } from '../../measurement.ts';
import { type Bench, CannotRunError, type Row } from '../../row.ts';
import { Caller } from './caller.ts';

const NODES = 3;
const PARTITIONS = 64;
/** Number of kills in each repetition. */
const KILLS = 4;
/** Longest time until others serve what a killed node held, for 99 of 100 kills. */
const MOST_TAKEOVER_MS = 5_000;
/** Tasks per second that are enqueued, leased and completed while nodes are killed. */
const TASKS_PER_S = 300;
const LOADED_GROUPS = 16;
const LONG_MS = 60 * 60_000;

/** A cluster whose members share a PostgreSQL database. */
export const sharedDatabase: Row = {
  name: 'shared-database',
  about: 'three nodes on one PostgreSQL: a node is killed for good, the database fails over, a node joins and drains',
  when: 'named',
  async *run(bench) {
    if (noPostgres !== undefined) throw new CannotRunError(noPostgres);
    yield* takeovers(bench);
    yield* failovers(bench);
    yield* moves(bench);
  },
};

const flagsOf = (store: string): string[] => [`--store=${store}`, `--engine-partitions=${PARTITIONS}`];

/** Kills a node under load, and asks another one for its group until the group is served. Then the node comes back. */
async function* takeovers(bench: Bench): AsyncGenerator<Measurement> {
  await using database = await PostgresServer.start();
  const cluster = await Cluster.start(bench.processes, NODES, flagsOf(database.url()));
  const generator = bench.processes.generator();
  const queues = Array.from({ length: LOADED_GROUPS }, (_, number) => `g${number}#bench`);
  const endpoint = cluster.endpoints.join(',');
  const load = generator.run({
    kind: 'paced',
    endpoint,
    via: 'client',
    queues,
    batch: 1,
    tasksPerS: TASKS_PER_S,
    ms: LONG_MS,
  });
  // Awaited below. If another step fails first, its error is reported.
  load.catch(() => {});
  const times: number[] = [];
  const names = cluster.running.map(({ name }) => name);
  for (let number = 0; number < KILLS * bench.scale.repetitions; number++) {
    bench.progress(`kill ${number + 1}`);
    const victim = names[number % NODES] ?? '';
    const other = names[(number + 1) % NODES] ?? '';
    times.push(await takeover(cluster, victim, other));
    await cluster.restart(victim);
    await cluster.settled();
    await delay(bench.scale.warmUpMs);
  }
  await generator.run({ kind: 'stop-paced' });
  const result = await load;
  await generator.stop();
  await cluster.stop();
  const p99 = percentile(times, 99);
  yield {
    row: sharedDatabase.name,
    variant: 'takeover',
    p50Ms: percentile(times, 50),
    p99Ms: p99,
    target: atMost('takeover_p99_ms', Math.round(p99), MOST_TAKEOVER_MS),
    load: bench.load,
    more: {
      kills: times.length,
      takeover_p99_ms: Math.round(p99),
      max_ms: Math.round(Math.max(...times)),
      ...callsOf(result),
    },
  };
}

/** Resolves with the time from the kill until another node answers for a group of the victim, in ms. */
async function takeover(cluster: Cluster, victim: string, other: string): Promise<number> {
  const [group = ''] = await cluster.groupsOf(victim, 1);
  using caller = new Caller(cluster.node(other).endpoint, group, false);
  await caller.answer();
  await cluster.node(victim).kill();
  const died = performance.now();
  await caller.answer();
  return performance.now() - died;
}

/** The primary is killed, and the synchronous standby becomes the primary at once. */
async function* failovers(bench: Bench): AsyncGenerator<Measurement> {
  const promoted: number[] = [];
  const pauses: number[] = [];
  for (let number = 0; number < bench.scale.repetitions; number++) {
    bench.progress(`database failover ${number + 1}`);
    await using primary = await PostgresServer.start();
    await using standby = await primary.startStandby();
    await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await primary.query('SELECT pg_reload_conf()');
    const store = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
    const cluster = await Cluster.start(bench.processes, NODES, flagsOf(store));
    const [group = ''] = await cluster.groupsOf('b', 1);
    using caller = new Caller(cluster.node('a').endpoint, group, false);
    await caller.answer();
    await primary.kill();
    const died = performance.now();
    // A call that is made now is answered after the failover.
    const answered = caller.answer().then(() => performance.now() - died);
    await standby.query('SELECT pg_promote()');
    promoted.push(performance.now() - died);
    pauses.push(await answered);
    await cluster.stop();
  }
  yield {
    row: sharedDatabase.name,
    variant: 'database failover',
    p50Ms: percentile(pauses, 50),
    load: bench.load,
    more: {
      failovers: pauses.length,
      all_pauses_ms: pauses.map(Math.round),
      all_promoted_ms: promoted.map(Math.round),
    },
  };
}

/** A node joins and drains beside many tasks. */
async function* moves(bench: Bench): AsyncGenerator<Measurement> {
  await using database = await PostgresServer.start();
  const cluster = await Cluster.start(bench.processes, NODES, flagsOf(database.url()));
  const generator = bench.processes.generator();
  const tasks = bench.scale.deepTasks;
  for (let number = 0; number < PARTITIONS; number++) {
    bench.progress(`filling: ${number} of ${PARTITIONS} groups`);
    const name = 'abc'.charAt(number % NODES);
    await fill(generator, cluster.node(name), `f${number}#bench`, Math.ceil(tasks / PARTITIONS));
  }
  const timed = async (move: () => Promise<unknown>): Promise<number> => {
    const began = performance.now();
    await move();
    await cluster.settled();
    return Math.round(performance.now() - began);
  };
  const joins: number[] = [];
  const drains: number[] = [];
  for (let number = 0; number < bench.scale.repetitions; number++) {
    bench.progress(`join and drain ${number + 1}`);
    joins.push(await timed(() => (number === 0 ? cluster.add('d') : cluster.restart('d'))));
    drains.push(await timed(() => cluster.drain('d')));
  }
  await generator.stop();
  await cluster.stop();
  yield {
    row: sharedDatabase.name,
    variant: 'join and drain',
    load: bench.load,
    more: { tasks, all_join_ms: joins, all_drain_ms: drains },
  };
}

const callsOf = ({ calls, repeated, failed, maxMs }: PacedResult): Record<string, number> => ({
  calls,
  repeated,
  failed,
  call_max_ms: Math.round(maxMs),
});
