import { type Partitions, Throttle } from '@taskmaster/engine';
import { type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { type Clock, type Log, type Random, sleep } from '@taskmaster/engine/ports';
import { Receiver } from './receiver.ts';
import { type HandedOver, type HandOffProgress, HandOffUnresolvedError, sendPartition, type Target } from './sender.ts';
import type { CallTarget, TransferHandlers } from './transfer-calls.ts';

export interface HandOffsDeps {
  readonly partitions: Partitions;
  readonly call: CallTarget;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly nodeId: string;
  /** gRPC address (`host:port`) of a member; undefined if unknown. */
  readonly addressOf: (nodeId: string) => string | undefined;
  /** Limit over all transfers from this node together; 0: no limit. */
  readonly bytesPerSecond: number;
  /** Called after each completed hand-off, with the time that callers waited, in ms. */
  readonly handedOver?: ((frozenMs: number) => void) | undefined;
}

/** Figures since the start of the node; `arriving` and `unresolved` are of now. */
export interface HandOffFigures {
  readonly sent: number;
  readonly failed: number;
  readonly rows: number;
  readonly bytes: number;
  readonly arriving: number;
  readonly unresolved: number;
}

const RESOLVE_MS = 2_000;
const MAX_RESOLVE_DELAY_MS = 2_000;
const FIRST_RESOLVE_DELAY_MS = 50;

/** Sends and receives partitions, and finds the outcome of hand-offs whose target gave no answer. */
export class HandOffs {
  readonly handlers: TransferHandlers;
  readonly #deps: HandOffsDeps;
  readonly #receiver: Receiver;
  readonly #throttle: Throttle;
  readonly #sending = new Map<PartitionId, HandOffProgress>();
  readonly #resolving = new Map<PartitionId, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #removed = new Set<string>();
  #figures = { sent: 0, failed: 0, rows: 0, bytes: 0 };

  constructor(deps: HandOffsDeps) {
    this.#deps = deps;
    this.#receiver = new Receiver(deps);
    this.handlers = this.#receiver;
    this.#throttle = new Throttle(deps.clock, deps.bytesPerSecond);
  }

  /** Asks for the outcome of hand-offs that the last run left open. */
  start(): void {
    for (const { id, state } of this.#deps.partitions.held()) if (state === 'handing-over') this.#resolve(id);
  }

  /** Partitions that this node is sending. */
  progress(): readonly HandOffProgress[] {
    return [...this.#sending.values()];
  }

  figures(): HandOffFigures {
    return { ...this.#figures, arriving: this.#receiver.arriving, unresolved: this.#resolving.size };
  }

  /**
   * Hands a partition over; resolves when the target holds it. Rejects if this node still serves it. Rejects with
   * `HandOffUnresolvedError` if the outcome is not known yet: see `settled`.
   */
  async send(id: PartitionId, target: Target, signal?: AbortSignal): Promise<HandedOver> {
    if (this.#sending.has(id)) throw new Refusal('PARTITION_MOVING', `partition ${id} is moving already`);
    const progress: HandOffProgress = {
      partition: id,
      to: target.nodeId,
      phase: 'snapshot',
      rows: 0,
      bytes: 0,
      atoms: 0,
    };
    const either = signal ? AbortSignal.any([signal, this.#stopping.signal]) : this.#stopping.signal;
    this.#sending.set(id, progress);
    try {
      const isRemoved = (nodeId: string): boolean => this.#removed.has(nodeId);
      const deps = { ...this.#deps, throttle: this.#throttle, isRemoved };
      const handed = await sendPartition(deps, progress, target, either);
      this.#count(handed);
      this.#deps.log.debug({ partition: id, to: target.nodeId, ...handed }, 'handed a partition over');
      return handed;
    } catch (error) {
      this.#figures.failed++;
      if (error instanceof HandOffUnresolvedError) this.#resolve(id, error.told);
      throw error;
    } finally {
      this.#sending.delete(id);
    }
  }

  /** Resolves when the outcome of every hand-off so far is known. */
  async settled(): Promise<void> {
    await Promise.all(this.#resolving.values());
  }

  /** Call this when the member was removed. Once it resolves, this node sends nothing to the member and takes nothing from it. */
  refuse(nodeId: string): Promise<void> {
    this.#removed.add(nodeId);
    return this.#receiver.refuseFrom(nodeId);
  }

  /**
   * Call this when the member is gone for good: this node again serves the partitions that the member may have taken.
   * `beyond` computes the new epoch from the partition's present one; it must be later than any that the member had. If
   * this rejects, some partitions are not served yet: call it again.
   */
  async resolveRemoved(nodeId: string, beyond: (epoch: number) => number = (epoch) => epoch + 2): Promise<void> {
    const { partitions } = this.#deps;
    await this.refuse(nodeId);
    const mayHave = partitions.held().filter(({ state, to }) => state === 'handing-over' && to === nodeId);
    await Promise.all(mayHave.map(({ id, epoch }) => partitions.thaw(id, beyond(epoch))));
  }

  /** Call this when this node is leaving. Once it resolves, the node takes no more partitions. */
  refuseArrivals(): Promise<void> {
    return this.#receiver.close();
  }

  /** Call this when this node stays after all. */
  acceptArrivals(): void {
    this.#receiver.open();
  }

  /** Ends running transfers; partitions stay where they are. */
  stop(): void {
    this.#stopping.abort(new Refusal('SHUTTING_DOWN', 'the node is shutting down'));
    this.#receiver.stop();
  }

  /** `told`: whether the target may have taken the partition. */
  #resolve(id: PartitionId, told = true): void {
    if (this.#resolving.has(id)) return;
    const resolving = this.#askUntilKnown(id, told).finally(() => this.#resolving.delete(id));
    this.#resolving.set(id, resolving);
    resolving.catch((error: unknown) => {
      if (!this.#stopping.signal.aborted)
        this.#deps.log.error({ err: error, partition: id }, 'could not find the outcome of a hand-off');
    });
  }

  async #askUntilKnown(id: PartitionId, told: boolean): Promise<void> {
    const { partitions, clock, log } = this.#deps;
    const { signal } = this.#stopping;
    for (let delayMs = FIRST_RESOLVE_DELAY_MS; ; delayMs = Math.min(MAX_RESOLVE_DELAY_MS, delayMs * 2)) {
      const holding = partitions.holding(id);
      if (holding?.kind !== 'handing-over') return;
      const { epoch, to } = holding;
      try {
        const taken = told && (await this.#ask(id, epoch + 1, to));
        // The member may have been removed meanwhile.
        if (partitions.holding(id) !== holding) continue;
        if (taken) await partitions.supersede(id, { nodeId: to, epoch: epoch + 1 });
        else await partitions.thaw(id);
        log.debug({ partition: id, to, taken }, 'a hand-off that was cut short is resolved');
        // If the state is unchanged, a removal is taking the partition back right now and may fail: look again.
        if (partitions.holding(id)?.kind !== 'handing-over') return;
      } catch (error) {
        log.debug({ err: error, partition: id, to }, 'the outcome of a hand-off is not known yet');
      }
      await sleep(clock, delayMs, signal);
    }
  }

  async #ask(partition: PartitionId, epoch: number, target: string): Promise<boolean> {
    const address = this.#deps.addressOf(target);
    if (address === undefined) throw new Error(`the address of node ${target} is not known`);
    const { signal } = this.#stopping;
    const request = { partition, epoch, target };
    const { taken } = await this.#deps.call(address, 'resolveOffer', request, { timeoutMs: RESOLVE_MS, signal });
    return taken;
  }

  #count({ frozenMs, rows, bytes }: HandedOver): void {
    const figures = this.#figures;
    this.#figures = {
      ...figures,
      sent: figures.sent + 1,
      rows: figures.rows + rows,
      bytes: figures.bytes + bytes,
    };
    this.#deps.handedOver?.(frozenMs);
  }
}
