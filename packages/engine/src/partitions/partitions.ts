import type { EngineConfig } from '../config.ts';
import type { Instant, PartitionId, PartitionLife, QueueId, Ticket } from '../domain/ids.ts';
import { afterPrefix, metaKeys, partitionOfMetaKey } from '../domain/keys.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import type { Holding, Holdings } from '../holdings.ts';
import type { LeaseRequests } from '../leasing/lease-requests.ts';
import { encodeHolderRow, type HolderRow } from '../log/holder-row.ts';
import { putBegun, ticketBehindEarlierLives } from '../log/partition-row.ts';
import { loadRecords } from '../log/records.ts';
import { newPartition, recover } from '../log/replay.ts';
import { scanAll } from '../log/scan-all.ts';
import type { Clock } from '../ports/clock.ts';
import type { SharedHolders } from '../ports/shared-holders.ts';
import { Family, type KeyRange, type Store, StoreFullError } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import type { TaskWaits } from '../waits/task-waits.ts';
import type { HeldPartition, PartitionClaim, PartitionHost, PartitionLocation } from './partition-host.ts';
import { SharedPartitions } from './shared/shared-partitions.ts';
import { clearPartition } from './transfer/clear-partition.ts';
import { ExportBrokenError, PartitionExport } from './transfer/export-partition.ts';
import { ImportBrokenError, PartitionImport } from './transfer/import-partition.ts';

const EMPTY = new Uint8Array(0);

/** The parts of an engine that partitions need. */
export interface PartitionsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: EngineConfig;
  readonly holdings: Holdings;
  /** See `EngineDeps`. */
  readonly shared: SharedHolders | undefined;
  readonly engineState: () => EngineState | undefined;
  /** Throws a `Refusal` while the engine cannot write. */
  readonly writable: () => EngineState;
  readonly leaseRequests: () => LeaseRequests | undefined;
  readonly taskWaits: () => TaskWaits | undefined;
  /** Resolves when a checkpoint that begins now is durable. */
  readonly checkpoint: () => Promise<void>;
  /** Resolves when the checkpoint in progress has ended, with or without success. */
  readonly checkpointed: () => Promise<void>;
  /** After a failed write: resolves with the rebuilt state. Rejects if the engine stops first. */
  readonly rebuilt: () => Promise<EngineState>;
  /** Deletes the rows of ended queues that arrived with a partition. */
  readonly reap: () => Promise<void>;
}

/** The state of a partition at its hand-over. The target checks its copy against it. */
export interface HandOverTotals {
  readonly lastTicket: Ticket;
  readonly tasks: number;
}

/** The partition in an offer; see `OfferPartitionRequest`. */
export interface OfferedPartition {
  readonly id: PartitionId;
  readonly epoch: number;
  /** Time of the offer by the holder's clock. */
  readonly now: Instant;
  readonly ticket: Ticket;
  readonly nextQueueId: QueueId;
  readonly life: PartitionLife;
}

/**
 * The partitions of an engine: how they arrive, leave and change state. A change of holder is durable before it takes effect.
 * It goes through the commit log, so that it is ordered with the atoms.
 */
export class Partitions implements PartitionHost {
  readonly #deps: PartitionsDeps;
  /** Partitions that were given up: resolves when their rows are deleted. */
  readonly #clearing = new Map<PartitionId, Promise<void>>();
  readonly #thawing = new Set<PartitionId>();
  /** The latest import of each partition. A failed import stays until the partition arrives. */
  readonly #arriving = new Map<PartitionId, PartitionImport>();
  /** Partitions that are starting empty here. They accept no import. */
  readonly #claiming = new Set<PartitionId>();
  /** Partitions whose holder on disk is not known: the write of the row has failed or is in progress. */
  readonly #uncertain = new Set<PartitionId>();
  /** By partition: the epoch at which it was given up, while the disk may still name this node as its holder. */
  readonly #unreleased = new Map<PartitionId, number>();
  /** True after the rows that were read at the start were synced. Before, a crash of the machine may lose them. */
  #startIsDurable = false;
  /** How partitions arrive and leave if nodes share the store. Undefined: they are transferred. */
  readonly shared: SharedPartitions | undefined;

  constructor(deps: PartitionsDeps) {
    this.#deps = deps;
    const { shared } = deps;
    if (shared === undefined) return;
    this.shared = new SharedPartitions({ ...deps, shared, adopt: (work) => this.#adopt(deps.writable(), work) });
  }

  /** Number of all partitions, held or not. */
  get count(): number {
    return this.#deps.config.partitions;
  }

  held(): readonly HeldPartition[] {
    const held: HeldPartition[] = [];
    for (const [id, holding] of this.#deps.holdings.entries()) {
      if (holding.kind === 'released') continue;
      const { queues, tasks } = this.sizeOf(id);
      const to = holding.kind === 'serving' ? undefined : holding.to;
      held.push({ id, epoch: holding.epoch, state: holding.kind, to, queues, tasks });
    }
    return held.sort((a, b) => a.id - b.id);
  }

  holds(id: PartitionId): boolean {
    return this.#deps.holdings.holds(id);
  }

  /** Number of tasks in a held partition. */
  tasksIn(id: PartitionId): number {
    return this.sizeOf(id).tasks;
  }

  /** Numbers of queues and tasks in a held partition, with everything that is committed. Records are tasks of no queue. */
  sizeOf(id: PartitionId): { readonly queues: number; readonly tasks: number } {
    let queues = 0;
    let tasks = 0;
    for (const { ledger, isReserved } of this.#deps.engineState()?.queuesOf(id) ?? []) {
      if (!isReserved) queues++;
      tasks += ledger.size;
    }
    return { queues, tasks };
  }

  /**
   * Undefined if the partition is served here in this turn. Otherwise resolves when to call again, or rejects with a
   * `Refusal`.
   */
  gate(id: PartitionId): Promise<void> | undefined {
    return this.#deps.holdings.gate(id);
  }

  /** Where a partition that is held stands; undefined while the engine has nothing in memory. */
  ticketsOf(id: PartitionId): { readonly lastTicket: Ticket; readonly durableTicket: Ticket } | undefined {
    return this.#deps.engineState()?.ticketsOf(id);
  }

  /** See `EngineState.lastEpochOf`. Undefined also while the engine has nothing in memory. */
  lastEpochOf(id: PartitionId): number | undefined {
    return this.#deps.engineState()?.lastEpochOf(id);
  }

  holding(id: PartitionId): Holding | undefined {
    return this.#deps.holdings.get(id);
  }

  onChange(listener: (changed: readonly PartitionId[]) => void): () => void {
    return this.#deps.holdings.onChange(listener);
  }

  locate(find: (id: PartitionId) => PartitionLocation | undefined): void {
    this.#deps.holdings.locate(find);
  }

  guard(check: () => Promise<void> | undefined): void {
    this.#deps.holdings.guard(check);
  }

  async claim(claims: readonly PartitionClaim[]): Promise<void> {
    const { holdings } = this.#deps;
    const wanted = new Map(claims.filter(({ id }) => !holdings.holds(id)).map(({ id, epoch }) => [id, epoch]));
    if (wanted.size === 0) return;
    for (const id of wanted.keys()) {
      this.#claiming.add(id);
      // An import in progress would write into the partition or clear it.
      this.#arriving.get(id)?.end();
    }
    try {
      await this.#claim(wanted);
    } finally {
      for (const id of wanted.keys()) this.#claiming.delete(id);
    }
  }

  async #claim(wanted: ReadonlyMap<PartitionId, number>): Promise<void> {
    const { holdings, store, config } = this.#deps;
    await Promise.all([...wanted.keys()].map((id) => this.#clearing.get(id)));
    for (const id of wanted.keys()) {
      // After a crash this node must not hold what it has cleared.
      await this.settle(id);
      // Rows of an earlier holding or of an unfinished import must not reappear.
      if (holdings.get(id) || this.#arriving.has(id)) await clearPartition(store, id);
    }
    // A store that was used without a cluster already has these partitions, with tasks.
    const only = wanted.size < config.partitions ? [...wanted.keys()] : undefined;
    const { partitions } = await recover(store, config.requestIdWindowMs, { only });
    const engineState = this.#deps.writable();
    const begun = [...wanted.keys()].filter((id) => !partitions.has(id));
    const life = engineState.clock.now();
    const behind = ticketBehindEarlierLives(life);
    // The rows written below are ordered behind the uncertain ones.
    for (const id of wanted.keys()) {
      this.#uncertain.delete(id);
      this.#unreleased.delete(id);
    }
    // Without atomic batches the holder's row must be written last.
    if (!store.atomicBatches)
      await engineState.log.appendRows((batch) => putBegun(batch, begun, { appliedTicket: behind, life }));
    await engineState.log.appendRows((batch) => {
      if (store.atomicBatches) putBegun(batch, begun, { appliedTicket: behind, life });
      putHolders(
        batch,
        [...wanted].map(([id, epoch]) => [id, { kind: 'serving', epoch }]),
      );
    });
    await this.#adopt(engineState, (current) => {
      for (const id of wanted.keys()) {
        this.#arriving.delete(id);
        current.adopt(id, partitions.get(id) ?? newPartition(behind, life));
      }
      holdings.serveAll(wanted);
    });
  }

  async supersede(id: PartitionId, by: { readonly nodeId: string; readonly epoch: number }): Promise<void> {
    const holding = this.#deps.holdings.get(id);
    if (!holding) return;
    const isHeld = holding.kind !== 'released';
    if (holding.epoch < by.epoch || (isHeld && holding.epoch === by.epoch)) await this.release(id, by.nodeId, by.epoch);
    else if (this.#unreleased.has(id) && holding.kind === 'released')
      await this.#putAway(id, holding.to, holding.epoch);
  }

  /** Deletes the rows that earlier runs left of partitions which are not held. */
  async clearLeftovers(): Promise<void> {
    const { store, holdings } = this.#deps;
    if (!holdings.everything) await this.#syncStart();
    const range: KeyRange = { gte: 'clear/' as KeyRange['gte'], lt: afterPrefix('clear/') };
    for await (const { key } of scanAll(store, Family.meta, range)) {
      const id = partitionOfMetaKey(key);
      if (!holdings.holds(id)) await clearPartition(store, id);
    }
  }

  /** Starts an export of a serving partition: a snapshot and the log behind it. `maxBacklogBytes`: see `LogTail`. */
  export(id: PartitionId, maxBacklogBytes?: number): PartitionExport {
    const { holdings, writable } = this.#deps;
    if (!holdings.canCommit(id)) throw new ExportBrokenError(`partition ${id} is not served here`);
    return new PartitionExport(writable(), id, maxBacklogBytes);
  }

  /** Freezes a partition: it does not change from now on, and its callers wait. */
  freeze(id: PartitionId): void {
    const { holdings } = this.#deps;
    const holding = holdings.get(id);
    // A node that knows by now that it is no member, or that its data is old, must not send it.
    if (holding?.kind !== 'serving' || !holdings.canCommit(id))
      throw new ExportBrokenError(`partition ${id} is not served here`);
    // So that the target keeps the events of the groups that are read, from its first change on.
    this.#deps.engineState()?.markReaders(id);
    holdings.freeze(id, holding.epoch);
  }

  /** Lets `to` take a frozen partition. Resolves when this and all of the partition are durable. */
  async handOver(id: PartitionId, to: string): Promise<HandOverTotals> {
    const { holdings, writable } = this.#deps;
    const holding = holdings.get(id);
    if (holding?.kind !== 'frozen') throw new ExportBrokenError(`partition ${id} is not frozen`);
    const engineState = writable();
    const { lastTicket } = engineState.ticketsOf(id);
    const { tasks } = this.sizeOf(id);
    // Callers must not be served once the row may be on disk.
    holdings.handOver(id, to);
    await write(engineState, [[id, { kind: 'handing-over', epoch: holding.epoch, to }]]);
    return { lastTicket, tasks };
  }

  /**
   * Serves a frozen partition again. The caller knows that no node has taken it, or can take it below this epoch. `epoch`: given
   * if a node that is gone for good may have taken it. What that node may have changed is lost, so a new life begins with what is
   * here.
   */
  async thaw(id: PartitionId, epoch?: number): Promise<void> {
    const { holdings } = this.#deps;
    const holding = holdings.get(id);
    if (holding?.kind === 'frozen') return holdings.serve(id, holding.epoch);
    // One at a time: two calls write their rows in the order of the calls, but change memory in the order of their ends.
    if (holding?.kind !== 'handing-over' || this.#thawing.has(id)) return;
    this.#thawing.add(id);
    try {
      const next = epoch ?? holding.epoch;
      const engineState = this.#deps.writable();
      if (epoch !== undefined) {
        engineState.beginAnew(id);
        // An atom behind the earlier tickets would be a gap in the log.
        await this.#deps.checkpoint();
        // It may have been given up meanwhile. The row below would replace the later one.
        if (holdings.get(id) !== holding) return;
      }
      await write(engineState, [[id, { kind: 'serving', epoch: next }]]);
      // The partition may have been given up meanwhile, with a later row.
      if (holdings.get(id) === holding) holdings.serve(id, next);
    } finally {
      this.#thawing.delete(id);
    }
  }

  /** Refuses callers, instead of letting them wait, until the partition is served again or given up. */
  stall(id: PartitionId): void {
    this.#deps.holdings.stall(id);
  }

  /** Gives the partition up, because `to` holds it at this epoch. If this rejects, it is given up, but perhaps not on disk. */
  async release(id: PartitionId, to: string, epoch: number): Promise<void> {
    const { holdings } = this.#deps;
    const earlier = holdings.get(id);
    if (earlier?.kind === 'released' && earlier.epoch >= epoch) return;
    // In this turn, because the new holder may already be changing the partition.
    holdings.release(id, epoch, to);
    abandon(this.#deps, id);
    // The rows of a shared store are those of the new holder.
    if (this.shared === undefined) await this.#putAway(id, to, epoch);
  }

  /** Resolves when the disk, too, says that the partition was given up. Its rows are deleted later. */
  async #putAway(id: PartitionId, to: string, epoch: number): Promise<void> {
    this.#unreleased.set(id, epoch);
    const written = this.#writeReleased(id, to, epoch);
    // Set in this turn: an import or claim of the partition waits for the deletion.
    const cleared = Promise.all([written, this.#clearing.get(id)])
      .then(() => this.#clear(id))
      // The next start clears the rows that are left.
      .catch(() => {})
      .finally(() => {
        if (this.#clearing.get(id) === cleared) this.#clearing.delete(id);
      });
    this.#clearing.set(id, cleared);
    await written;
    if (this.#unreleased.get(id) === epoch) this.#unreleased.delete(id);
  }

  /** Prepares an import of a partition. Waits until this node may commit: what it takes before could be removed with it. */
  async import({ id, epoch, now, ticket, nextQueueId, life }: OfferedPartition): Promise<PartitionImport> {
    const { clock, config, store, holdings } = this.#deps;
    for (let guarded = holdings.guarded; guarded; guarded = holdings.guarded) await guarded;
    const shiftMs = clock.now() - now;
    const { requestIdWindowMs: requestWindowMs } = config;
    const options = { store, partition: id, epoch, shiftMs, ticket, nextQueueId, life, requestWindowMs };
    if (this.#claiming.has(id)) throw new ImportBrokenError(`partition ${id} starts empty here`);
    const arriving = new PartitionImport({ ...options, now: () => clock.now() });
    this.#arriving.get(id)?.end();
    this.#arriving.set(id, arriving);
    await this.#clearing.get(id);
    await this.settle(id);
    await arriving.begin();
    return arriving;
  }

  /**
   * Holds a partition after its complete import. Resolves when that is durable. If it rejects, the partition is not held, but
   * the disk may say otherwise: see `settle`.
   */
  async take(arrived: PartitionImport): Promise<void> {
    const { holdings, writable } = this.#deps;
    const { partition, epoch, recovered } = arrived;
    arrived.assertGoesOn();
    if (holdings.guarded)
      throw new Refusal('STARTING', `this node may change nothing now: it does not take partition ${partition}`);
    await loadRecords(this.#deps.store, partition, recovered);
    arrived.assertGoesOn();
    const engineState = writable();
    // Without atomic batches the holder's row must be written last. With them one write is enough, and callers wait for it.
    const { atomicBatches } = this.#deps.store;
    if (!atomicBatches) {
      await engineState.log.appendRows((rows) => arrived.writeState(rows));
      arrived.assertGoesOn();
    }
    await this.#writeHolder(engineState, arrived, (rows) => {
      if (atomicBatches) arrived.writeState(rows);
      arrived.writeHolder(rows);
    });
    await this.#adopt(engineState, (current) => {
      this.#uncertain.delete(partition);
      this.#arriving.delete(partition);
      current.adopt(partition, recovered);
      current.requests.adopt(partition, arrived.requests, !arrived.requestsLeftOut, current.clock.now());
      holdings.serve(partition, epoch);
    });
    void this.#deps.reap();
  }

  /**
   * Resolves when the disk agrees with `holding`, so that other nodes may rely on it. Rejects while that is not known: after a
   * failed write, only a restart shows what is on disk.
   */
  async settle(id: PartitionId): Promise<void> {
    if (this.#startIsDurable && this.#agrees(id)) return;
    const { holdings, writable } = this.#deps;
    const holding = holdings.get(id);
    const unreleased = this.#unreleased.get(id);
    await writable().log.appendRows((rows) => {
      if (this.#agrees(id)) return;
      if (holding?.kind === 'released') rows.put(Family.meta, metaKeys.holder(id), encodeHolderRow(holding));
      else rows.delete(Family.meta, metaKeys.holder(id));
      rows.put(Family.meta, metaKeys.clear(id), EMPTY);
    });
    this.#uncertain.delete(id);
    if (this.#unreleased.get(id) === unreleased) this.#unreleased.delete(id);
    this.#startIsDurable = true;
  }

  /** Whether the disk names the holder that memory does. */
  #agrees(id: PartitionId): boolean {
    return !this.#uncertain.has(id) && !this.#unreleased.has(id);
  }

  async #syncStart(): Promise<void> {
    try {
      await this.#deps.store.write(new WriteBatch(), { sync: true });
      this.#startIsDurable = true;
    } catch (error) {
      // A full disk does not prevent the start. `settle` tries again.
      if (!(error instanceof StoreFullError)) throw error;
    }
  }

  async #writeHolder(
    engineState: EngineState,
    { partition }: PartitionImport,
    fill: (rows: WriteBatch) => void,
  ): Promise<void> {
    this.#uncertain.add(partition);
    this.#unreleased.delete(partition);
    try {
      await engineState.log.appendRows(fill);
    } catch (error) {
      // On a full disk the store promises that no part of an atomic batch is written.
      if (error instanceof StoreFullError && this.#deps.store.atomicBatches) this.#uncertain.delete(partition);
      throw error;
    }
  }

  /**
   * Adds durable partitions to memory in the turn in which they start to be served. If memory is being rebuilt, this waits for
   * it: the rebuild reads only the partitions that are held already.
   */
  async #adopt(engineState: EngineState, adopt: (current: EngineState) => void): Promise<void> {
    let current = engineState;
    while (current.failed) current = await this.#deps.rebuilt();
    adopt(current);
  }

  async #writeReleased(id: PartitionId, to: string, epoch: number): Promise<void> {
    await write(this.#deps.writable(), [[id, { kind: 'released', epoch, to }]]);
  }

  /** Deletes the rows of a partition after the operations that may still read or write them have ended. */
  async #clear(id: PartitionId): Promise<void> {
    await this.#deps.checkpointed();
    await this.#deps.leaseRequests()?.delivered();
    // An import that waits for this call clears the rows itself.
    if (!this.#deps.holdings.holds(id) && !this.#arriving.has(id)) await clearPartition(this.#deps.store, id);
  }
}

/** Forgets a partition that this node has just ceased to hold. */
function abandon(
  { leaseRequests, taskWaits, engineState }: Pick<PartitionsDeps, 'leaseRequests' | 'taskWaits' | 'engineState'>,
  id: PartitionId,
): void {
  leaseRequests()?.abandon(id);
  taskWaits()?.abandon(id);
  engineState()?.abandon(id);
}

type HolderOf = readonly [PartitionId, HolderRow];

const write = (engineState: EngineState, rows: readonly HolderOf[]): Promise<void> =>
  engineState.log.appendRows((batch) => putHolders(batch, rows));

function putHolders(batch: WriteBatch, rows: readonly HolderOf[]): void {
  for (const [id, row] of rows) {
    batch.put(Family.meta, metaKeys.holder(id), encodeHolderRow(row));
    if (row.kind === 'released') batch.put(Family.meta, metaKeys.clear(id), EMPTY);
  }
}
