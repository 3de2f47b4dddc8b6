import type { SeededRandom, SimFate, SimStatement } from '@taskmaster/engine/testing';
import type { SimCluster, SimNode } from '@taskmaster/node/testing';
import type { Arrival } from '@taskmaster/server/testing';
import type { Trouble } from '../trouble.ts';
import { failDisk, hasFailed, mendDisk } from './failing-disk.ts';
import type { Fault } from './fault.ts';
import { OldCopies } from './old-copies.ts';
import { Operator } from './operator.ts';
import { TransferFaults } from './transfer-faults.ts';

/** Number of names that the first nodes may have. */
const FIRST_NAMES = 3;
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
/** Limit of the nodes: more take time and find no more faults. */
const MOST_NODES = 5;
/** Messages of a hand-off after which only one side may know the outcome. */
const SWITCH = new Set(['takePartition', 'resolveOffer']);
const HAND_OFF = new Set([...SWITCH, 'offerPartition', 'sendRows', 'sendAtoms']);
/** Probability of a fault at such a message, and at other messages of a hand-off. */
const SWITCH_RATE = 0.1;
const HAND_OFF_RATE = 0.02;
/** Limit of the time until a faulty disk is repaired. */
const FAILING_MS = 2_000;

/** Probability that a statement is late, by its kind, and by how much at most, in ms. */
const LATE_RATES: Partial<Record<SimStatement, number>> = { commit: 0.001, take: 0.25, give: 0.1, fence: 0.05 };
const MOST_LATE_MS = 6_000;

/** Others have taken over from a node that hangs within this time, unless they are in trouble themselves. */
const MOST_HANG_MS = 10_000;
const HANG_LOOK_MS = 20;

/** A drain is taken back within this time. A drain without other faults takes less. */
const MOST_DRAIN_MS = 400;

/** A pause after which a node asks whether it is still a member. */
const NOTICED_MS = 5_100;
/** A system clock is set by this many times the length of such a pause: by some minutes. */
const SET_BY = 100;
/** The pause begins after at most this many readings of the clock. An update reads it twice. */
const MOST_READINGS = 10;

export interface FaultsOptions {
  readonly cluster: SimCluster;
  readonly random: SeededRandom;
  readonly trouble: Trouble;
  /** Proxies and clients that nodes may be cut off from. */
  readonly outsiders: readonly string[];
  readonly clocksAgree: boolean;
  /** True if nodes may restart with older copies of their directories. */
  readonly putsBack: boolean;
  /** Called when a node goes on after it hung, before it does anything else. */
  readonly onWake?: ((node: SimNode) => void) | undefined;
}

/** Causes random faults in a cluster, and counts them. */
export class Faults {
  readonly counts = new Map<Fault, number>();
  /** Members that have left or were lost with their disks. They do not return. */
  readonly gone = new Set<string>();
  /** Partitions that may have had tasks only on a lost disk. */
  readonly lost = new Set<number>();
  readonly oldCopies: OldCopies;
  readonly #cluster: SimCluster;
  readonly #random: SeededRandom;
  readonly #trouble: Trouble;
  readonly #outsiders: readonly string[];
  readonly #clocksAgree: boolean;
  readonly #putsBack: boolean;
  readonly #onWake: FaultsOptions['onWake'];
  readonly #draining = new Set<string>();
  readonly #operator: Operator;
  readonly #transfers: TransferFaults;
  /** Shuffled, because the first by name decides after a loss, and must not always be the node that began the cluster. */
  readonly #names: string[];
  #next = 0;
  #over = false;
  #hasLostForGood = false;

  constructor({ cluster, random, trouble, outsiders, clocksAgree, putsBack, onWake }: FaultsOptions) {
    this.#cluster = cluster;
    this.#random = random;
    this.#trouble = trouble;
    this.#outsiders = outsiders;
    this.#clocksAgree = clocksAgree;
    this.#putsBack = putsBack;
    this.#onWake = onWake;
    this.#operator = new Operator({ cluster, random, trouble, gone: this.gone });
    this.#names = [...random.shuffle(NAMES.slice(0, FIRST_NAMES)), ...NAMES.slice(FIRST_NAMES)];
    this.#transfers = new TransferFaults({
      cluster,
      random: random.fork(),
      count: (fault, details) => this.#count(fault, details),
      after: (ms, what) => this.#after(ms, () => (this.#over ? undefined : what())),
      loseForGood: (node) => this.#loseForGood(node, false),
    });
    this.oldCopies = new OldCopies({
      random: random.fork(),
      count: (fault, details) => this.#count(fault, details),
      remove: (node) => {
        this.gone.add(node.name);
        // Others may have handed it partitions before it noticed.
        for (const { id } of node.partitions.held()) this.#loses(id);
        void node.lose();
        this.#operator.remove([node.name]);
      },
    });
    cluster.onLost = (node) => {
      this.#count('fenced', node.name);
      // The process begins anew.
      node.kill();
      this.#restartLater(node);
    };
    if (cluster.database) cluster.database.onStatement = (name, kind) => this.#onStatement(name, kind);
    cluster.network.onArrival = (arrival) => {
      this.#onArrival(arrival);
      if (!this.#over) this.#transfers.onArrival(arrival);
    };
  }

  /** Members that must be up at the end. */
  get staying(): SimNode[] {
    return [...this.#cluster.nodes.values()].filter(({ name }) => !this.gone.has(name));
  }

  /** Adds a node. Resolves when it has joined, or never if a fault interrupts its start. */
  async join(): Promise<void> {
    const name = this.#names[this.#next++];
    if (name === undefined) return;
    const random = this.#random;
    const node = this.#cluster.add(name, {
      wallAheadMs: this.#clocksAgree ? 0 : random.int(120_000) - 60_000,
      atomicBatches: random.chance(0.7),
    });
    this.#count('join', name);
    await this.#start(node);
  }

  /** Causes a random fault, or none. */
  befall(): void {
    const random = this.#random;
    const chance = random.next();
    const node = this.#anyUp();
    if (chance < 0.12) {
      if (this.staying.length < MOST_NODES) void this.join();
    } else if (chance < 0.24 && node) this.#crash(node, random.chance(0.5) ? 'power loss' : 'kill');
    else if (chance < 0.28 && node) this.#stop(node);
    else if (chance < 0.42 && node) this.#pause(node);
    else if (chance < 0.62) this.#cut();
    else if (chance < 0.69 && node) this.#drain(node);
    else if (chance < 0.7 && node) this.#loseForGood(node);
    else if (this.#cluster.database && chance < 0.82 && node) this.#troubleDatabase(node);
    else if (chance < 0.72 && node) this.#failDisk(node);
    else if (chance < 0.82 && node) this.#pauseInTurn(node);
    if (node && this.#putsBack) this.#putBack(node);
    for (let moves = random.int(4); moves > 0; moves--) this.#move();
  }

  #putBack(node: SimNode): void {
    const others = this.staying.filter((other) => other !== node && isActive(other));
    if (others.length < 2 || this.#hasLostForGood || this.#draining.has(node.name) || node.isStarting) return;
    if (!node.isUp || node.h.clock.standsStill || !this.oldCopies.putBack(node, others)) return;
    this.#hasLostForGood = true;
    for (const id of this.oldCopies.partitions) this.lost.add(id);
    this.#restartLater(node);
  }

  #loses(id: number): void {
    this.#hasLostForGood = true;
    this.lost.add(id);
    this.oldCopies.partitions.add(id);
  }

  /** Ends all faults and restarts the nodes that are down. */
  end(): void {
    this.#over = true;
    // Hand-offs continue and are still traced.
    this.#cluster.heal();
    this.#cluster.database?.cut.clear();
    this.#cluster.database?.delayMs.clear();
    for (const node of this.staying) {
      node.h.disk.onStep = undefined;
      mendDisk(node);
      node.h.clock.goOn();
      this.revive(node);
    }
  }

  /** For the end: if all members are leaving, none can hand over its partitions before a new node joins. */
  relieve(): void {
    const up = this.staying.filter(({ isUp, isStarting }) => isUp && !isStarting);
    if (up.length < this.staying.length || up.some(({ agent }) => agent.self?.state !== 'leaving')) return;
    void this.join();
  }

  /** For the end: continues a drain that a crash interrupted, and starts a node again that did not start. */
  revive(node: SimNode): void {
    if (hasFailed(node)) void node.lose();
    if (node.isStarting) return;
    if (!node.isUp) void this.#start(node);
    else if (node.agent.self?.state === 'leaving') this.#drain(node);
    else if (node.agent.self?.state === 'left') this.#leave(node);
  }

  /** Sometimes a node that has handed over its last partition cannot tell the others that it has left. */
  holdingsChanged(node: SimNode): void {
    this.#transfers.holdingsChanged(node);
    if (this.#over || !this.#draining.has(node.name) || node.partitions.held().length > 0) return;
    if (!this.#random.chance(0.4)) return;
    const others = [...this.#cluster.nodes.keys()].filter((name) => name !== node.name);
    this.#cutFor(
      300,
      others.flatMap((name) => [`${name}>${node.name}`, `${node.name}>${name}`]),
    );
    this.#after(this.#random.int(200), () => this.#crash(node, 'crash while leaving'));
  }

  #onArrival({ from, to, what, way }: Arrival): void {
    if (!HAND_OFF.has(what)) return;
    this.#trouble.trace(() => `${what} ${way} ${from} > ${to}`);
    const random = this.#random;
    if (this.#over || !random.chance(SWITCH.has(what) ? SWITCH_RATE : HAND_OFF_RATE)) return;
    const [sender, receiver] = [this.#cluster.nodes.get(from), this.#cluster.nodes.get(to)];
    const victim = random.chance(0.5) ? sender : receiver;
    if (!victim) return;
    const both = random.chance(0.15);
    switch (random.int(8)) {
      case 0:
      case 1:
        this.#after(random.int(6), () => {
          for (const node of both ? [sender, receiver] : [victim]) if (node) this.#crash(node, 'crash in a hand-off');
        });
        break;
      case 2:
        this.#crash(victim, 'crash in a hand-off');
        break;
      case 3:
        this.#crashAtStep(victim);
        break;
      case 4:
        this.#pause(victim);
        break;
      case 5:
      case 6:
        this.#failDisk(victim);
        break;
      default:
        this.#count('lost hand-off message', `${from} > ${to}`);
        this.#cutFor(random.int(400), [`${to}>${from}`, ...(random.chance(0.5) ? [`${from}>${to}`] : [])]);
    }
  }

  #crash(node: SimNode, fault: Fault): void {
    if (!node.isUp || this.#over) return;
    this.#count(fault, node.name);
    const isPowerLoss = fault === 'power loss' || (fault !== 'kill' && this.#random.chance(0.5));
    if (isPowerLoss) void node.lose();
    else node.kill();
    this.#restartLater(node);
  }

  /** Crashes a node at a durable step, so that its disk has a state between two writes. */
  #crashAtStep(node: SimNode): void {
    const { disk } = node.h;
    const step = disk.steps + 1 + this.#random.int(8);
    disk.onStep = ({ number }) => {
      if (number < step) return;
      disk.onStep = undefined;
      this.#crash(node, 'crash at a durable step');
    };
  }

  /** Makes a disk faulty for some time. A node that cannot recover by itself is restarted. */
  #failDisk(node: SimNode): void {
    if (!node.isUp || this.#over) return;
    this.#count(failDisk(node, this.#random), node.name);
    this.#after(1 + this.#random.int(FAILING_MS), () => {
      mendDisk(node);
      if (hasFailed(node)) this.#crash(node, 'restart after a failed disk');
    });
  }

  /**
   * A statement that changes holders, or a commit, may come late: after the node was killed, after others have taken over, or
   * after the node has lost its connection and asked over another one.
   */
  #onStatement(name: string, kind: SimStatement): SimFate {
    const rate = LATE_RATES[kind] ?? 0;
    const node = this.#cluster.nodes.get(name);
    if (this.#over || node === undefined || rate === 0 || !this.#random.chance(rate)) return { lateMs: 0 };
    const lateMs = 1_000 + this.#random.int(MOST_LATE_MS);
    // What a commit did is settled by its number: the tests of PostgreSQL play that.
    const isCutOff = kind !== 'commit' && this.#random.chance(0.3);
    this.#count(isCutOff ? 'late statement without answer' : 'late statement', `${kind} of ${name} by ${lateMs} ms`);
    if (isCutOff) return { lateMs, isCutOff };
    if (this.#random.chance(0.5)) this.#crash(node, 'kill');
    else {
      const others = [...this.#cluster.nodes.keys()].filter((other) => other !== name);
      this.#cutFor(
        lateMs,
        others.flatMap((other) => [`${other}>${name}`, `${name}>${other}`]),
      );
    }
    return { lateMs };
  }

  /** Statements of a node reach the database late, or not at all for a while. */
  #troubleDatabase(node: SimNode): void {
    const { database } = this.#cluster;
    if (database === undefined) return;
    const { name } = node;
    const random = this.#random;
    if (random.chance(0.4)) {
      this.#hang();
      return;
    }
    const ms = random.int(random.chance(0.6) ? 1_500 : 8_000);
    if (random.chance(0.4)) {
      this.#count('cut from the database', `${name} for ${ms} ms`);
      database.cut.add(name);
      this.#after(ms, () => database.cut.delete(name));
      return;
    }
    const lateMs = 1 + random.int(random.chance(0.4) ? 50 : 6_000);
    this.#count('slow database', `${name} by ${lateMs} ms for ${ms} ms`);
    database.delayMs.set(name, lateMs);
    this.#after(ms, () => database.delayMs.delete(name));
  }

  #stop(node: SimNode): void {
    if (node.isStarting || node.h.clock.standsStill) return;
    this.#count('stop', node.name);
    this.oldCopies.stops(node);
    this.#stopInOrder(node);
    this.#restartLater(node);
  }

  /** Stops a node in good order. The process ends even if its disk fails meanwhile. */
  #stopInOrder(node: SimNode): void {
    node.stop().then(
      () => this.oldCopies.stopped(node),
      () => node.lose(),
    );
  }

  #restartLater(node: SimNode): void {
    // Long enough for others to take over.
    const mostMs = this.#random.chance(this.#cluster.database ? 0.5 : 0.8)
      ? 500
      : this.#cluster.database
        ? 8_000
        : 3_000;
    this.#after(20 + this.#random.int(mostMs), () => {
      if (!node.isUp && !node.isStarting && !this.gone.has(node.name)) void this.#start(node);
    });
  }

  async #start(node: SimNode): Promise<void> {
    this.#trouble.trace(() => `${node.name} starts`);
    try {
      await node.start();
      this.#trouble.trace(() => `${node.name} has started`);
      this.oldCopies.started(node);
    } catch (error) {
      this.#trouble.trace(() => `${node.name} could not start: ${error}`);
      // "This node has left" says another node of itself.
      if (String(error).includes(` ${node.name} has left`)) this.#leave(node);
      else if (!this.#over) this.#restartLater(node);
    }
  }

  #pause(node: SimNode): void {
    if (!node.isUp || node.h.clock.standsStill || this.#over) return;
    const { clock } = node.h;
    const ms = this.#random.int(this.#random.chance(0.8) ? 700 : 9_000);
    this.#count('pause', `${node.name} for ${ms} ms`);
    clock.standStill();
    this.#after(ms, () => this.#wake(node, clock));
  }

  /** Pauses a node that serves until others serve some of that, or not for long enough. */
  #hang(): void {
    const serving = this.#cluster.up.filter(
      ({ h, partitions }) => !h.clock.standsStill && partitions.held().length > 0,
    );
    if (serving.length === 0) return;
    const node = this.#random.pick(serving);
    const { clock } = node.h;
    const held = node.partitions.held().map(({ id }) => id);
    const endsAt = this.#cluster.time.now() + MOST_HANG_MS;
    this.#count('hang', node.name);
    clock.standStill();
    const look = (): void => {
      const isTaken = held.some((id) => this.#cluster.serving(id).some((name) => name !== node.name));
      if (isTaken || this.#cluster.time.now() >= endsAt) this.#wake(node, clock);
      else this.#after(HANG_LOOK_MS, look);
    };
    look();
  }

  #wake(node: SimNode, clock: SimNode['h']['clock']): void {
    clock.goOn();
    // It may have ended meanwhile.
    if (node.isUp && !node.isStarting && node.h.clock === clock) this.#onWake?.(node);
  }

  /**
   * Pauses the process between two readings of the clock, maybe in one turn: the second reading shows a much later time.
   * Then sets the system clock, except where instants of all nodes are compared.
   */
  #pauseInTurn(node: SimNode): void {
    const { clock } = node.h;
    const ms = NOTICED_MS + this.#random.int(3_000);
    this.#count('pause in a turn', `${node.name} for ${ms} ms`);
    clock.leapAtReading(1 + this.#random.int(MOST_READINGS), ms);
    if (!this.#clocksAgree) this.#setClock(node, ms % 2 === 0 ? ms * SET_BY : -ms * SET_BY);
  }

  #setClock(node: SimNode, ms: number): void {
    this.#count('clock set', `${node.name} by ${ms} ms`);
    node.h.clock.stepWall(ms);
  }

  #cut(): void {
    const random = this.#random;
    const names = [...this.#cluster.nodes.keys()];
    const node = random.pick(names);
    const others = random.shuffle([...names.filter((name) => name !== node), ...this.#outsiders]);
    const ms = random.int(random.chance(0.8) ? 800 : 4_000);
    const from = others.slice(0, 1 + random.int(others.length));
    const isOneWay = random.chance(0.35);
    this.#count(isOneWay ? 'one-way partition' : 'partition', `${node} from ${from} for ${ms} ms`);
    const inwards = random.chance(0.5);
    this.#cutFor(
      ms,
      from.flatMap((other) =>
        isOneWay ? [inwards ? `${other}>${node}` : `${node}>${other}`] : [`${other}>${node}`, `${node}>${other}`],
      ),
    );
  }

  #cutFor(ms: number, pairs: readonly string[]): void {
    if (this.#over) return;
    const { cut } = this.#cluster;
    for (const pair of pairs) cut.add(pair);
    this.#after(ms, () => {
      for (const pair of pairs) cut.delete(pair);
    });
  }

  #drain(node: SimNode): void {
    const active = this.staying.filter(({ isUp }) => isUp);
    if (this.#draining.has(node.name) || node.isStarting || (active.length < 3 && !this.#over)) return;
    const { agent } = node;
    this.#draining.add(node.name);
    if (!this.#over) this.#count('drain', node.name);
    // The node may hold no partition already.
    this.holdingsChanged(node);
    const over = (): void => void this.#draining.delete(node.name);
    const couldNot = (error: unknown): void => {
      over();
      this.#trouble.trace(() => `${node.name} could not be drained: ${error}`);
    };
    const isTakenBack = !this.#over && this.#random.chance(0.3);
    const drained = isTakenBack ? agent.leave().then(() => agent.left) : agent.drain();
    drained.then(() => {
      over();
      this.#leave(node);
    }, couldNot);
    if (isTakenBack) {
      this.#after(this.#random.int(MOST_DRAIN_MS), () => {
        // Also at the end of the faults: the node stays or leaves.
        if (!node.isUp || node.isStarting) return;
        node.agent.stay().then(() => {
          over();
          this.#count('drain taken back', node.name);
        }, couldNot);
      });
    }
    // A node that crashes meanwhile never answers.
    this.#after(5_000, over);
  }

  /** Loses a node with its disk, or two nodes. Returns false if that is not possible now. */
  #loseForGood(node: SimNode, perhapsTwo = true): boolean {
    const others = this.staying.filter((other) => other !== node && !this.#draining.has(other.name));
    if (others.length < 2 || this.#hasLostForGood || this.#draining.has(node.name) || node.isStarting) return false;
    const second =
      perhapsTwo && this.#random.chance(0.5) ? others.find(({ isUp, isStarting }) => isUp && !isStarting) : undefined;
    // An active node must remain, or there is nothing to check.
    if (!others.some((other) => other !== second && isActive(other))) return false;
    const nodes = second ? [node, second] : [node];
    const held = nodes.flatMap(({ partitions }) => partitions.held().map(({ id }) => id));
    const names = nodes.map(({ name }) => name);
    this.#count(second ? 'removal of two' : 'removal', `${names}, with partitions ${held.join() || 'none'}`);
    this.#hasLostForGood = true;
    // A shared database has everything.
    if (this.#cluster.database === undefined) for (const id of held) this.lost.add(id);
    for (const one of nodes) {
      this.gone.add(one.name);
      one.h.clock.goOn();
      void one.lose();
    }
    this.#operator.remove(names);
    return true;
  }

  #leave(node: SimNode): void {
    this.gone.add(node.name);
    this.#trouble.trace(() => `${node.name} has left`);
    if (node.isUp) this.#stopInOrder(node);
  }

  /** Moves a random partition, because partitions must not only move when nodes join and leave. */
  #move(): void {
    const [from, to] = [this.#anyUp(), this.#anyUp()];
    if (!from || !to || from === to || from.h.clock.standsStill) return;
    const held = from.partitions.held().filter(({ state }) => state === 'serving');
    if (held.length === 0) return;
    const { id } = this.#random.pick(held);
    this.#count('move', `partition ${id} ${from.name} > ${to.name}`);
    from.send(id, to).catch(() => {});
  }

  #anyUp(): SimNode | undefined {
    const { up } = this.#cluster;
    return up.length === 0 ? undefined : this.#random.pick(up);
  }

  #after(ms: number, what: () => void): void {
    const { time } = this.#cluster;
    time.at((time.now() + ms) as ReturnType<typeof time.now>, what);
  }

  #count(fault: Fault, details: string): void {
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    this.#trouble.trace(() => `${fault}: ${details}`);
  }
}

const isActive = (node: SimNode): boolean => node.isUp && !node.isStarting && node.agent.self?.state === 'active';
