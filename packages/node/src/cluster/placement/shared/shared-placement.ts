import type { Partitions } from '@taskmaster/engine';
import type { Instant, PartitionId } from '@taskmaster/engine/domain';
import {
  type CancelTimer,
  type Clock,
  type Log,
  type SharedHolders,
  type SharedNode,
  type SharedPartition,
  type SharedState,
  StoreLostError,
  SURE_MS,
} from '@taskmaster/engine/ports';
import { isHolding, type MemberRecord, type Members, membersNamed } from '@taskmaster/server/cluster-view';
import type { Membership } from '@taskmaster/server/ports';
import { desiredHolders } from '../ring.ts';

export interface SharedPlacementDeps {
  readonly partitions: Partitions;
  readonly holders: SharedHolders;
  readonly membership: Membership;
  readonly members: () => Members;
  readonly nodeId: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Exchanges knowledge with the member, so that it looks. */
  readonly exchange: (nodeId: string) => Promise<boolean>;
}

/** A partition that was given to this node, and goes on to another one. */
interface Passed {
  readonly id: PartitionId;
  readonly epoch: number;
  readonly nodeId: string;
}

/** How often a node looks if nothing has changed, in ms. Each look tells the store that the node is alive. */
const LOOK_MS = 1_000;
/** Partitions that are opened by one run of recovery, and that are given in one go: callers of these wait meanwhile. */
const AT_ONCE = 32;
const NEVER_HELD: SharedPartition = { holder: undefined, epoch: 0, fencedMs: undefined };
/** Shortest time between two warnings about one thing, in ms. */
const WARN_EVERY_MS = 10_000;

/**
 * Lets this node hold what the ring assigns to it, if nodes share a store. It compares, again and again, what the store says with
 * the ring of the living members. Each step is a conditional change in the store, so nodes that disagree about who is alive, or
 * about the ring, change nothing twice.
 *
 *  P1  What the store says this node holds, and what is not served here, is opened.
 *  P2  What the ring gives to another living member is given to it. A node that leaves passes on what comes to it meanwhile, and
 *      does not open it.
 *  P3  A member is fenced if gossip says that it is dead, or if the store does not hear of it. What it held has no holder then.
 *  P4  What has no holder is taken by the node to which the ring gives it.
 *  P5  A node fences and takes only on the larger side of a divided cluster: of all nodes that are there, according to gossip or
 *      to the store, at least half are alive for it, and of two halves it is in the one with the first name. Otherwise both sides
 *      would fence each other.
 */
export class SharedPlacement {
  readonly #deps: SharedPlacementDeps;
  readonly #silent: SilentNodes;
  readonly #opening = new Set<PartitionId>();
  #isGiving = false;
  #isLooking = false;
  #again = false;
  #isSettled = false;
  #stopped = false;
  #cancelTimer: CancelTimer = () => {};
  #mayWarnAt = Number.NEGATIVE_INFINITY;

  constructor(deps: SharedPlacementDeps) {
    this.#deps = deps;
    this.#silent = new SilentNodes(deps.clock);
  }

  /** True from the moment at which this node first serves all that the ring gives to it. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  /** Call this whenever members, their states or holders have changed. */
  look(): void {
    if (this.#stopped) return;
    this.#again = true;
    if (!this.#isLooking) void this.#lookOn();
  }

  async #lookOn(): Promise<void> {
    this.#isLooking = true;
    this.#cancelTimer();
    try {
      while (this.#again && !this.#stopped) {
        this.#again = false;
        await this.#round();
      }
    } catch (error) {
      this.#warn(error, 'could not compare what the store says with what this node should hold');
    } finally {
      this.#isLooking = false;
      if (!this.#stopped) this.#lookLater();
    }
  }

  #lookLater(): void {
    const { clock } = this.#deps;
    this.#cancelTimer = clock.at((clock.now() + LOOK_MS) as Instant, () => this.look());
  }

  async #round(): Promise<void> {
    const { holders, partitions, nodeId } = this.#deps;
    const state = await holders.read();
    this.#silent.saw(state.nodes.values());
    if (this.#stopped) return;
    const near = this.#near();
    const desired = desiredHolders(
      near.filter(({ state }) => state === 'active').map(({ nodeId }) => nodeId),
      partitions.count,
    );
    const found = this.#compare(state, desired);
    this.#open(state, found.toOpen);
    void this.#give(found.toGive);
    if (found.toPass.length > 0) await this.#pass(found.toPass);
    if (this.#isOnLargerSide(near, state)) {
      let changed = false;
      for (const name of found.gone) if (await this.#fence(state, name)) changed = true;
      if (found.toTake.length > 0) {
        await holders.take(found.toTake);
        changed = true;
      }
      if (changed) this.#again = true;
    }
    const isComplete = found.toOpen.length + found.toTake.length + found.gone.size + this.#opening.size === 0;
    if (isComplete && near.some((record) => record.nodeId === nodeId && record.state === 'active'))
      this.#isSettled = true;
  }

  /** What is to be done about each partition. */
  #compare({ partitions: rows }: SharedState, desired: readonly string[]) {
    const { holders, partitions, nodeId, members } = this.#deps;
    const toOpen: PartitionId[] = [];
    const toTake: PartitionId[] = [];
    const toGive = new Map<string, PartitionId[]>();
    const toPass: Passed[] = [];
    const gone = new Set<string>();
    const own = members().get(nodeId)?.state;
    const isLeaving = own === 'leaving' || own === 'left';
    for (let index = 0; index < partitions.count; index++) {
      const id = index as PartitionId;
      const { holder, epoch, fencedMs = SURE_MS } = rows[id] ?? NEVER_HELD;
      const wanted = desired[id];
      if (holder === undefined) {
        if (wanted === nodeId) toTake.push(id);
      } else if (holder !== holders.self) {
        if (!gone.has(holder) && this.#isGone(holder)) gone.add(holder);
      } else if (!this.#opening.has(id)) {
        const holding = partitions.holding(id);
        if (holding?.kind === 'serving' && holding.epoch === epoch) {
          if (wanted === undefined || wanted === nodeId) continue;
          const given = toGive.get(wanted) ?? [];
          toGive.set(wanted, given);
          given.push(id);
        } else if (isLeaving && wanted !== undefined && !partitions.holds(id)) {
          // A gift says that a fenced holder answers nothing any more.
          if (fencedMs >= SURE_MS) toPass.push({ id, epoch, nodeId: wanted });
        } else if (!this.#isGiving) toOpen.push(id);
      }
    }
    return { toOpen, toTake, toGive, toPass, gone };
  }

  /** This node and the members that are alive for it. */
  #near(): MemberRecord[] {
    const { membership, members, nodeId } = this.#deps;
    const alive = new Set(membership.peers().flatMap((peer) => (peer.alive ? [peer.nodeId] : [])));
    return [...members().values()].filter(
      (record) => isHolding(record) && (record.nodeId === nodeId || alive.has(record.nodeId)),
    );
  }

  /** P5. */
  #isOnLargerSide(near: readonly MemberRecord[], state: SharedState): boolean {
    const { members, holders } = this.#deps;
    const here = new Set([holders.self, ...near.map(({ name }) => name)]);
    const there = new Set(here);
    for (const record of members().values()) {
      if (isHolding(record) && state.nodes.has(record.name) && !this.#silent.isSilent(record.name))
        there.add(record.name);
    }
    if (2 * here.size !== there.size) return 2 * here.size > there.size;
    const [first = ''] = [...there].sort();
    return here.has(first);
  }

  /** P3. */
  #isGone(name: string): boolean {
    const { members, membership } = this.#deps;
    const [record] = membersNamed(members(), name);
    // It has left, and may not hold anything: it was removed.
    if (record === undefined && [...members().values()].some((member) => member.name === name)) return true;
    const peer = membership.peers().find(({ nodeId }) => nodeId === record?.nodeId);
    return peer?.alive === false || this.#silent.isSilent(name);
  }

  async #fence({ nodes }: SharedState, name: string): Promise<boolean> {
    const node = nodes.get(name);
    if (node === undefined) return false;
    const done = await this.#deps.holders.fence(node);
    if (done) this.#deps.log.warn({ node: name }, `node ${name} does not answer: its partitions go to other members`);
    return done;
  }

  #open({ partitions: rows }: SharedState, ids: readonly PartitionId[]): void {
    for (let from = 0; from < ids.length; from += AT_ONCE) {
      const some = ids.slice(from, from + AT_ONCE);
      for (const id of some) this.#opening.add(id);
      const taken = some.map((id) => {
        const { epoch = 0, fencedMs } = rows[id] ?? {};
        return { id, epoch, waitMs: fencedMs === undefined ? 0 : Math.max(0, SURE_MS - fencedMs) };
      });
      void this.#openSome(taken);
    }
  }

  async #openSome(taken: Parameters<NonNullable<Partitions['shared']>['open']>[0]): Promise<void> {
    try {
      await this.#deps.partitions.shared?.open(taken);
    } catch (error) {
      this.#warn(error, 'could not open partitions that this node holds; trying again');
      return;
    } finally {
      for (const { id } of taken) this.#opening.delete(id);
    }
    this.look();
  }

  /** P2: some at a time, because each waits for a checkpoint, and callers wait meanwhile. */
  async #give(toGive: ReadonlyMap<string, readonly PartitionId[]>): Promise<void> {
    const [first] = toGive;
    if (first === undefined || this.#isGiving) return;
    const [nodeId, ids] = first;
    const { members, partitions, exchange } = this.#deps;
    const name = members().get(nodeId)?.name;
    if (name === undefined) return;
    this.#isGiving = true;
    try {
      await partitions.shared?.leave(ids.slice(0, AT_ONCE), { name, nodeId });
      // It looks at once then.
      void exchange(nodeId);
    } catch (error) {
      this.#warn(error, `could not give partitions to ${name}; trying again`);
      return;
    } finally {
      this.#isGiving = false;
    }
    this.look();
  }

  async #pass(passed: readonly Passed[]): Promise<void> {
    const { members, holders, exchange } = this.#deps;
    await holders.give(passed.map(({ id, epoch, nodeId }) => ({ id, epoch, to: members().get(nodeId)?.name })));
    for (const nodeId of new Set(passed.map((one) => one.nodeId))) void exchange(nodeId);
  }

  #warn(error: unknown, message: string): void {
    const { clock, log } = this.#deps;
    // The node starts anew, and says so.
    if (this.#stopped || error instanceof StoreLostError) return;
    if (clock.now() < this.#mayWarnAt) return;
    this.#mayWarnAt = clock.now() + WARN_EVERY_MS;
    log.warn({ err: error }, message);
  }
}

/** A node that the store has not heard of for this time is gone, in ms. Living nodes tell the store each second. */
const SILENT_MS = 3_000;
/** While this node itself could not read for longer, no other node could tell the store anything, perhaps. */
const LONGEST_GAP_MS = 2_000;

/** Finds the nodes that the store does not hear of. Counts only time in which this node has reached the store itself. */
class SilentNodes {
  readonly #clock: Pick<Clock, 'now'>;
  /** By name: when the node was last heard, by the clock of the store, and since when this node knows that, by its own. */
  readonly #heard = new Map<string, { readonly seenAt: number; readonly since: number }>();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Call this with each answer of the store. */
  saw(nodes: Iterable<SharedNode>): void {
    const now = this.#clock.now();
    if (now - this.#readAt > LONGEST_GAP_MS) this.#heard.clear();
    this.#readAt = now;
    for (const { name, seenAt } of nodes) {
      if (this.#heard.get(name)?.seenAt !== seenAt) this.#heard.set(name, { seenAt, since: now });
    }
  }

  isSilent(name: string): boolean {
    const heard = this.#heard.get(name);
    return heard !== undefined && this.#readAt - heard.since >= SILENT_MS;
  }
}
