import {
  type BackupHeader,
  type BackupPartitionRequest,
  type BackupPartitionResponse,
  type BackupPoint,
  OLDEST_READER_FORMAT,
} from '@taskmaster/proto';
import type { CallSignal } from '../../domain/call-signal.ts';
import type { BackupFailure } from '../../domain/commands.ts';
import { existingPartition } from '../../domain/existing-partition.ts';
import type { PartitionId } from '../../domain/ids.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Random } from '../../ports/random.ts';
import { Tally } from '../../queues/tally.ts';
import { refusalOf } from '../../store-refusal.ts';
import type { Partitions } from '../partitions.ts';
import { ExportBrokenError, ExportTooSlowError, type PartitionExport } from '../transfer/export-partition.ts';
import { Throttle } from '../transfer/throttle.ts';
import { BackupSender, epochOf, lastStateOf } from './send-backup.ts';

/** Memory of one backup for log entries that its reader has not taken yet. */
const MAX_BACKLOG_BYTES = 32 * 1024 * 1024;
/** Characters that are kept of why a backup failed. */
const MAX_PROBLEM = 500;
/** Retry delay of callers that have found no place. */
const RETRY_MS = 1_000;

export interface BackupsDeps {
  readonly partitions: Partitions;
  readonly clock: Clock;
  readonly random: Random;
  /** Limit of the backups at the same time. */
  readonly maxConcurrent: number;
  /** Limit of all backups together; 0: no limit. */
  readonly maxBytesPerSecond: number;
  readonly requestWindowMs: number;
}

/** Names in the headers of backups. */
export interface BackupIdentity {
  /** Empty: the node runs without a cluster. */
  readonly clusterId: string;
  readonly nodeId: string;
}

export interface BackupFigures {
  readonly running: number;
  /** Bytes of rows and log entries sent since the start. */
  readonly bytes: number;
  /** See `EngineFigures.backedUpAt`. */
  readonly oldestAt: number | undefined;
  /** Failed backups of the cluster that callers have told of since the start. */
  readonly failures: number;
  /** See `EngineFigures.backupFailure`. */
  readonly failure: BackupFailure | undefined;
}

/** The parts of one backup. `return` gives it up. */
export type BackupParts = AsyncIterableIterator<BackupPartitionResponse, undefined>;

/** Sends partitions to backups while they serve; see `BackupService`. */
export class Backups {
  readonly #deps: BackupsDeps;
  readonly #throttle: Throttle;
  /** The backups that have begun. */
  readonly #ending = new Set<AbortController>();
  /** Parts that are being made. */
  readonly #making = new Tally();
  #running = 0;
  #bytes = 0;
  /** By partition: when the latest backup began that was taken whole. */
  readonly #sentAt = new Map<number, number>();
  #failures = 0;
  #failed: (BackupFailure & { readonly partition: PartitionId }) | undefined;
  #identity: BackupIdentity | undefined;
  #stopped: Refusal | undefined;

  constructor(deps: BackupsDeps) {
    this.#deps = deps;
    this.#throttle = new Throttle(deps.clock, deps.maxBytesPerSecond);
  }

  get figures(): BackupFigures {
    const failed = this.#failed;
    // Later backups of a partition that has moved are not known here.
    const failure = failed && this.#deps.partitions.holds(failed.partition) ? failed : undefined;
    const [running, bytes, failures] = [this.#running, this.#bytes, this.#failures];
    return { running, bytes, oldestAt: this.#oldestAt(), failures, failure };
  }

  #oldestAt(): number | undefined {
    const { partitions } = this.#deps;
    let oldest: number | undefined;
    for (let id = 0; id < partitions.count; id++) {
      if (!partitions.holds(id as PartitionId)) continue;
      const at = this.#sentAt.get(id);
      if (at === undefined) return undefined;
      oldest = Math.min(oldest ?? at, at);
    }
    return oldest;
  }

  /** Set once, by a node of a cluster. */
  identify(identity: BackupIdentity): void {
    this.#identity = identity;
  }

  /** Begins with the first call of `next`, which has all changes that were acknowledged before. Rejects with a `Refusal`. */
  backup(request: BackupPartitionRequest, caller?: CallSignal): BackupParts {
    const parts = this.#translated(request, caller);
    const iterator: BackupParts = {
      next: async () => {
        this.#making.enter();
        try {
          return await parts.next();
        } finally {
          this.#making.leave();
        }
      },
      return: () => parts.return(undefined),
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }

  /** Ends all backups. Resolves when none of them reads the store any more. */
  async stop(): Promise<void> {
    this.#stopped ??= new Refusal('SHUTTING_DOWN', 'the node is shutting down', { retryDelayMs: RETRY_MS });
    for (const ending of this.#ending) ending.abort(this.#stopped);
    await this.#making.idle();
  }

  async *#translated(
    request: BackupPartitionRequest,
    caller: CallSignal | undefined,
  ): AsyncGenerator<BackupPartitionResponse, undefined> {
    const ending = new AbortController();
    const onAbort = (): void => ending.abort(new Refusal('CANCELLED', 'the backup was cancelled'));
    if (caller?.aborted) onAbort();
    if (this.#stopped) ending.abort(this.#stopped);
    caller?.addEventListener('abort', onAbort);
    this.#ending.add(ending);
    try {
      yield* this.#send(request, ending.signal);
    } catch (error) {
      throw backupRefusal(request.partition, error);
    } finally {
      this.#ending.delete(ending);
      caller?.removeEventListener('abort', onAbort);
    }
  }

  async *#send(request: BackupPartitionRequest, signal: AbortSignal): AsyncGenerator<BackupPartitionResponse> {
    const { partitions, clock, maxConcurrent } = this.#deps;
    const id = existingPartition(request.partition, partitions.count);
    for (let gate = partitions.gate(id); gate; gate = partitions.gate(id)) await gate;
    signal.throwIfAborted();
    if (request.failure !== undefined) {
      if (!partitions.holds(id)) throw new ExportBrokenError(`partition ${id} is not served here`);
      const problem = request.failure.slice(0, MAX_PROBLEM).toWellFormed();
      if (problem !== '') this.#failures++;
      this.#failed = problem === '' ? undefined : { partition: id, at: clock.now(), problem };
      yield { part: { $case: 'end', value: { lastTicket: 0, tasks: 0, queues: 0 } } };
      return;
    }
    if (this.#running >= maxConcurrent) throw tooMany(maxConcurrent);
    // In the turn of the open gate.
    using leaving = partitions.export(id, MAX_BACKLOG_BYTES);
    using _running = this.#run();
    const header = this.#headerOf(leaving, request);
    if (header.unchanged) {
      const end = lastStateOf(partitions, id);
      yield { part: { $case: 'header', value: header } };
      yield { part: { $case: 'end', value: end } };
      this.#sentWhole(id, header);
      return;
    }
    const throttles = [this.#throttle, new Throttle(clock, request.maxBytesPerSecond)];
    const sent = (bytes: number): void => {
      this.#bytes += bytes;
    };
    yield* new BackupSender({ partitions, clock, throttles, signal, sent }, header, leaving).parts();
    // The reader has asked for what follows the end, so it has the end.
    this.#sentWhole(id, header);
  }

  #sentWhole(id: PartitionId, { nowMs }: BackupHeader): void {
    this.#sentAt.set(id, nowMs);
    if (this.#failed?.partition === id) this.#failed = undefined;
  }

  #run(): Disposable {
    this.#running++;
    return { [Symbol.dispose]: () => void this.#running-- };
  }

  #headerOf({ partition, offer }: PartitionExport, { unchangedSince }: BackupPartitionRequest): BackupHeader {
    const { partitions, requestWindowMs } = this.#deps;
    const point = { ...this.#identified(), epoch: epochOf(partitions, partition), ticket: offer.ticket };
    return {
      ...point,
      formatVersion: OLDEST_READER_FORMAT,
      partition,
      partitions: partitions.count,
      nowMs: offer.now,
      nextQueueId: offer.nextQueueId,
      unchanged: unchangedSince !== undefined && this.#isAt(unchangedSince, point, partition),
      requestWindowMs,
      tasks: partitions.tasksIn(partition),
    };
  }

  /**
   * Whether the partition is as it was at an earlier point. If nodes share a store, a partition moves as it is: only its holder
   * at an epoch has given tickets then, so the same ticket is another atom only if it was given at a later epoch, after the
   * database has lost atoms. In directories instants are those of the clock of the holder, so the holder must be the same.
   */
  #isAt(earlier: BackupPoint, now: BackupPoint, partition: PartitionId): boolean {
    const { partitions } = this.#deps;
    if (earlier.clusterId !== now.clusterId || earlier.ticket !== now.ticket) return false;
    if (partitions.shared === undefined) return earlier.nodeId === now.nodeId && earlier.epoch === now.epoch;
    const lastEpoch = partitions.lastEpochOf(partition) ?? now.epoch;
    return lastEpoch <= earlier.epoch && earlier.epoch <= now.epoch;
  }

  /** A node without a cluster takes a random id when it needs one first. */
  #identified(): BackupIdentity {
    this.#identity ??= { clusterId: '', nodeId: randomId(this.#deps.random) };
    return this.#identity;
  }
}

const randomId = (random: Random): string =>
  Array.from({ length: 16 }, () => Math.floor(random.next() * 16).toString(16)).join('');

const tooMany = (limit: number): Refusal =>
  new Refusal('TOO_MANY_BACKUPS', `this node sends ${limit} partitions to backups already`, {
    metadata: { limit: String(limit) },
    retryDelayMs: RETRY_MS,
  });

function backupRefusal(partition: number, error: unknown): Refusal {
  if (!(error instanceof ExportBrokenError)) return refusalOf(error);
  const reason = error instanceof ExportTooSlowError ? 'BACKUP_TOO_SLOW' : 'BACKUP_BROKEN';
  return new Refusal(reason, `the backup of partition ${partition} has ended: ${error.message}`, {
    metadata: { partition: String(partition) },
    retryDelayMs: RETRY_MS,
    cause: error,
  });
}
