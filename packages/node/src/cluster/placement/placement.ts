import type { Members } from '@taskmaster/server/cluster-view';
import { type Instant, type PartitionId, Refusal } from '@taskmaster/server/domain';
import { type CancelTimer, type Clock, type Log, PeerUnreachableError } from '@taskmaster/server/ports';
import type { Partitions } from '../../engine/partitions/partitions.ts';
import type { HandOffs } from './handoff/hand-offs.ts';
import { HandOffUnresolvedError } from './handoff/sender.ts';

export interface PlacementDeps {
  readonly partitions: Partitions;
  readonly handOffs: HandOffs;
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeId: string;
  readonly members: () => Members;
  /** Transfers from this node at once. */
  readonly transfersAtOnce: number;
}

/** What moves a partition with at most so many tasks is waiting for disks and messages: four of them count as one. */
const FEW_TASKS = 1_000;
const PART_OF_FEW = 0.25;
const FIRST_RETRY_MS = 200;
const MAX_RETRY_MS = 10_000;
/** Who waits so long before the next try has failed five times. */
const LASTING_MS = 3_000;
/** What fails for one partition mostly fails for many. */
const WARN_EVERY_MS = 10_000;

/** Hands over what this node holds and the ring wants elsewhere: a few at a time, again after a while where it failed. */
export class Placement {
  readonly #deps: PlacementDeps;
  /** With what each counts for, of `transfersAtOnce`. */
  readonly #sending = new Map<PartitionId, number>();
  /** Partitions whose hand-off failed, with when to try again. */
  readonly #failed = new Map<PartitionId, { readonly at: number; readonly delayMs: number }>();
  #desired: readonly string[] = [];
  #addressOf: (nodeId: string) => string | undefined = () => undefined;
  #cancelTimer: CancelTimer = () => {};
  /** Members that a drain of this node was said to wait for. */
  #saidToWaitFor = '';
  #mayWarnAt = Number.NEGATIVE_INFINITY;
  #stopped = false;

  constructor(deps: PlacementDeps) {
    this.#deps = deps;
  }

  /** Partitions on their way. */
  get sending(): number {
    return this.#sending.size;
  }

  /** What should be where, by partition, and where nodes are; undefined for those that cannot take anything now. */
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
      // Those behind it wait, too: many small ones must not keep a large one from its turn.
      if (!this.#hasRoomFor(part)) return;
      void this.#send(id, part, wanted, address);
    }
    this.#sayWhomTheDrainWaitsFor(missing);
    if (next < Number.POSITIVE_INFINITY) this.#cancelTimer = clock.at(next as Instant, () => this.#sendMore());
  }

  #hasRoomFor(part: number): boolean {
    let taken = 0;
    for (const one of this.#sending.values()) taken += one;
    return taken + part <= this.#deps.transfersAtOnce;
  }

  /** A node that stays has time; one that leaves needs all whose share it has, which nobody would think of. */
  #sayWhomTheDrainWaitsFor(missing: ReadonlySet<string>): void {
    const { nodeId, log } = this.#deps;
    const members = this.#deps.members();
    const isLeaving = members.get(nodeId)?.state === 'leaving';
    const names = isLeaving ? [...missing].map((id) => members.get(id)?.name ?? id).sort() : [];
    const said = names.join(', ');
    if (said === this.#saidToWaitFor) return;
    this.#saidToWaitFor = said;
    if (said === '') return;
    const message = `this node cannot leave before it has handed over what goes to ${said}: start it, or give it up`;
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
   * Nodes that move partitions hear of each other's moves a little later, and refuse some until then. What goes on for
   * longer, or is a fault of this node, is for people.
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
