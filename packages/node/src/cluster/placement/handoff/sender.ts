import type { PartitionExport, Partitions, Throttle } from '@taskmaster/engine';
import { type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { type Clock, type Log, sleep } from '@taskmaster/engine/ports';
import { OLDEST_READER_FORMAT, type TransferredAtom, type TransferredRow } from '@taskmaster/proto';
import { PeerMessageTooLongError } from '@taskmaster/server/ports';
import type { CallTarget, TransferCalls, TransferMethod } from './transfer-calls.ts';

/** The node that receives a partition. */
export interface Target {
  readonly nodeId: string;
  /** Its gRPC address (`host:port`). */
  readonly address: string;
}

/** Progress of one hand-off. */
export interface HandOffProgress {
  readonly partition: PartitionId;
  readonly to: string;
  phase: 'snapshot' | 'log' | 'frozen' | 'unresolved';
  rows: number;
  bytes: number;
  atoms: number;
}

export interface SenderDeps {
  readonly partitions: Partitions;
  readonly call: CallTarget;
  readonly clock: Clock;
  readonly log: Log;
  readonly throttle: Throttle;
  readonly nodeId: string;
  /** Whether the member was removed. */
  readonly isRemoved: (nodeId: string) => boolean;
}

export interface HandedOver {
  /** How long callers had to wait, in ms. */
  readonly frozenMs: number;
  /** The part of `frozenMs` before the target was asked to take the partition. */
  readonly toldMs: number;
  readonly rows: number;
  readonly bytes: number;
}

/** This node does not serve the partition, and does not know whether the target does. Until it knows, callers are refused. */
export class HandOffUnresolvedError extends Error {
  override readonly name = 'HandOffUnresolvedError';
  /** True: the target may have taken the partition. False: it has not; only the write that takes it back failed. */
  readonly told: boolean;

  constructor(message: string, told: boolean, options: ErrorOptions) {
    super(message, options);
    this.told = told;
  }
}

const CALL_MS = 10_000;
/** Longest time to send the rest while callers wait. After this time this node serves the partition again. */
const REST_MS = 2_000;
/** Timeout of the call that lets the target take the partition; callers wait for its answer. */
const TAKE_MS = 2_000;
/** Maximum number of attempts to send a part; then the hand-off fails. */
const ATTEMPTS = 5;
const RETRY_MS = 200;
/** A rest of the log up to this size goes with the last call, after the partition is frozen. */
const REST_BYTES = 64 * 1024;
/** Maximum number of rounds of catching up. Then a partition whose log grows faster than it is sent is frozen anyway. */
const MAX_ROUNDS = 100;
/** The freeze should take at most about this long, because callers wait. */
const QUICK_MS = 40;
/** Maximum number of rehearsals: partitions must also leave a disk that is always slow. */
const MOST_REHEARSALS = 10;
/** How often new log entries are sent while the throttle delays the snapshot. */
const LOG_MS = 1_000;
/** How often an empty part tells the target that more will come; it forgets idle transfers after `IDLE_MS`. */
const KEEP_ALIVE_MS = 10_000;

/**
 * Hands one partition over (the paper, 5.7). Sends the snapshot and then the log while this node still serves; freezes the
 * partition and sends the rest. Throws if that fails and this node still serves the partition. Throws
 * `HandOffUnresolvedError` if the outcome is unknown.
 *
 *  S1  Before the target may take the partition, this node stores durably that it may. So after a crash this node does not
 *      serve the partition until the outcome is known.
 */
export async function sendPartition(
  deps: SenderDeps,
  progress: HandOffProgress,
  target: Target,
  signal: AbortSignal,
): Promise<HandedOver> {
  using leaving = deps.partitions.export(progress.partition);
  return await new Sender(deps, progress, target, leaving, signal).run();
}

class Sender {
  readonly #deps: SenderDeps;
  readonly #progress: HandOffProgress;
  readonly #target: Target;
  readonly #leaving: PartitionExport;
  readonly #signal: AbortSignal;
  #transfer = '';
  #sequence = 0;
  /** Calls end by this time, and are not repeated after it. */
  #deadline = Number.POSITIVE_INFINITY;

  constructor(
    deps: SenderDeps,
    progress: HandOffProgress,
    target: Target,
    leaving: PartitionExport,
    signal: AbortSignal,
  ) {
    this.#deps = deps;
    this.#progress = progress;
    this.#target = target;
    this.#leaving = leaving;
    this.#signal = signal;
  }

  async run(): Promise<HandedOver> {
    const { partitions } = this.#deps;
    const { partition } = this.#progress;
    const epoch = (partitions.holding(partition)?.epoch ?? 0) + 1;
    await this.#offer(epoch);
    await this.#sendSnapshot();
    await this.#catchUp();
    return this.#switch(epoch);
  }

  async #offer(epoch: number): Promise<void> {
    const { partition, offer } = this.#leaving;
    const { transfer, heldEpoch } = await this.#call('offerPartition', {
      partition,
      epoch,
      holder: this.#deps.nodeId,
      target: this.#target.nodeId,
      nowMs: offer.now,
      ticket: offer.ticket,
      nextQueueId: offer.nextQueueId,
      life: offer.life,
      dataFormat: OLDEST_READER_FORMAT,
    });
    if (transfer === '') {
      throw new Refusal('INVALID_ARGUMENT', `the target holds partition ${partition} already, at epoch ${heldEpoch}`);
    }
    this.#transfer = transfer;
  }

  async #sendSnapshot(): Promise<void> {
    for await (const rows of this.#leaving.rows()) {
      const bytes = sizeOfRows(rows);
      await this.#call('sendRows', { transfer: this.#transfer, sequence: ++this.#sequence, rows });
      this.#progress.rows += rows.length;
      this.#progress.bytes += bytes;
      await this.#payFor(bytes);
    }
  }

  /**
   * Waits until the throttle allows more than this part of the snapshot, and sends new log entries meanwhile. The entries
   * count at most as much as the part itself. So a partition whose log grows faster than the throttle allows still moves.
   */
  async #payFor(bytes: number): Promise<void> {
    const { throttle, clock } = this.#deps;
    let until = throttle.pay(bytes);
    let sentAt = clock.now();
    for (let most = bytes; ; ) {
      const sent = await this.#sendLog();
      const counted = Math.min(sent, most);
      most -= counted;
      if (counted > 0) until = throttle.pay(counted);
      if (clock.now() >= until) return;
      if (sent > 0) sentAt = clock.now();
      if (clock.now() - sentAt >= KEEP_ALIVE_MS) {
        await this.#sendAtoms([]);
        sentAt = clock.now();
      }
      await sleep(clock, Math.min(LOG_MS, until - clock.now()), this.#signal);
    }
  }

  async #catchUp(): Promise<void> {
    this.#progress.phase = 'log';
    for (let round = 0; round < MAX_ROUNDS && this.#leaving.backlogBytes > REST_BYTES; round++) {
      // Pays without waiting: the log would grow meanwhile.
      this.#deps.throttle.pay(await this.#sendLog());
    }
    await this.#rehearse();
  }

  /** Repeats the steps of the freeze before it, until they are quick: a busy disk should not make callers wait. */
  async #rehearse(): Promise<void> {
    const { clock } = this.#deps;
    // One rehearsal suffices for an empty partition: few callers wait for it, and clusters have many of them.
    const isEmpty = this.#progress.rows === 0 && this.#progress.atoms === 0;
    for (let rehearsal = 0; rehearsal < MOST_REHEARSALS; rehearsal++) {
      const began = clock.now();
      await this.#leaving.synced();
      await this.#sendLog();
      // An empty part makes the target sync.
      await this.#sendAtoms([]);
      if (isEmpty || clock.now() - began <= QUICK_MS) return;
      await sleep(clock, RETRY_MS, this.#signal);
    }
  }

  /** Sends the log entries gathered so far, not those that arrive meanwhile. Resolves with their bytes. */
  async #sendLog(): Promise<number> {
    const gathered = this.#leaving.backlogBytes;
    let sent = 0;
    while (sent < gathered) sent += await this.#sendAtoms(this.#leaving.takeAtoms());
    return sent;
  }

  async #sendAtoms(atoms: TransferredAtom[]): Promise<number> {
    await this.#call('sendAtoms', { transfer: this.#transfer, sequence: ++this.#sequence, atoms });
    return this.#count(atoms);
  }

  async #switch(epoch: number): Promise<HandedOver> {
    const { partitions, clock } = this.#deps;
    const { partition } = this.#progress;
    const { nodeId, address } = this.#target;
    this.#signal.throwIfAborted();
    // Checked in the same turn as the freeze: an earlier removal is seen here, a later one finds the partition frozen.
    if (this.#deps.isRemoved(nodeId)) throw new Refusal('MEMBER_LEFT', `node ${nodeId} was removed`);
    const frozenAt = clock.now();
    partitions.freeze(partition);
    this.#progress.phase = 'frozen';
    const request = await this.#sendRest().catch((error: unknown) => this.#takeBack(error));
    const toldMs = clock.now() - frozenAt;
    try {
      // Not repeated: a second attempt could not tell the outcome of the first. `ResolveOffer` asks the target instead.
      await this.#deps.call(address, 'takePartition', request, { timeoutMs: TAKE_MS });
    } catch (error) {
      this.#progress.phase = 'unresolved';
      partitions.stall(partition);
      throw new HandOffUnresolvedError(`${address} may have taken partition ${partition}`, true, { cause: error });
    }
    // Callers are redirected in this turn; they do not wait for the write.
    const frozenMs = clock.now() - frozenAt;
    // Does nothing if the target was removed meanwhile and this node serves the partition again at a later epoch.
    await partitions.supersede(partition, { nodeId, epoch });
    return { frozenMs, toldMs, rows: this.#progress.rows, bytes: this.#progress.bytes };
  }

  /** Sends the rest of a frozen partition, except for the atoms of the last call; resolves with that call's request. */
  async #sendRest(): Promise<TransferCalls['takePartition'][0]> {
    const { partitions, clock } = this.#deps;
    this.#deadline = clock.now() + REST_MS;
    // S1. All committed atoms are applied by then, so the tail is complete.
    const { lastTicket, tasks } = await partitions.handOver(this.#progress.partition, this.#target.nodeId);
    this.#leaving.assertWhole();
    // The last call carries the remaining atoms and must fit into one message.
    if (this.#leaving.backlogBytes > REST_BYTES) await this.#sendLog();
    const atoms = this.#leaving.takeAtoms(Number.POSITIVE_INFINITY);
    this.#count(atoms);
    return { transfer: this.#transfer, sequence: ++this.#sequence, atoms, lastTicket, tasks };
  }

  /** Serves a frozen partition again, before the target was asked to take it; then throws `cause`. */
  async #takeBack(cause: unknown): Promise<never> {
    const { partitions } = this.#deps;
    const { partition } = this.#progress;
    try {
      await partitions.thaw(partition);
    } catch (error) {
      this.#progress.phase = 'unresolved';
      partitions.stall(partition);
      throw new HandOffUnresolvedError(`partition ${partition} could not be taken back`, false, { cause: error });
    }
    throw cause;
  }

  #count(atoms: readonly TransferredAtom[]): number {
    const bytes = atoms.reduce((sum, { entry }) => sum + entry.byteLength, 0);
    this.#progress.atoms += atoms.length;
    this.#progress.bytes += bytes;
    return bytes;
  }

  /** Repeats a call whose answer may have been lost. Parts are numbered, so the target applies none twice. */
  async #call<M extends TransferMethod>(method: M, request: TransferCalls[M][0]): Promise<TransferCalls[M][1]> {
    const { call, clock } = this.#deps;
    for (let attempt = 1; ; attempt++) {
      this.#leaving.assertWhole();
      const timeoutMs = Math.min(CALL_MS, Math.max(1, this.#deadline - clock.now()));
      try {
        return await call(this.#target.address, method, request, { timeoutMs, signal: this.#signal });
      } catch (error) {
        const isFinal = error instanceof Refusal || error instanceof PeerMessageTooLongError;
        if (isFinal || this.#signal.aborted || attempt === ATTEMPTS) throw error;
        if (clock.now() + RETRY_MS * attempt >= this.#deadline) throw error;
        await sleep(clock, RETRY_MS * attempt, this.#signal);
      }
    }
  }
}

const sizeOfRows = (rows: readonly TransferredRow[]): number =>
  rows.reduce((bytes, { key, value }) => bytes + key.byteLength + value.byteLength, 0);
