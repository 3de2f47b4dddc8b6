import type { PartitionId } from './domain/ids.ts';
import { Refusal } from './domain/refusal.ts';
import type { HolderRow } from './log/holder-row.ts';
import type { PartitionLocation } from './partitions/partition-host.ts';

/** Retry delay for callers of a partition whose hand-over hangs. */
const MOVING_RETRY_MS = 100;
/** Retry delay for callers of a node that is checking whether it is still a member. */
const PAUSED_RETRY_MS = 500;

type Freeze = {
  readonly epoch: number;
  /** Resolves when the freeze ends, with any result. */
  readonly over: PromiseWithResolvers<void>;
  /** True if callers are refused instead of waiting. */
  stalled: boolean;
};

/** A partition that this node holds or has held. */
export type Holding =
  | { readonly kind: 'serving'; readonly epoch: number }
  | ({ readonly kind: 'frozen'; readonly to: undefined } & Freeze)
  | ({ readonly kind: 'handing-over'; readonly to: string } & Freeze)
  | { readonly kind: 'released'; readonly epoch: number; readonly to: string };

/**
 * Tells which partitions this node may change now. Operations ask in the turn in which they are decided and committed. An
 * earlier check would not be enough: after a pause the node could change a partition that it no longer holds.
 */
export class Holdings {
  /** Undefined without a cluster: then the node holds all partitions. */
  readonly #byPartition: Map<PartitionId, Holding> | undefined;
  readonly #listeners = new Set<(changed: readonly PartitionId[]) => void>();
  #locate: (id: PartitionId) => PartitionLocation | undefined = () => undefined;
  #guard: () => Promise<void> | undefined = () => undefined;

  /** `rows`: undefined without a cluster. */
  constructor(rows: ReadonlyMap<PartitionId, HolderRow> | undefined) {
    if (!rows) return;
    this.#byPartition = new Map();
    for (const [id, row] of rows) this.#byPartition.set(id, holdingOf(row));
  }

  get everything(): boolean {
    return this.#byPartition === undefined;
  }

  /** Undefined if the partition may be changed in this turn. Otherwise resolves when to call again, or rejects. */
  gate(id: PartitionId): Promise<void> | undefined {
    if (!this.#byPartition) return undefined;
    const holding = this.#byPartition.get(id);
    switch (holding?.kind) {
      case 'serving':
        return this.#guard();
      case 'frozen':
      case 'handing-over':
        return holding.stalled ? Promise.reject(movingRefusal(id)) : holding.over.promise;
      case 'released':
      case undefined:
        return Promise.reject(this.notHolder(id));
      default:
        return holding satisfies never;
    }
  }

  /** True if the partition may be changed in this turn. */
  canCommit(id: PartitionId): boolean {
    if (!this.#byPartition) return true;
    return this.#byPartition.get(id)?.kind === 'serving' && this.#guard() === undefined;
  }

  /** Undefined if the guard allows commits in this turn. Otherwise resolves when to look again, or rejects. */
  get guarded(): Promise<void> | undefined {
    return this.#guard();
  }

  /** True if this node holds the partition, in any state. */
  holds(id: PartitionId): boolean {
    if (!this.#byPartition) return true;
    const kind = this.#byPartition.get(id)?.kind;
    return kind !== undefined && kind !== 'released';
  }

  /** The partitions of which memory has everything. With a shared store, another node may have what is being handed over. */
  inMemory(): PartitionId[] {
    const here = ({ kind }: Holding): boolean => kind === 'serving' || kind === 'frozen';
    return [...this.entries()].flatMap(([id, holding]) => (here(holding) ? [id] : []));
  }

  get(id: PartitionId): Holding | undefined {
    return this.#byPartition?.get(id);
  }

  entries(): Iterable<[PartitionId, Holding]> {
    return this.#byPartition ?? [];
  }

  serve(id: PartitionId, epoch: number): void {
    this.serveAll([[id, epoch]]);
  }

  /** Serves many partitions and calls each listener once, because each listener looks at all partitions. */
  serveAll(partitions: Iterable<readonly [id: PartitionId, epoch: number]>): void {
    const changed: PartitionId[] = [];
    for (const [id, epoch] of partitions) {
      this.#put(id, { kind: 'serving', epoch });
      changed.push(id);
    }
    this.#changed(changed);
  }

  freeze(id: PartitionId, epoch: number): void {
    this.#set(id, { kind: 'frozen', to: undefined, epoch, over: Promise.withResolvers(), stalled: false });
  }

  /** Lets `to` take the frozen partition from now on. The partition stays frozen. */
  handOver(id: PartitionId, to: string): void {
    const holding = this.get(id);
    if (holding?.kind !== 'frozen') throw new Error(`partition ${id} is handed over without being frozen`);
    this.#byPartition?.set(id, { ...holding, kind: 'handing-over', to });
    this.#changed([id]);
  }

  release(id: PartitionId, epoch: number, to: string): void {
    this.#set(id, { kind: 'released', epoch, to });
  }

  /** This node does not hold the partition, and does not know who does. */
  forget(id: PartitionId): void {
    const earlier = this.get(id);
    this.#byPartition?.delete(id);
    if (earlier?.kind === 'frozen' || earlier?.kind === 'handing-over') earlier.over.resolve();
    this.#changed([id]);
  }

  /** Refuses callers of a frozen partition from now on. */
  stall(id: PartitionId): void {
    const holding = this.get(id);
    if (holding?.kind !== 'frozen' && holding?.kind !== 'handing-over') return;
    holding.stalled = true;
    holding.over.resolve();
  }

  locate(find: (id: PartitionId) => PartitionLocation | undefined): void {
    this.#locate = find;
  }

  guard(check: () => Promise<void> | undefined): void {
    this.#guard = check;
  }

  onChange(listener: (changed: readonly PartitionId[]) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  notHolder(id: PartitionId): Refusal {
    const at = this.#locate(id);
    const metadata: Record<string, string> = { partition: String(id) };
    if (at) Object.assign(metadata, { holder: at.address, node_id: at.nodeId, epoch: String(at.epoch) });
    const whose = at ? `${at.address} does` : 'its holder is not known';
    return new Refusal('NOT_HOLDER', `this node does not hold partition ${id}: ${whose}`, { metadata });
  }

  /** The refusal for a partition that may not be changed in this turn. If it is serving, the process has just been paused. */
  refusal(id: PartitionId): Refusal {
    if (this.get(id)?.kind !== 'serving') return this.notHolder(id);
    return new Refusal('STARTING', 'this node was paused and is checking whether it is still a member', {
      retryDelayMs: PAUSED_RETRY_MS,
    });
  }

  #set(id: PartitionId, next: Holding): void {
    this.#put(id, next);
    this.#changed([id]);
  }

  #put(id: PartitionId, next: Holding): void {
    const earlier = this.#byPartition?.get(id);
    this.#byPartition?.set(id, next);
    if (earlier?.kind === 'frozen' || earlier?.kind === 'handing-over') earlier.over.resolve();
  }

  #changed(ids: readonly PartitionId[]): void {
    for (const listener of this.#listeners) listener(ids);
  }
}

const movingRefusal = (id: PartitionId): Refusal =>
  new Refusal('PARTITION_MOVING', `partition ${id} is being handed over`, {
    metadata: { partition: String(id) },
    retryDelayMs: MOVING_RETRY_MS,
  });

function holdingOf(row: HolderRow): Holding {
  // An earlier run allowed the target to take it. Callers are refused until it is known whether the target has.
  if (row.kind === 'handing-over') return { ...row, over: Promise.withResolvers(), stalled: true };
  return row;
}
