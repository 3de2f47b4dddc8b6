import type { PartitionId } from '../domain/ids.ts';

/**
 * How long a node may answer from memory, in ms, after it last knew that its fence holds. Whenever it is told so, the store hears
 * of it. A partition of a fenced node is served again no earlier than this time after the store last heard of it. So no answer is
 * older than the first answer of the next holder.
 */
export const SURE_MS = 1_000;

/** A partition of a shared store. */
export interface SharedPartition {
  /** Name of the node that holds it. Undefined: none does. */
  readonly holder: string | undefined;
  /** Counts the changes from one holder to the next. 0: it was never held. */
  readonly epoch: number;
  /**
   * Time since its last holder was fenced, or since it was last heard before that, in ms. Undefined: the last holder gave it up
   * itself, or there was none. Its next holder serves it when this is at least `SURE_MS`.
   */
  readonly fencedMs: number | undefined;
}

/** A node that has used a shared store. */
export interface SharedNode {
  readonly name: string;
  /** One more with each process that takes the name, and with each `fence`. */
  readonly fence: number;
  /** When the node was last heard by the store, in ms, by the clock of the store. */
  readonly seenAt: number;
}

/** What the store says at one instant. */
export interface SharedState {
  /** By id. One that is missing was never held. */
  readonly partitions: readonly (SharedPartition | undefined)[];
  /** By name. */
  readonly nodes: ReadonlyMap<string, SharedNode>;
}

/** A partition that leaves this node. `to`: name of the next holder; undefined: none. */
export interface Gift {
  readonly id: PartitionId;
  readonly epoch: number;
  readonly to: string | undefined;
}

/**
 * Who holds the partitions of a store that several nodes share. The store decides: nothing else changes a holder. A process gets
 * its fence when it opens the store under its name. That fences the process that had the name before.
 *
 *  H1  Each epoch of a partition has at most one holder. A change of the holder increases the epoch.
 *  H2  `take` and `give` have an effect only while the fence of this process holds, as its writes do.
 *  H3  After `fence` resolves with true, no write, `take` or `give` of that process has an effect any more, not even one that it
 *      has sent already.
 *
 * Calls reject with `StoreLostError` once this process was fenced. Any other rejection leaves open whether the call has an
 * effect, and when: `read` tells what there is now, and the call may still be on its way. A `give` that comes when its epoch is
 * over changes nothing.
 */
export interface SharedHolders {
  /** The name of this node. */
  readonly self: string;
  /** Reads everything, and tells the store that this node is alive. */
  read(): Promise<SharedState>;
  /** Takes those of the partitions that have no holder. `read` tells which this node has afterwards. */
  take(ids: readonly PartitionId[]): Promise<void>;
  /**
   * Gives partitions up that this node holds at these epochs. All writes to them must be resolved before the call. The next
   * holder has the next epoch, also if it is this node; without one the epoch stays.
   */
  give(gifts: readonly Gift[]): Promise<void>;
  /**
   * Ends the power of another node to write, and takes its partitions from it: they have no holder then. False if its fence is
   * another one by now. How long this process has known that the store does not hear of the node counts as time since the
   * fence, unless the store has heard of it meanwhile.
   */
  fence(node: Pick<SharedNode, 'name' | 'fence'>): Promise<boolean>;
  /**
   * Undefined if this node knew less than `SURE_MS` ago that its fence holds. Otherwise resolves when it knows that again.
   * Answers that depend on what memory has, and commit nothing, wait for this.
   */
  confirm(): Promise<void> | undefined;
}
