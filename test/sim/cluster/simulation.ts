import { SimCluster } from '@taskmaster/node/testing';
import { SeededRandom } from '@taskmaster/server/testing';
import { History, type HistoryEvent } from '../../support/history.ts';
import { violationsOf } from '../../support/history-checker.ts';
import { acrossLives } from './all-lives.ts';
import { SimClient } from './client.ts';
import { type Fault, Faults } from './faults.ts';
import { findEverything, outOfLine } from './final-state.ts';
import { KeptGroups } from './kept-groups.ts';
import { settleCluster } from './settle-cluster.ts';
import { Trouble } from './trouble.ts';
import { watchHolders } from './watch-holders.ts';
import { Ways } from './ways.ts';
import { Workload } from './workload.ts';

export const DEFAULT_STEPS = 24;
const PARTITIONS = 6;
const FIRST_NODES = 3;
/** Between one thing that befalls the cluster and the next, at most, in virtual ms. */
const STEP_MS = 200;
const ACTORS = 8;
const PAUSE_MS = 60;
/** All calls end by themselves; longer than the longest of them. */
const CALLS_END_MS = 60_000;

export interface SimulationOptions {
  readonly seed: number;
  /** How often something may befall the cluster. */
  readonly steps?: number;
  /** Nodes may be put back from older copies of their directories. Default: false. */
  readonly oldCopies?: boolean;
  /** Told of every event, a line each. */
  readonly trace?: ((line: string) => void) | undefined;
}

export interface SimulationResult {
  readonly seed: number;
  /** Empty: the contract was kept. */
  readonly violations: readonly string[];
  readonly events: readonly HistoryEvent[];
  readonly faults: ReadonlyMap<Fault, number>;
  readonly simulatedMs: number;
}

/** Plays one seed: a cluster under load, to which things happen; then peace, and a look at everything. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  return new Simulation(options).run();
}

class Simulation {
  readonly #seed: number;
  readonly #steps: number;
  readonly #random: SeededRandom;
  readonly #cluster: SimCluster;
  readonly #trouble: Trouble;
  readonly #history = new History();
  readonly #faults: Faults;
  readonly #ways: Ways;
  readonly #workload: Workload;

  constructor({ seed, steps = DEFAULT_STEPS, oldCopies = false, trace }: SimulationOptions) {
    this.#seed = seed;
    this.#steps = steps;
    const random = new SeededRandom(seed);
    this.#random = random;
    let trouble: Trouble | undefined;
    const log = (node: string) => ({
      ...{ debug: () => {}, info: () => {}, warn: () => {} },
      error: (details: object, message: string) => {
        // It says so.
        if (!this.#faults.oldCopies.has(node)) trouble?.log.error({ node, ...details }, message);
      },
    });
    const cluster = new SimCluster({ seed: random.uint32(), partitions: PARTITIONS, gossipMs: 500, log });
    trouble = new Trouble(() => cluster.time.now(), trace);
    this.#cluster = cluster;
    this.#trouble = trouble;
    Object.assign(cluster.network.weather, {
      latencyMs: random.pick([1, 3, 12]),
      lossRate: random.pick([0, 0.01, 0.03]),
      duplicateRate: random.pick([0, 0.05]),
      lateRate: random.pick([0, 0.01, 0.03]),
      lateMs: 4_000,
    });
    // Where all clocks agree the checks are sharp to the ms.
    const clocksAgree = random.chance(0.5);
    this.#ways = new Ways(cluster, random.fork(), trouble);
    const outsiders = [...this.#ways.proxies, 'client'];
    this.#faults = new Faults({ cluster, random: random.fork(), trouble, outsiders, clocksAgree, putsBack: oldCopies });
    const look = watchHolders(cluster, trouble, this.#faults.oldCopies);
    cluster.onHoldings = (node) => {
      look(node);
      this.#faults.holdingsChanged(node);
    };
    const sleep = (ms: number): Promise<void> =>
      new Promise(
        (resolve) => void cluster.time.at((cluster.time.now() + ms) as ReturnType<typeof cluster.time.now>, resolve),
      );
    const client = new SimClient({
      ...{ history: this.#history, trouble, sleep, clocksAgree },
      now: () => cluster.time.now(),
      way: () => this.#ways.pick(),
    });
    this.#workload = new Workload({ client, random: random.fork(), actors: ACTORS, sleep, pauseMs: PAUSE_MS });
  }

  async run(): Promise<SimulationResult> {
    try {
      await this.#play();
      await this.#judge();
    } catch (error) {
      this.#trouble.report(`the simulation failed: ${error instanceof Error ? error.stack : error}`);
    }
    return {
      seed: this.#seed,
      violations: this.#trouble.violations,
      events: this.#history.events,
      faults: this.#faults.counts,
      simulatedMs: this.#trouble.elapsedMs,
    };
  }

  async #play(): Promise<void> {
    const cluster = this.#cluster;
    await cluster.run(this.#faults.join());
    for (let more = 1; more < FIRST_NODES; more++) {
      void this.#faults.join();
      await cluster.pass(50 + this.#random.int(500));
    }
    for (let step = 0; step < this.#steps; step++) {
      this.#faults.befall();
      await cluster.pass(1 + this.#random.int(STEP_MS));
    }
  }

  async #judge(): Promise<void> {
    const cluster = this.#cluster;
    const { trouble, history } = { trouble: this.#trouble, history: this.#history };
    trouble.trace(() => 'peace');
    this.#faults.end();
    const stopped = this.#workload.stop();
    const unsettled = await settleCluster(cluster, this.#faults, this.#ways.routes);
    for (const problem of unsettled) trouble.report(problem);
    await cluster.time.run(stopped, CALLS_END_MS);
    if (unsettled.length > 0) return;
    const found = await findEverything(cluster, this.#ways.pickProxy());
    const kept = new KeptGroups(this.#faults.lost, PARTITIONS);
    const [events, tasks] = [kept.events(history.events), kept.tasks(found.tasks)];
    const violations = [
      ...found.violations,
      ...violationsOf(events, tasks, { clockSlackMs: 0 }),
      ...outOfLine(events, tasks),
      ...acrossLives(new KeptGroups(this.#faults.oldCopies.partitions, PARTITIONS).events(history.events)),
    ];
    for (const violation of violations) trouble.report(violation);
  }
}
