import { History, type HistoryEvent, violationsOf } from '@taskmaster/cli/testing/history';
import type { PartitionId } from '@taskmaster/engine/domain';
import { SeededRandom, type SimConditions } from '@taskmaster/engine/testing';
import { SimCluster } from '@taskmaster/node/testing';
import { SimClient } from './calls/client.ts';
import { Ways } from './calls/ways.ts';
import { Workload } from './calls/workload.ts';
import { acrossLives } from './checks/all-lives.ts';
import { BulkRuns } from './checks/bulk-runs.ts';
import { DatabaseChecks } from './checks/database-checks.ts';
import { EventReaders } from './checks/event-readers.ts';
import { FairTurns } from './checks/fair-turns.ts';
import { findEverything, outOfLine } from './checks/final-state.ts';
import { Flows } from './checks/flows.ts';
import { HolderChanges } from './checks/holder-changes.ts';
import { KeptGroups } from './checks/kept-groups.ts';
import { KeysAndCaps } from './checks/keys-and-caps.ts';
import { WorkersByKind } from './checks/kinds.ts';
import { lateStarts } from './checks/late-starts.ts';
import { LimitedQueues } from './checks/limited-queues.ts';
import { ParkedTasks } from './checks/parked-tasks.ts';
import { PausedQueues } from './checks/paused-queues.ts';
import { RatedKeys } from './checks/rated-keys.ts';
import { ScheduledRuns } from './checks/scheduled-runs.ts';
import { settleCluster } from './checks/settle-cluster.ts';
import { watchHolders } from './checks/watch-holders.ts';
import type { Fault } from './faults/fault.ts';
import { Faults } from './faults/faults.ts';
import { Trouble } from './trouble.ts';

export const DEFAULT_STEPS = 24;
const PARTITIONS = 6;
const FIRST_NODES = 3;
/** Longest time between two faults, in virtual ms. */
const STEP_MS = 200;
/** The same for nodes that share a database: to take a partition over takes seconds. */
const SHARED_STEP_MS = 800;
/** Longest time until the first node serves the partitions of a shared database. */
const TAKEN_MS = 30_000;
const PARTITION_IDS = Array.from({ length: PARTITIONS }, (_, id) => id);
const ACTORS = 8;
const PAUSE_MS = 60;
/** One of so many seeds waits until tasks are unclaimed: minutes of a whole cluster take as much time as all the rest. */
const PATIENT = 5;
/** Longer than any call: all calls end by themselves within this time. */
const CALLS_END_MS = 60_000;

export interface SimulationOptions {
  readonly seed: number;
  /** Number of steps, which may each cause a fault. */
  readonly steps?: number;
  /** True if nodes may restart with older copies of their directories. Default false. */
  readonly oldCopies?: boolean;
  /** True if schedules run during the faults. Default false. */
  readonly schedules?: boolean;
  /** True if bulk runs move tasks during the faults. Default false. */
  readonly bulkRuns?: boolean;
  /** True if tasks wait for each other during the faults. Default false. */
  readonly flows?: boolean;
  /** True if workers run different kinds of tasks during the faults. Default false. */
  readonly kinds?: boolean;
  /** True if queues are paused and resumed during the faults. Default false. */
  readonly pauses?: boolean;
  /** True if queues and limit keys are limited, and backlogs capped, during the faults. Default false. */
  readonly limits?: boolean;
  /** True if queues are served in fair turns during the faults. Default false. */
  readonly fair?: boolean;
  /** True if tasks wait for signals during the faults. Default false. */
  readonly signals?: boolean;
  /** True if some tasks must start by an instant. Default false. */
  readonly starts?: boolean;
  /** True if the events of all groups are read during the faults. Default false. */
  readonly readers?: boolean;
  /**
   * The nodes share one database with these conditions; `{}` are all. Undefined: each node has a disk. With all conditions the
   * contract is kept.
   */
  readonly shared?: Partial<SimConditions> | undefined;
  /** Receives one line for each event. */
  readonly trace?: ((line: string) => void) | undefined;
}

export interface SimulationResult {
  readonly seed: number;
  /** Empty if the contract was kept. */
  readonly violations: readonly string[];
  readonly events: readonly HistoryEvent[];
  readonly faults: ReadonlyMap<Fault, number>;
  readonly simulatedMs: number;
}

/** Plays one seed: a cluster under load with faults. Then the faults end, and everything is checked. */
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
  readonly #scheduled: ScheduledRuns | undefined;
  readonly #bulkRuns: BulkRuns | undefined;
  readonly #flows: Flows | undefined;
  readonly #kinds: WorkersByKind | undefined;
  readonly #paused: PausedQueues | undefined;
  readonly #limited: LimitedQueues | undefined;
  readonly #keysAndCaps: KeysAndCaps | undefined;
  readonly #ratedKeys: RatedKeys | undefined;
  readonly #fairTurns: FairTurns | undefined;
  readonly #parked: ParkedTasks | undefined;
  readonly #readers: EventReaders | undefined;
  readonly #holders: HolderChanges;
  readonly #database: DatabaseChecks | undefined;

  constructor({
    seed,
    steps = DEFAULT_STEPS,
    oldCopies = false,
    schedules = false,
    bulkRuns = false,
    flows = false,
    kinds = false,
    pauses = false,
    limits = false,
    fair = false,
    signals = false,
    starts = false,
    readers = false,
    shared,
    trace,
  }: SimulationOptions) {
    this.#seed = seed;
    this.#steps = steps;
    const random = new SeededRandom(seed);
    this.#random = random;
    let trouble: Trouble | undefined;
    const log = (node: string) => ({
      debug: () => {},
      info: () => {},
      warn: () => {},
      error: (details: object, message: string) => {
        // A node with an old copy logs that as an error, as it should.
        if (!this.#faults.oldCopies.has(node)) trouble?.log.error({ node, ...details }, message);
      },
    });
    const cluster = new SimCluster({ seed: random.uint32(), partitions: PARTITIONS, gossipMs: 500, shared, log });
    trouble = new Trouble(() => cluster.time.now(), trace);
    this.#cluster = cluster;
    this.#bulkRuns = bulkRuns ? new BulkRuns(cluster) : undefined;
    this.#scheduled = schedules ? new ScheduledRuns(cluster) : undefined;
    this.#trouble = trouble;
    Object.assign(cluster.network.weather, {
      latencyMs: random.pick([1, 3, 12]),
      lossRate: random.pick([0, 0.01, 0.03]),
      duplicateRate: random.pick([0, 0.05]),
      lateRate: random.pick([0, 0.01, 0.03]),
      lateMs: 4_000,
    });
    // If all clocks agree, the checks are exact to the ms.
    const clocksAgree = random.chance(0.5) || shared !== undefined;
    this.#ways = new Ways(cluster, random.fork(), trouble);
    const outsiders = [...this.#ways.proxies, 'client'];
    this.#faults = new Faults({
      cluster,
      random: random.fork(),
      trouble,
      outsiders,
      clocksAgree,
      putsBack: oldCopies,
      onWake: (node) => this.#database?.askIfFenced(node),
    });
    this.#holders = new HolderChanges(PARTITIONS, () => cluster.time.now());
    const look = watchHolders(cluster, trouble, this.#faults.oldCopies);
    this.#database = shared && new DatabaseChecks(cluster, trouble);
    cluster.onHoldings = (node) => {
      look(node);
      this.#faults.holdingsChanged(node);
      this.#holders.note(node);
    };
    const sleep = (ms: number): Promise<void> =>
      new Promise(
        (resolve) => void cluster.time.at((cluster.time.now() + ms) as ReturnType<typeof cluster.time.now>, resolve),
      );
    const client = new SimClient({
      history: this.#history,
      trouble,
      sleep,
      clocksAgree,
      now: () => cluster.time.now(),
      way: () => this.#ways.pick(),
    });
    this.#workload = new Workload({
      client,
      random: random.fork(),
      actors: ACTORS,
      sleep,
      pauseMs: PAUSE_MS,
      hasStarts: starts,
    });
    const way = () => this.#ways.pick();
    const traced = (line: () => string): void => this.#trouble.trace(line);
    this.#readers = readers ? new EventReaders({ cluster, sleep, way, trace: traced }) : undefined;
    const operator = { cluster, history: this.#history, sleep, way };
    this.#paused = pauses ? new PausedQueues({ ...operator, random: random.fork() }) : undefined;
    this.#limited = limits ? new LimitedQueues({ ...operator, random: random.fork() }) : undefined;
    this.#keysAndCaps = limits ? new KeysAndCaps(cluster, random.fork()) : undefined;
    this.#fairTurns = fair ? new FairTurns(cluster, random.fork()) : undefined;
    this.#parked = signals ? new ParkedTasks(cluster, random.fork()) : undefined;
    this.#flows = flows ? new Flows(cluster, random.fork()) : undefined;
    this.#kinds = kinds ? new WorkersByKind(cluster, { sleep, way }) : undefined;
    this.#ratedKeys = limits ? new RatedKeys(cluster, random.fork()) : undefined;
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
    // It takes the partitions of a shared database when it has joined.
    const isServed = (id: number): boolean => cluster.serving(id as PartitionId).length > 0;
    for (let ms = 0; cluster.database && ms < TAKEN_MS && !PARTITION_IDS.every(isServed); ms += STEP_MS) {
      await cluster.pass(STEP_MS);
    }
    await this.#scheduled?.put();
    await this.#bulkRuns?.start();
    await this.#keysAndCaps?.start();
    await this.#ratedKeys?.start();
    await this.#fairTurns?.start();
    await this.#flows?.start();
    await this.#kinds?.start();
    this.#readers?.start();
    for (let more = 1; more < FIRST_NODES; more++) {
      void this.#faults.join();
      await cluster.pass(50 + this.#random.int(500));
    }
    for (let step = 0; step < this.#steps; step++) {
      this.#faults.befall();
      this.#keysAndCaps?.step();
      this.#ratedKeys?.step();
      this.#fairTurns?.step();
      this.#parked?.step();
      this.#flows?.step();
      await cluster.pass(1 + this.#random.int(cluster.database ? SHARED_STEP_MS : STEP_MS));
      await this.#database?.askFenced();
    }
  }

  async #judge(): Promise<void> {
    const cluster = this.#cluster;
    const { trouble, history } = { trouble: this.#trouble, history: this.#history };
    trouble.trace(() => 'peace');
    this.#faults.end();
    const stopped = Promise.all([
      this.#workload.stop(),
      this.#paused?.stop(),
      this.#limited?.stop(),
      this.#readers?.stop(),
      this.#kinds?.stop(),
    ]);
    const unsettled = await settleCluster(cluster, this.#faults, this.#ways.routes);
    for (const problem of unsettled) trouble.report(problem);
    await cluster.time.run(stopped, CALLS_END_MS);
    if (unsettled.length > 0) return;
    await this.#paused?.endAll();
    const lostSlots = await this.#limited?.endAll();
    const untold = await this.#readers?.violations();
    const found = await findEverything(cluster, this.#ways.pickProxy());
    const { lost, oldCopies } = this.#faults;
    const givenUp = new Set([...lost, ...oldCopies.partitions]);
    const scheduled = await this.#scheduled?.violations(givenUp);
    const inBulk = await this.#bulkRuns?.violations(givenUp);
    const ofKeys = await this.#keysAndCaps?.violations(givenUp);
    const ofRates = await this.#ratedKeys?.violations(givenUp);
    const inTurns = await this.#fairTurns?.violations(givenUp);
    const ofParked = await this.#parked?.violations(givenUp);
    const inFlows = await this.#flows?.violations(givenUp);
    const byKind = await this.#kinds?.violations(givenUp, this.#seed % PATIENT === 0);
    const kept = new KeptGroups(this.#faults.lost, PARTITIONS);
    const [events, tasks] = [kept.events(history.events), kept.tasks(found.tasks)];
    const served = new KeptGroups(givenUp, PARTITIONS).events(events);
    const violations = [
      ...found.violations,
      ...violationsOf(events, tasks, { clockSlackMs: 0 }),
      ...outOfLine(events, tasks),
      ...(scheduled ?? []),
      ...(inBulk ?? []),
      ...(inTurns ?? []),
      ...(ofParked ?? []),
      ...(inFlows ?? []),
      ...(byKind ?? []),
      ...(this.#paused?.violations(served) ?? []),
      ...(this.#limited?.violations(served) ?? []),
      ...(lostSlots ?? []),
      ...(ofKeys ?? []),
      ...(ofRates ?? []),
      ...(untold ?? []),
      ...lateStarts(served, found.first, this.#holders),
      ...acrossLives(new KeptGroups(this.#faults.oldCopies.partitions, PARTITIONS).events(history.events)),
    ];
    for (const violation of violations) trouble.report(violation);
  }
}
