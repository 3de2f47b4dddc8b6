import type { TransferredAtom, TransferredRow } from '@taskmaster/proto';
import { type PartitionId, Refusal } from '@taskmaster/server/domain';
import { type Clock, type Log, PeerMessageTooLongError, sleep } from '@taskmaster/server/ports';
import type { Partitions } from '../../../engine/partitions/partitions.ts';
import type { PartitionExport } from '../../../engine/partitions/transfer/export-partition.ts';
import type { Throttle } from './throttle.ts';
import type { CallTarget, TransferCalls, TransferMethod } from './transfer-calls.ts';

/** A node that a partition goes to. */
export interface Target {
  readonly nodeId: string;
  /** `host:port` of its gRPC. */
  readonly address: string;
}

/** How far a partition is on its way. */
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
  /** Whether the member was given up. */
  readonly isRemoved: (nodeId: string) => boolean;
}

export interface HandedOver {
  /** How long callers had to wait, in ms. */
  readonly frozenMs: number;
  /** Of these, how long it took until the target could be told to take it. */
  readonly toldMs: number;
  readonly rows: number;
  readonly bytes: number;
}

/** The partition is not served here, and not known to be served elsewhere. Callers are refused until that is known. */
export class HandOffUnresolvedError extends Error {
  override readonly name = 'HandOffUnresolvedError';
  /** Whether the target may have taken it, and does not say; otherwise only the write that takes it back is missing. */
  readonly told: boolean;

  constructor(message: string, told: boolean, options: ErrorOptions) {
    super(message, options);
    this.told = told;
  }
}

const CALL_MS = 10_000;
/** Callers wait while what is left is sent: when it takes longer the partition is served here again. */
const REST_MS = 2_000;
/** Callers wait while this call is answered. */
const TAKE_MS = 2_000;
/** A part whose answer was lost is sent again so often before the hand-off is given up. */
const ATTEMPTS = 5;
const RETRY_MS = 200;
/** So little may be left of the log when the partition is frozen that the rest goes with the last call. */
const REST_BYTES = 64 * 1024;
/** A partition that takes in faster than it is sent is frozen after so many rounds all the same. */
const MAX_ROUNDS = 100;
/** Callers may wait for about so long. */
const QUICK_MS = 40;
/** A disk that is always slow keeps nothing from moving. */
const MOST_REHEARSALS = 10;
/** What gathers in the log while a part is paid for is sent so often. */
const LOG_MS = 1_000;
/** While there is nothing to send the target hears so often that more will come; it forgets the transfer after 60 s. */
const KEEP_ALIVE_MS = 10_000;

/**
 * Hands one partition over (the paper, 5.7): the snapshot and the log behind it while it serves on, then the rest, frozen.
 * Throws, with the partition served here as before, when it could not be done, and `HandOffUnresolvedError` when only the
 * target knows.
 *
 *  S1  Before the target may take it, it is durable here that it may: whatever happens, nobody else serves meanwhile.
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
  /** No call lasts longer, and none is repeated after it. */
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
   * Of a part of the snapshot: waits until it is paid for, and sends what gathers in the log. That counts as much as the
   * part at most, so that a partition that takes in more than the throttle lets through moves all the same.
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
      // Nobody waits for it here: it would only grow.
      this.#deps.throttle.pay(await this.#sendLog());
    }
    await this.#rehearse();
  }

  /** Does what callers would wait for while nobody waits, until it is quick: a disk is busy now and then, not for long. */
  async #rehearse(): Promise<void> {
    const { clock } = this.#deps;
    // Of one that is empty hardly anybody could wait, and there are many of them.
    const isEmpty = this.#progress.rows === 0 && this.#progress.atoms === 0;
    for (let rehearsal = 0; rehearsal < MOST_REHEARSALS; rehearsal++) {
      const began = clock.now();
      await this.#leaving.synced();
      await this.#sendLog();
      // Nothing: the target syncs what it has.
      await this.#sendAtoms([]);
      if (isEmpty || clock.now() - began <= QUICK_MS) return;
      await sleep(clock, RETRY_MS, this.#signal);
    }
  }

  /** What has gathered so far; more gathers while it is sent. Resolves with its bytes. */
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
    // Asked in the turn in which it becomes known that the target may have it: a removal before is seen here, one after
    // finds the partition handed over.
    if (this.#deps.isRemoved(nodeId)) throw new Refusal('MEMBER_LEFT', `node ${nodeId} was given up`);
    const frozenAt = clock.now();
    partitions.freeze(partition);
    this.#progress.phase = 'frozen';
    const request = await this.#sendRest().catch((error: unknown) => this.#takeBack(error));
    const toldMs = clock.now() - frozenAt;
    try {
      // Once: a second attempt could not know what became of the first; the target is asked instead.
      await this.#deps.call(address, 'takePartition', request, { timeoutMs: TAKE_MS });
    } catch (error) {
      this.#progress.phase = 'unresolved';
      partitions.stall(partition);
      throw new HandOffUnresolvedError(`${address} may have taken partition ${partition}`, true, { cause: error });
    }
    // Callers are sent on in this turn; what is written of that keeps nobody waiting.
    const frozenMs = clock.now() - frozenAt;
    // Not where the target was given up meanwhile and the partition is served here again, at a later epoch.
    await partitions.supersede(partition, { nodeId, epoch });
    return { frozenMs, toldMs, rows: this.#progress.rows, bytes: this.#progress.bytes };
  }

  /** Of a frozen partition: what the last call brings along, when everything else is at the target. */
  async #sendRest(): Promise<TransferCalls['takePartition'][0]> {
    const { partitions, clock } = this.#deps;
    this.#deadline = clock.now() + REST_MS;
    // S1; and all that was committed is applied then, so that the tail is complete.
    const { lastTicket, tasks } = await partitions.handOver(this.#progress.partition, this.#target.nodeId);
    this.#leaving.assertWhole();
    // What is left goes with the last call, which has to fit into a message.
    if (this.#leaving.backlogBytes > REST_BYTES) await this.#sendLog();
    const atoms = this.#leaving.takeAtoms(Number.POSITIVE_INFINITY);
    this.#count(atoms);
    return { transfer: this.#transfer, sequence: ++this.#sequence, atoms, lastTicket, tasks };
  }

  /** Of a frozen partition that nobody was told to take. */
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

  /** Repeated where the answer may only have been lost: every part has a number, so none counts twice. */
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
