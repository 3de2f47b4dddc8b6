import type { Instant, PartitionId, QueueId, Ticket } from '@taskmaster/server/domain';
import type { Clock } from '@taskmaster/server/ports';
import { afterPrefix, metaKeys, partitionOfMetaKey } from '../../domain/keys.ts';
import { encodeHolderRow, type HolderRow } from '../../log/holder-row.ts';
import { encodePartitionRow, ticketBehindEarlierLives } from '../../log/partition-row.ts';
import { newPartition, recover } from '../../log/replay.ts';
import { scanAll } from '../../log/scan-all.ts';
import { Family, type KeyRange, type Store, StoreFullError } from '../../ports/store.ts';
import { WriteBatch } from '../../ports/write-batch.ts';
import type { EngineConfig } from '../config.ts';
import type { EngineState } from '../engine-state.ts';
import type { Holding, Holdings } from '../holdings.ts';
import type { LeaseRequests } from '../leasing/lease-requests.ts';
import type { HeldPartition, PartitionClaim, PartitionHost, PartitionLocation } from './partition-host.ts';
import { clearPartition } from './transfer/clear-partition.ts';
import { ExportBrokenError, PartitionExport } from './transfer/export-partition.ts';
import { ImportBrokenError, PartitionImport } from './transfer/import-partition.ts';

const EMPTY = new Uint8Array(0);

/** The engine, as far as partitions come and go in it. */
export interface PartitionsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: EngineConfig;
  readonly holdings: Holdings;
  readonly memory: () => EngineState | undefined;
  /** Throws a `Refusal` while nothing can be written. */
  readonly writable: () => EngineState;
  readonly leaseRequests: () => LeaseRequests | undefined;
  /** Resolves when the checkpoint that is being written is over, well or not. */
  readonly checkpointed: () => Promise<void>;
  /** After a failed write: the memory that is built again, once it is there. Rejects where the engine stops before. */
  readonly rebuilt: () => Promise<EngineState>;
  /** Rows that a partition brought along can be deleted. */
  readonly reap: () => Promise<void>;
}

/** What the target is told about a partition that it is to take. */
export interface HandOverTotals {
  readonly lastTicket: Ticket;
  readonly tasks: number;
}

/** What an offer says of the partition; see `OfferPartitionRequest`. */
export interface OfferedPartition {
  readonly id: PartitionId;
  readonly epoch: number;
  /** The holder's clock, when it made the offer. */
  readonly now: Instant;
  readonly ticket: Ticket;
  readonly nextQueueId: QueueId;
}

/**
 * The partitions of an engine: how they come, go and change their state. Each change of a holder is durable before
 * anything acts upon it, and goes through the commit log, so that it has its place among the atoms.
 */
export class Partitions implements PartitionHost {
  readonly #deps: PartitionsDeps;
  /** Rows of partitions that were given up are being deleted. */
  readonly #clearing = new Map<PartitionId, Promise<void>>();
  readonly #thawing = new Set<PartitionId>();
  /** Imports that began last; one that ended in nothing stays until the partition comes here. */
  readonly #arriving = new Map<PartitionId, PartitionImport>();
  /** Partitions that begin anew here: nothing may arrive of them. */
  readonly #claiming = new Set<PartitionId>();
  /** Whether the disk names this node as the holder is not known: the write of the row failed, or is under way. */
  readonly #uncertain = new Set<PartitionId>();
  /** Partitions that were given up at this epoch, while the disk may still name this node. */
  readonly #unreleased = new Map<PartitionId, number>();
  /** Whether the rows that were read at the start are on disk: they may show without being so. */
  #startIsDurable = false;

  constructor(deps: PartitionsDeps) {
    this.#deps = deps;
  }

  /** How many there are in all, held or not. */
  get count(): number {
    return this.#deps.config.partitions;
  }

  held(): readonly HeldPartition[] {
    const held: HeldPartition[] = [];
    for (const [id, holding] of this.#deps.holdings.entries()) {
      if (holding.kind === 'released') continue;
      const { queues, tasks } = this.#sizeOf(id);
      const to = holding.kind === 'serving' ? undefined : holding.to;
      held.push({ id, epoch: holding.epoch, state: holding.kind, to, queues, tasks });
    }
    return held.sort((a, b) => a.id - b.id);
  }

  holds(id: PartitionId): boolean {
    return this.#deps.holdings.holds(id);
  }

  /** In a partition that is held. */
  tasksIn(id: PartitionId): number {
    return this.#sizeOf(id).tasks;
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
      // What is on its way here, or just about to begin, would write into it or clear it.
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
    // What could not be cleared when it was given up must not come back, nor what an unfinished import left.
    for (const id of wanted.keys()) if (holdings.get(id) || this.#arriving.has(id)) await clearPartition(store, id);
    // A store that served without a cluster has them already, with what is in them.
    const { partitions } = await recover(store, config.requestIdWindowMs, (id) => wanted.has(id));
    const memory = this.#deps.writable();
    const begun = [...wanted.keys()].filter((id) => !partitions.has(id));
    const behind = ticketBehindEarlierLives(memory.clock.now());
    // What is written here comes behind what is uncertain.
    for (const id of wanted.keys()) {
      this.#uncertain.delete(id);
      this.#unreleased.delete(id);
    }
    // Where batches are not atomic, the holder's row must not survive alone.
    if (!store.atomicBatches) await memory.log.appendRows((batch) => putBegun(batch, begun, behind));
    await memory.log.appendRows((batch) => {
      if (store.atomicBatches) putBegun(batch, begun, behind);
      putHolders(
        batch,
        [...wanted].map(([id, epoch]) => [id, { kind: 'serving', epoch }]),
      );
    });
    await this.#adopt(memory, (current) => {
      for (const id of wanted.keys()) {
        this.#arriving.delete(id);
        current.adopt(id, partitions.get(id) ?? newPartition(behind));
      }
      holdings.serveAll(wanted);
    });
  }

  async supersede(id: PartitionId, by: { readonly nodeId: string; readonly epoch: number }): Promise<void> {
    const holding = this.#deps.holdings.get(id);
    if (!holding) return;
    if (holding.epoch < by.epoch) await this.release(id, by.nodeId, by.epoch);
    else if (this.#unreleased.has(id) && holding.kind === 'released')
      await this.#putAway(id, holding.to, holding.epoch);
  }

  /** Deletes what earlier runs left of partitions that are not held. */
  async clearLeftovers(): Promise<void> {
    const { store, holdings } = this.#deps;
    if (!holdings.everything) await this.#syncStart();
    const range: KeyRange = { gte: 'clear/' as KeyRange['gte'], lt: afterPrefix('clear/') };
    for await (const { key } of scanAll(store, Family.meta, range)) {
      const id = partitionOfMetaKey(key);
      if (!holdings.holds(id)) await clearPartition(store, id);
    }
  }

  /** A snapshot and the log behind it, of a partition that is served. */
  export(id: PartitionId): PartitionExport {
    const { holdings, writable } = this.#deps;
    if (!holdings.canCommit(id)) throw new ExportBrokenError(`partition ${id} is not served here`);
    return new PartitionExport(writable(), id);
  }

  /** Callers wait from now on, and nothing of the partition changes. */
  freeze(id: PartitionId): void {
    const { holdings } = this.#deps;
    const holding = holdings.get(id);
    if (holding?.kind !== 'serving') throw new ExportBrokenError(`partition ${id} is not served here`);
    holdings.freeze(id, holding.epoch);
  }

  /** Of a frozen partition: resolves when all of it is durable, and that `to` may take it. */
  async handOver(id: PartitionId, to: string): Promise<HandOverTotals> {
    const { holdings, writable } = this.#deps;
    const holding = holdings.get(id);
    if (holding?.kind !== 'frozen') throw new ExportBrokenError(`partition ${id} is not frozen`);
    const memory = writable();
    const { lastTicket } = memory.ticketsOf(id);
    const { tasks } = this.#sizeOf(id);
    // Callers must not be served any more from the moment at which this may be on disk.
    holdings.handOver(id, to);
    await write(memory, [[id, { kind: 'handing-over', epoch: holding.epoch, to }]]);
    return { lastTicket, tasks };
  }

  /** Serves a frozen partition again: nobody took it, nor ever will at an epoch below this one. */
  async thaw(id: PartitionId, epoch?: number): Promise<void> {
    const { holdings } = this.#deps;
    const holding = holdings.get(id);
    if (holding?.kind === 'frozen') return holdings.serve(id, holding.epoch);
    // One at a time: rows of two would be in the order of the calls, and memory in that of their ends.
    if (holding?.kind !== 'handing-over' || this.#thawing.has(id)) return;
    this.#thawing.add(id);
    try {
      const next = epoch ?? holding.epoch;
      await write(this.#deps.writable(), [[id, { kind: 'serving', epoch: next }]]);
      // It may have been given up meanwhile, with a row behind this one.
      if (holdings.get(id) === holding) holdings.serve(id, next);
    } finally {
      this.#thawing.delete(id);
    }
  }

  /** Callers are refused, not held, until the partition is served again or given up. */
  stall(id: PartitionId): void {
    this.#deps.holdings.stall(id);
  }

  /** Gives the partition up: `to` has it, at that epoch. When it rejects, that is so, but perhaps not on disk. */
  async release(id: PartitionId, to: string, epoch: number): Promise<void> {
    const { holdings, leaseRequests, memory } = this.#deps;
    const earlier = holdings.get(id);
    if (earlier?.kind === 'released' && earlier.epoch >= epoch) return;
    // Not a moment later: somebody else may be changing it by now.
    holdings.release(id, epoch, to);
    leaseRequests()?.abandon(id);
    memory()?.abandon(id);
    await this.#putAway(id, to, epoch);
  }

  /** What was given up is so on disk as well when it resolves; its rows are deleted later. */
  async #putAway(id: PartitionId, to: string, epoch: number): Promise<void> {
    this.#unreleased.set(id, epoch);
    const written = this.#writeReleased(id, to, epoch);
    // In this turn: whoever brings the partition back waits for the whole of it.
    const cleared = Promise.all([written, this.#clearing.get(id)])
      .then(() => this.#clear(id))
      // What is left then is cleared at the next start.
      .catch(() => {})
      .finally(() => {
        if (this.#clearing.get(id) === cleared) this.#clearing.delete(id);
      });
    this.#clearing.set(id, cleared);
    await written;
    if (this.#unreleased.get(id) === epoch) this.#unreleased.delete(id);
  }

  /** Prepares to receive a partition. */
  async import({ id, epoch, now, ticket, nextQueueId }: OfferedPartition): Promise<PartitionImport> {
    const { clock, config, store } = this.#deps;
    const shiftMs = clock.now() - now;
    const { requestIdWindowMs: requestWindowMs } = config;
    const options = { store, partition: id, epoch, shiftMs, ticket, nextQueueId, requestWindowMs };
    if (this.#claiming.has(id)) throw new ImportBrokenError(`partition ${id} begins anew here`);
    const arriving = new PartitionImport({ ...options, now: () => clock.now() });
    this.#arriving.get(id)?.end();
    this.#arriving.set(id, arriving);
    await this.#clearing.get(id);
    await arriving.begin();
    return arriving;
  }

  /**
   * Holds a partition whose import is complete; resolves when that is durable. When it rejects the partition is not held,
   * and the disk may say otherwise: see `settle`.
   */
  async take(arrived: PartitionImport): Promise<void> {
    const { holdings, writable } = this.#deps;
    const { partition, epoch, recovered } = arrived;
    arrived.assertGoesOn();
    const memory = writable();
    // Where batches are not atomic, the holder's row must not survive alone. Callers wait: no more writes than it takes.
    const { atomicBatches } = this.#deps.store;
    if (!atomicBatches) await memory.log.appendRows((rows) => arrived.writeState(rows));
    await this.#writeHolder(memory, arrived, (rows) => {
      if (atomicBatches) arrived.writeState(rows);
      arrived.writeHolder(rows);
    });
    await this.#adopt(memory, (current) => {
      this.#uncertain.delete(partition);
      this.#arriving.delete(partition);
      current.adopt(partition, recovered);
      current.requests.adopt(arrived.requests, !arrived.requestsLeftOut, current.clock.now());
      holdings.serve(partition, epoch);
    });
    void this.#deps.reap();
  }

  /**
   * Resolves when the disk says of the partition what `holding` does, so that another node may act upon it. Rejects while
   * that cannot be known: after a failed write only a restart tells what is on disk.
   */
  async settle(id: PartitionId): Promise<void> {
    if (this.#startIsDurable && !this.#uncertain.has(id)) return;
    const { holdings, writable } = this.#deps;
    const holding = holdings.get(id);
    await writable().log.appendRows((rows) => {
      if (!this.#uncertain.has(id)) return;
      if (holding?.kind === 'released') rows.put(Family.meta, metaKeys.holder(id), encodeHolderRow(holding));
      else rows.delete(Family.meta, metaKeys.holder(id));
      rows.put(Family.meta, metaKeys.clear(id), EMPTY);
    });
    this.#uncertain.delete(id);
    this.#startIsDurable = true;
  }

  async #syncStart(): Promise<void> {
    try {
      await this.#deps.store.write(new WriteBatch(), { sync: true });
      this.#startIsDurable = true;
    } catch (error) {
      // A full disk keeps nobody from starting; whoever must know for certain tries again.
      if (!(error instanceof StoreFullError)) throw error;
    }
  }

  async #writeHolder(
    memory: EngineState,
    { partition }: PartitionImport,
    fill: (rows: WriteBatch) => void,
  ): Promise<void> {
    this.#uncertain.add(partition);
    this.#unreleased.delete(partition);
    try {
      await memory.log.appendRows(fill);
    } catch (error) {
      // The store promises that nothing of such a batch is there.
      if (error instanceof StoreFullError && this.#deps.store.atomicBatches) this.#uncertain.delete(partition);
      throw error;
    }
  }

  /**
   * Of what is on disk, in one turn with its being served. Memory that is being built again reads what is held, and
   * this is not yet: it is told once it is there.
   */
  async #adopt(memory: EngineState, adopt: (current: EngineState) => void): Promise<void> {
    let current = memory;
    while (current.failed) current = await this.#deps.rebuilt();
    adopt(current);
  }

  async #writeReleased(id: PartitionId, to: string, epoch: number): Promise<void> {
    await write(this.#deps.writable(), [[id, { kind: 'released', epoch, to }]]);
  }

  /** Not before everybody who reads the rows, or may still write some, is through. */
  async #clear(id: PartitionId): Promise<void> {
    await this.#deps.checkpointed();
    await this.#deps.leaseRequests()?.delivered();
    // An import that waits for this clears what is left itself.
    if (!this.#deps.holdings.holds(id) && !this.#arriving.has(id)) await clearPartition(this.#deps.store, id);
  }

  #sizeOf(id: PartitionId): { queues: number; tasks: number } {
    const queues = this.#deps.memory()?.queuesOf(id);
    let tasks = 0;
    for (const { ledger } of queues ?? []) tasks += ledger.size;
    return { queues: queues?.size ?? 0, tasks };
  }
}

type HolderOf = readonly [PartitionId, HolderRow];

const write = (memory: EngineState, rows: readonly HolderOf[]): Promise<void> =>
  memory.log.appendRows((batch) => putHolders(batch, rows));

function putHolders(batch: WriteBatch, rows: readonly HolderOf[]): void {
  for (const [id, row] of rows) {
    batch.put(Family.meta, metaKeys.holder(id), encodeHolderRow(row));
    if (row.kind === 'released') batch.put(Family.meta, metaKeys.clear(id), EMPTY);
  }
}

/** Recovery must know where the log of a partition begins. */
function putBegun(batch: WriteBatch, ids: readonly PartitionId[], appliedTicket: Ticket): void {
  const { nextQueueId } = newPartition();
  for (const id of ids) {
    batch.put(Family.meta, metaKeys.partition(id), encodePartitionRow({ appliedTicket, nextQueueId }));
  }
}
