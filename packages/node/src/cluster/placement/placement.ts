import type { Partitions } from '@taskmaster/engine';
import { type Instant, type PartitionId, Refusal } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock, Log } from '@taskmaster/engine/ports';
import type { Members } from '@taskmaster/server/cluster-view';
import { PeerUnreachableError } from '@taskmaster/server/ports';
import type { HandOffs } from './handoff/hand-offs.ts';
import { HandOffUnresolvedError } from './handoff/sender.ts';

export interface PlacementDeps {
  readonly partitions: Partitions;
  readonly handOffs: HandOffs;
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeId: string;
  readonly members: () => Members;
  /** Maximum number of concurrent transfers from this node. */
  readonly maxConcurrentTransfers: number;
}

/** A transfer of a partition with at most this many tasks mostly waits for disks and messages: four count as one. */
const FEW_TASKS = 1_000;
const PART_OF_FEW = 0.25;
const FIRST_RETRY_MS = 200;
const MAX_RETRY_MS = 10_000;
/** A retry delay of this length or more means five failures: worth a warning. */
const LASTING_MS = 3_000;
/** Shortest time between two warnings: a failure for one partition is usually a failure for many. */
const WARN_EVERY_MS = 10_000;

/** Hands over partitions that the ring assigns to other nodes: a few at a time, with retries. */
export class Placement {
  readonly #deps: PlacementDeps;
  /** Running transfers, each with the share of `maxConcurrentTransfers` that it uses. */
  readonly #sending = new Map<PartitionId, number>();
  /** Partitions whose hand-off failed, with the time of the next attempt. */
  readonly #failed = new Map<PartitionId, { readonly at: number; readonly delayMs: number }>();
  #desired: readonly string[] = [];
  #addressOf: (nodeId: string) => string | undefined = () => undefined;
  #cancelTimer: CancelTimer = () => {};
  /** Names in the last warning that a drain waits for members; empty: none. */
  #saidToWaitFor = '';
  #mayWarnAt = Number.NEGATIVE_INFINITY;
  #stopped = false;

  constructor(deps: PlacementDeps) {
    this.#deps = deps;
  }

  /** Number of running transfers. */
  get sending(): number {
    return this.#sending.size;
  }

  /** `desired`: node id by partition. `addressOf`: a node's address; undefined if it cannot take partitions now. */
  update(desired: readonly string[], addressOf: (nodeId: string) => string | undefined): void {
    this.#desired = desired;
    this.#addressOf = addressOf;
    this.#sendMore();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  #sendMore(): void {
    const { partitions, clock, nodeId } = this.#deps;
    this.#cancelTimer();
    let next = Number.POSITIVE_INFINITY;
    const missing = new Set<string>();
    for (const [index, wanted] of this.#desired.entries()) {
      if (this.#stopped || !this.#hasRoomFor(PART_OF_FEW)) return;
      const id = index as PartitionId;
      if (wanted === nodeId || this.#sending.has(id) || partitions.holding(id)?.kind !== 'serving') continue;
      const address = this.#addressOf(wanted);
      if (address === undefined) {
        missing.add(wanted);
        continue;
      }
      const failed = this.#failed.get(id);
      if (failed && failed.at > clock.now()) {
        next = Math.min(next, failed.at);
        continue;
      }
      const part = partitions.tasksIn(id) <= FEW_TASKS ? PART_OF_FEW : 1;
      // Later partitions wait too: otherwise many small ones could delay a large one forever.
      if (!this.#hasRoomFor(part)) return;
      void this.#send(id, part, wanted, address);
    }
    this.#sayWhomTheDrainWaitsFor(missing);
    if (next < Number.POSITIVE_INFINITY) this.#cancelTimer = clock.at(next as Instant, () => this.#sendMore());
  }

  #hasRoomFor(part: number): boolean {
    let taken = 0;
    for (const one of this.#sending.values()) taken += one;
    return taken + part <= this.#deps.maxConcurrentTransfers;
  }

  /** Warns if this node is leaving and a member that must take partitions is down. Otherwise the node just waits. */
  #sayWhomTheDrainWaitsFor(missing: ReadonlySet<string>): void {
    const { nodeId, log } = this.#deps;
    const members = this.#deps.members();
    const isLeaving = members.get(nodeId)?.state === 'leaving';
    const names = isLeaving ? [...missing].map((id) => members.get(id)?.name ?? id).sort() : [];
    const said = names.join(', ');
    if (said === this.#saidToWaitFor) return;
    this.#saidToWaitFor = said;
    if (said === '') return;
    const message = `this node cannot leave before it has handed partitions over to ${said}: start it, or remove it`;
    log.warn({ members: names }, message);
  }

  async #send(id: PartitionId, part: number, to: string, address: string): Promise<void> {
    const { handOffs, clock } = this.#deps;
    this.#sending.set(id, part);
    try {
      await handOffs.send(id, { nodeId: to, address });
      this.#failed.delete(id);
    } catch (error) {
      const delayMs = Math.min(MAX_RETRY_MS, (this.#failed.get(id)?.delayMs ?? FIRST_RETRY_MS / 2) * 2);
      this.#failed.set(id, { at: clock.now() + delayMs, delayMs });
      if (!this.#stopped) this.#sayFailed(id, to, delayMs, error);
    } finally {
      this.#sending.delete(id);
    }
    this.#sendMore();
  }

  /**
   * Nodes hear of each other's moves with a delay and refuse some hand-offs until then. Only failures that last, or that
   * this node caused, are warnings.
   */
  #sayFailed(partition: PartitionId, to: string, delayMs: number, error: unknown): void {
    const { log, clock, members } = this.#deps;
    const isAnswer =
      error instanceof Refusal || error instanceof HandOffUnresolvedError || error instanceof PeerUnreachableError;
    const problem = error instanceof Error ? error.message : String(error);
    const target = members().get(to)?.name ?? to;
    const details = { partition, to: target, delayMs, ...(isAnswer ? { problem } : { err: error }) };
    const isLasting = delayMs >= LASTING_MS || !isAnswer;
    if (!isLasting || clock.now() < this.#mayWarnAt) {
      log.debug(details, 'a partition could not be handed over');
      return;
    }
    this.#mayWarnAt = clock.now() + WARN_EVERY_MS;
    log.warn(details, `a partition could not be handed over to ${target}: ${problem}`);
  }
}
