import type { PartitionImport, Partitions } from '@taskmaster/engine';
import { type Instant, type PartitionId, type QueueId, Refusal, type Ticket } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock, Log, Random } from '@taskmaster/engine/ports';
import {
  DATA_FORMAT,
  type OfferPartitionRequest,
  type OfferPartitionResponse,
  type ResolveOfferRequest,
  type ResolveOfferResponse,
  type SendAtomsRequest,
  type SendRowsRequest,
  type TakePartitionRequest,
} from '@taskmaster/proto';
import type { TransferHandlers } from './transfer-calls.ts';

/** A transfer that receives no part for this time is forgotten; its holder starts a new one. */
const IDLE_MS = 60_000;
const MAX_TRANSFERS = 64;

export interface ReceiverDeps {
  readonly partitions: Partitions;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly nodeId: string;
}

interface Transfer {
  readonly id: string;
  /** Id of the sending node. */
  readonly holder: string;
  readonly arriving: PartitionImport;
  /** Number of the last part that was applied. */
  sequence: number;
  /** Settles when the last part is applied: parts are applied one after the other. */
  last: Promise<void>;
  cancelIdle: CancelTimer;
}

/**
 * The target's side of a hand-off.
 *
 *  T1  A transfer applies parts in the order of their numbers, each once, even if the network repeats or reorders them.
 *  T2  After ResolveOffer has answered no, the transfer never takes the partition: it is forgotten, and its random id is
 *      never used again. A restart forgets all transfers.
 *  T3  An answer to ResolveOffer is on disk before it is sent: every later start finds the same.
 */
export class Receiver implements TransferHandlers {
  readonly #deps: ReceiverDeps;
  readonly #transfers = new Map<string, Transfer>();
  /** The last offer or ResolveOffer call of each partition: they run one after the other. */
  readonly #turns = new Map<PartitionId, Promise<unknown>>();
  /** Ids of removed nodes. */
  readonly #removed = new Set<string>();
  #closed = false;

  constructor(deps: ReceiverDeps) {
    this.#deps = deps;
  }

  /** Number of partitions that are arriving here. */
  get arriving(): number {
    return this.#transfers.size;
  }

  readonly offerPartition = (offer: OfferPartitionRequest): Promise<OfferPartitionResponse> => {
    this.#assertSelf(offer.target);
    const id = offer.partition as PartitionId;
    return this.#inTurn(id, () => this.#begin(id, offer));
  };

  readonly sendRows = async ({ transfer, sequence, rows }: SendRowsRequest): Promise<Record<string, never>> => {
    await this.#part(transfer, sequence, ({ arriving }) => arriving.addRows(rows));
    return {};
  };

  readonly sendAtoms = async ({ transfer, sequence, atoms }: SendAtomsRequest): Promise<Record<string, never>> => {
    await this.#part(transfer, sequence, ({ arriving }) =>
      atoms.length > 0 ? arriving.addAtoms(atoms) : arriving.sync(),
    );
    return {};
  };

  readonly takePartition = async (request: TakePartitionRequest): Promise<Record<string, never>> => {
    const { transfer: id, sequence, atoms, lastTicket, tasks } = request;
    await this.#part(id, sequence, async (transfer) => {
      const { arriving } = transfer;
      const { partitions, clock, log } = this.#deps;
      const began = clock.now();
      await arriving.addAtoms(atoms);
      arriving.assertComplete(lastTicket, tasks);
      await partitions.take(arriving);
      this.#forget(transfer);
      const { partition, epoch } = arriving;
      log.debug({ partition, epoch, tasks, tookMs: clock.now() - began }, 'took over a partition');
    });
    return {};
  };

  readonly resolveOffer = async ({ partition, epoch, target }: ResolveOfferRequest): Promise<ResolveOfferResponse> => {
    this.#assertSelf(target);
    const id = partition as PartitionId;
    return this.#inTurn(id, async () => {
      await this.#endTransfersOf(id);
      // If the node failed to take the partition, the disk may still have it. Then `no` would be wrong after a restart.
      await this.#deps.partitions.settle(id);
      return { taken: (this.#deps.partitions.holding(id)?.epoch ?? 0) >= epoch };
    });
  };

  /** Once it resolves, this node takes nothing from the node. Partitions that the node sent before are held or forgotten. */
  async refuseFrom(nodeId: string): Promise<void> {
    this.#removed.add(nodeId);
    // A running `#begin` checks `#removed` at its end. A claim of the partition ends its transfers first.
    await Promise.all(
      [...this.#transfers.values()]
        .filter(({ holder }) => holder === nodeId)
        .map(async (transfer) => {
          await transfer.last;
          this.#forget(transfer);
        }),
    );
  }

  /** Once it resolves, this node takes nothing. Partitions that were being taken are held. */
  async close(): Promise<void> {
    this.#closed = true;
    // A running `#begin` checks `#closed` at its end.
    await Promise.all(
      [...this.#transfers.values()].map(async (transfer) => {
        await transfer.last;
        this.#forget(transfer);
      }),
    );
  }

  /** Takes partitions again after `close`. */
  open(): void {
    this.#closed = false;
  }

  /** Forgets all transfers; their holders keep what they have. */
  stop(): void {
    for (const transfer of this.#transfers.values()) this.#forget(transfer);
  }

  async #begin(id: PartitionId, offer: OfferPartitionRequest): Promise<OfferPartitionResponse> {
    const { partitions, random } = this.#deps;
    assertReadable(offer);
    await this.#endTransfersOf(id);
    const heldEpoch = partitions.holding(id)?.epoch ?? 0;
    if (heldEpoch >= offer.epoch) return { transfer: '', heldEpoch };
    if (partitions.holds(id)) {
      throw new Refusal('INVALID_ARGUMENT', `partition ${id} is held here, at epoch ${heldEpoch}`);
    }
    if (this.#transfers.size >= MAX_TRANSFERS) {
      throw new Refusal('OVERLOADED', `${MAX_TRANSFERS} partitions are arriving already`, { retryDelayMs: 1000 });
    }
    const arriving = await partitions.import({
      id,
      epoch: offer.epoch,
      now: offer.nowMs as Instant,
      ticket: offer.ticket as Ticket,
      nextQueueId: offer.nextQueueId as QueueId,
      life: offer.life,
    });
    if (this.#closed)
      throw new Refusal('MEMBER_LEFT', `node ${this.#deps.nodeId} is leaving: it takes no more partitions`);
    if (this.#removed.has(offer.holder)) {
      throw new Refusal('MEMBER_LEFT', `node ${offer.holder} was removed: it holds no partitions`);
    }
    const name = `${this.#deps.nodeId}/${random.next().toString(36).slice(2)}${random.next().toString(36).slice(2)}`;
    const { holder } = offer;
    const transfer: Transfer = {
      id: name,
      holder,
      arriving,
      sequence: 0,
      last: Promise.resolve(),
      cancelIdle: () => {},
    };
    this.#transfers.set(name, transfer);
    this.#awaitMore(transfer);
    return { transfer: name, heldEpoch: 0 };
  }

  /** T1. A failed part ends the transfer, because its effect is unknown. */
  #part(id: string, sequence: number, work: (transfer: Transfer) => Promise<void>): Promise<void> {
    const transfer = this.#transfers.get(id);
    if (!transfer) return Promise.reject(unknownTransfer());
    const done = transfer.last.then(async () => {
      if (!this.#transfers.has(id)) throw unknownTransfer();
      if (sequence <= transfer.sequence) return;
      if (sequence !== transfer.sequence + 1) {
        throw new Refusal('INVALID_ARGUMENT', `part ${sequence} came after part ${transfer.sequence}`);
      }
      transfer.sequence = sequence;
      this.#awaitMore(transfer);
      try {
        await work(transfer);
      } catch (error) {
        this.#forget(transfer);
        throw error;
      }
    });
    transfer.last = done.catch(() => {});
    return done;
  }

  /** T2. Waits for a partition that is being taken right now. */
  async #endTransfersOf(id: PartitionId): Promise<void> {
    for (const transfer of [...this.#transfers.values()]) {
      if (transfer.arriving.partition !== id) continue;
      await transfer.last;
      this.#forget(transfer);
    }
  }

  #forget(transfer: Transfer): void {
    transfer.cancelIdle();
    this.#transfers.delete(transfer.id);
  }

  #awaitMore(transfer: Transfer): void {
    const { clock } = this.#deps;
    transfer.cancelIdle();
    transfer.cancelIdle = clock.at(
      (clock.now() + IDLE_MS) as Instant,
      () => void this.#endTransfersOf(transfer.arriving.partition),
    );
  }

  #inTurn<T>(id: PartitionId, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(id) ?? Promise.resolve()).then(work);
    const over = turn.then(
      () => {},
      () => {},
    );
    this.#turns.set(id, over);
    void over.then(() => {
      if (this.#turns.get(id) === over) this.#turns.delete(id);
    });
    return turn;
  }

  #assertSelf(target: string): void {
    if (target === this.#deps.nodeId) return;
    throw new Refusal('INVALID_ARGUMENT', `this is node ${this.#deps.nodeId}, not ${target}`);
  }
}

function assertReadable({ partition, dataFormat }: OfferPartitionRequest): void {
  if (dataFormat <= DATA_FORMAT) return;
  throw new Refusal(
    'INCOMPATIBLE_RELEASE',
    `partition ${partition} is sent in data format ${dataFormat}, and this node reads data formats up to ${DATA_FORMAT}: upgrade it first`,
  );
}

const unknownTransfer = (): Refusal =>
  new Refusal('INVALID_ARGUMENT', 'the transfer is not known here: it ended, or the node was restarted');
