import type { EngineConfig } from '../../config.ts';
import type { Instant, PartitionId } from '../../domain/ids.ts';
import type { EngineState } from '../../engine-state.ts';
import type { Holdings } from '../../holdings.ts';
import type { LeaseRequests } from '../../leasing/lease-requests.ts';
import { putBegun, ticketBehindEarlierLives } from '../../log/partition-row.ts';
import { newPartition, recover } from '../../log/replay.ts';
import type { Clock } from '../../ports/clock.ts';
import { type SharedHolders, SURE_MS } from '../../ports/shared-holders.ts';
import { sleep } from '../../ports/sleep.ts';
import type { Store } from '../../ports/store.ts';
import type { TaskWaits } from '../../waits/task-waits.ts';

interface SharedPartitionsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: EngineConfig;
  readonly holdings: Holdings;
  readonly shared: SharedHolders;
  /** Throws a `Refusal` while the engine cannot write. */
  readonly writable: () => EngineState;
  readonly leaseRequests: () => LeaseRequests | undefined;
  readonly taskWaits: () => TaskWaits | undefined;
  readonly engineState: () => EngineState | undefined;
  /** Resolves when a checkpoint that begins now is durable. */
  readonly checkpoint: () => Promise<void>;
  /** Deletes the rows of ended queues in the partitions that this node holds. */
  readonly reap: () => Promise<void>;
  /** Changes memory in one turn. If memory is being rebuilt, this waits for it. */
  readonly adopt: (work: (current: EngineState) => void) => Promise<void>;
}

/** A partition that the store says this node holds. */
interface TakenPartition {
  readonly id: PartitionId;
  readonly epoch: number;
  /** Time until it may be served, in ms: its last holder may still answer from memory. */
  readonly waitMs: number;
}

/** The node that a partition goes to. */
interface NextHolder {
  readonly name: string;
  readonly nodeId: string;
}

/** The move did not begin, or the store must be asked whether it happened. */
class MoveBrokenError extends Error {
  override readonly name = 'MoveBrokenError';
}

/**
 * Recoveries side by side. Each waits for the pages of its partitions one after the other, and a store on another machine takes
 * its time for each page.
 */
const RECOVERIES = 3;

/** Callers of a partition that is being given up wait at most this long, in ms. Then they are refused. */
const PATIENCE_MS = 2_000;

/**
 * How partitions arrive and leave if nodes share a store: their rows stay where they are.
 *
 *  S1  A partition is recovered from its rows, as all are after a crash, while this node serves others. The store said before
 *      that this node holds it, so nobody else changes its rows.
 *  S2  A partition is given up after all writes to its rows: it is frozen, so it has no further changes, and then a checkpoint
 *      has written all earlier ones.
 *  S3  From the moment at which another node may hold a partition, memory is not rebuilt with it: a checkpoint could write its
 *      rows.
 *  S4  A partition is not opened at an epoch at which this process has tried to give it up: the statement may have been lost
 *      with its connection, or may still arrive. This node first gives the partition to itself, which ends the epoch.
 */
export class SharedPartitions {
  readonly #deps: SharedPartitionsDeps;
  /** Partitions that are being opened or given up. */
  readonly #moving = new Set<PartitionId>();
  /** S4: the epoch at which a partition was offered to another node, without an answer of the store. */
  readonly #offered = new Map<PartitionId, number>();

  constructor(deps: SharedPartitionsDeps) {
    this.#deps = deps;
  }

  /**
   * Serves partitions that this node holds, according to the store, and has not in memory. If this rejects, they are not served.
   * Those whose epoch must end first (S4) are not served either: call this again with what the store says then.
   */
  async open(taken: readonly TakenPartition[]): Promise<void> {
    const { holdings } = this.#deps;
    const wanted = taken.filter(({ id }) => !this.#moving.has(id) && holdings.get(id)?.kind !== 'serving');
    for (const { id } of wanted) {
      this.#moving.add(id);
      // It was given up, and nobody else has opened it.
      if (holdings.holds(id)) this.#forget(id);
    }
    try {
      const unsettled = wanted.filter(({ id, epoch }) => this.#offered.get(id) === epoch);
      if (unsettled.length > 0) {
        const { shared } = this.#deps;
        await shared.give(unsettled.map(({ id, epoch }) => ({ id, epoch, to: shared.self })));
      }
      const settled = wanted.filter((one) => !unsettled.includes(one));
      if (settled.length > 0) await this.#open(settled);
    } finally {
      for (const { id } of wanted) this.#moving.delete(id);
    }
  }

  async #open(taken: readonly TakenPartition[]): Promise<void> {
    const { store, clock, config, holdings, adopt, writable, reap } = this.#deps;
    const servedAt = clock.now() + Math.max(...taken.map(({ waitMs }) => waitMs));
    const ids = taken.map(({ id }) => id);
    const shares = Array.from({ length: Math.min(RECOVERIES, ids.length) }, (_, share) =>
      ids.filter((_, index) => index % RECOVERIES === share),
    );
    const recovered = await Promise.all(shares.map((only) => recover(store, config.requestIdWindowMs, { only })));
    const partitions = new Map(recovered.flatMap((one) => [...one.partitions]));
    const begun = ids.filter((id) => !partitions.has(id));
    const life = clock.now();
    const behind = ticketBehindEarlierLives(life);
    if (begun.length > 0) {
      await writable().log.appendRows((rows) => putBegun(rows, begun, { appliedTicket: behind, life }));
    }
    const leftMs = servedAt - clock.now();
    if (leftMs > 0) await sleep(clock, leftMs);
    await adopt((current) => {
      for (const id of ids) {
        current.requests.opens(id, clock.now());
        current.adopt(id, partitions.get(id) ?? newPartition(behind, life));
      }
      holdings.serveAll(taken.map(({ id, epoch }) => [id, epoch]));
    });
    void this.#loadRequests(ids);
    void reap();
  }

  /** Callers are served meanwhile. Request ids that memory does not have yet are looked up in the store. */
  async #loadRequests(ids: readonly PartitionId[]): Promise<void> {
    const { clock, engineState } = this.#deps;
    for (const id of ids) {
      // A failed read leaves the ids to be looked up until the window is over.
      await engineState()
        ?.requests.loadOf(id, clock.now())
        .catch(() => {});
    }
  }

  /**
   * Gives partitions up to the next holder. Resolves when the store says so: then callers wait until the next holder serves them,
   * or are refused. If this rejects, they are served here, or must be opened again.
   */
  async leave(ids: readonly PartitionId[], to: NextHolder): Promise<void> {
    const { holdings, clock, shared, engineState } = this.#deps;
    const leaving = ids.flatMap((id) => {
      const holding = holdings.get(id);
      if (holding?.kind !== 'serving' || this.#moving.has(id) || !holdings.canCommit(id)) return [];
      return [{ id, epoch: holding.epoch, to: to.name }];
    });
    if (leaving.length === 0) return;
    for (const { id, epoch } of leaving) {
      this.#moving.add(id);
      // So that the next holder keeps the events of the groups that are read, from its first change on.
      engineState()?.markReaders(id);
      holdings.freeze(id, epoch);
    }
    const stop = clock.at((clock.now() + PATIENCE_MS) as Instant, () => {
      for (const { id } of leaving) holdings.stall(id);
    });
    try {
      await this.#writeAll();
      for (const { id, epoch } of leaving) {
        holdings.handOver(id, to.nodeId);
        this.#offered.set(id, epoch);
      }
      await shared.give(leaving);
      for (const { id } of leaving) this.#offered.delete(id);
    } catch (error) {
      stop();
      for (const { id, epoch } of leaving) {
        const kind = holdings.get(id)?.kind;
        if (kind === 'frozen') holdings.serve(id, epoch);
        else if (kind === 'handing-over') this.#forget(id);
      }
      throw error;
    } finally {
      for (const { id } of leaving) this.#moving.delete(id);
    }
  }

  /**
   * Gives all partitions up, so that any node may take them at once, also those that came too late to be opened. Call this when
   * nothing writes any more.
   */
  async leaveAll(): Promise<void> {
    const { shared, clock } = this.#deps;
    const { partitions } = await shared.read();
    const held = partitions.flatMap((partition, id) =>
      partition?.holder === shared.self ? [{ ...partition, id: id as PartitionId, to: undefined }] : [],
    );
    // A gift says that a fenced holder answers nothing any more.
    const leftMs = Math.max(0, ...held.map(({ fencedMs = SURE_MS }) => SURE_MS - fencedMs));
    if (leftMs > 0) await sleep(clock, leftMs);
    if (held.length > 0) await shared.give(held.map(({ id, epoch, to }) => ({ id, epoch, to })));
  }

  /** S2: resolves when no write to the rows of frozen partitions is in progress or will come. */
  async #writeAll(): Promise<void> {
    const { writable, checkpoint, leaseRequests } = this.#deps;
    const engineState = writable();
    await checkpoint();
    // A checkpoint without changes does not wait for the atom that only says which groups are read.
    await engineState.log.appendRows(() => {});
    await leaseRequests()?.delivered();
    if (engineState.failed || writable() !== engineState) throw new MoveBrokenError('memory was rebuilt meanwhile');
  }

  /** Forgets a partition that this node may not hold any more. */
  #forget(id: PartitionId): void {
    const { holdings, leaseRequests, taskWaits, engineState } = this.#deps;
    holdings.forget(id);
    leaseRequests()?.abandon(id);
    taskWaits()?.abandon(id);
    engineState()?.abandon(id);
  }
}
