/** How the engine behaves. Every bound is enforced; sizes in bytes, times in ms. */
export interface EngineConfig {
  /** Partitions of a new store; an existing store keeps its own number. */
  readonly partitions: number;
  /** `synced`: a reply means fsynced. `relaxed`: a reply means written; fsynced at least every `flushIntervalMs`. */
  readonly durability: { readonly kind: 'synced' } | { readonly kind: 'relaxed'; readonly flushIntervalMs: number };
  /** Memory for cached tasks and payloads of all queues (the paper, 5.4). */
  readonly cacheBytes: number;
  /** Limit of concurrent requests, without waiting leases. Enqueues are refused from four fifths of it on. */
  readonly maxInFlightRequests: number;
  /**
   * Payload bytes of these requests and of answers that are being read. Leases wait for room, or get fewer tasks.
   * Enqueues are refused from four fifths of it on. Answers get at most two fifths.
   */
  readonly maxInFlightBytes: number;
  /** Limit of queues. An enqueue that would create one more is refused. */
  readonly maxQueues: number;
  /** Limit of lease requests that wait for tasks, of waits for tasks to end, and of readers that wait for events. */
  readonly maxWaiters: number;
  /** Bytes of the results that a group keeps. Beyond it those go first that would go first anyway. */
  readonly maxResultBytes: number;
  /** Memory for events of groups that have readers, and about how much of the log is kept for them after a checkpoint. */
  readonly maxEventBytes: number;
  /** How long a repeated request id gets the outcome of the first request. */
  readonly requestIdWindowMs: number;
  /** Memory for request ids; older ones within the window are looked up in the store. */
  readonly requestIdCacheBytes: number;
  /** How often counters and minimum tickets are written (the paper, 5.3). */
  readonly checkpointIntervalMs: number;
  /** Smallest and largest number of tasks that one refill reads (the paper, 5.4.1). They are cached in one turn. */
  readonly minRefillTasks: number;
  readonly maxRefillTasks: number;
  /** How long an empty queue's statistics are kept. */
  readonly emptyQueueRetentionMs: number;
  /** Partitions that are sent to backups at the same time. */
  readonly maxConcurrentBackups: number;
  /** Bytes per second of all backups together. 0: no limit. */
  readonly maxBackupBytesPerSecond: number;
}

/** Longest time between two syncs, in ms. */
const MOST_FLUSH_MS = 24 * 60 * 60 * 1000;

/**
 * Refuses a durability that does not exist: nothing would ever be synced. Only JavaScript and casts get one past the compiler.
 * @throws TypeError
 */
export function assertDurability(durability: EngineConfig['durability']): void {
  const { kind, flushIntervalMs = 0 } = { ...(durability as { kind?: string; flushIntervalMs?: number }) };
  if (kind === 'synced') return;
  if (kind === 'relaxed' && flushIntervalMs >= 1 && flushIntervalMs <= MOST_FLUSH_MS) return;
  throw new TypeError(
    `durability: ${JSON.stringify(durability)} is neither { kind: 'synced' } nor { kind: 'relaxed', flushIntervalMs } with 1 to ${MOST_FLUSH_MS} ms`,
  );
}

export const DEFAULT_ENGINE_CONFIG: EngineConfig = {
  partitions: 1024,
  durability: { kind: 'synced' },
  cacheBytes: 256 * 1024 * 1024,
  maxInFlightRequests: 10_000,
  maxInFlightBytes: 128 * 1024 * 1024,
  maxQueues: 1_000_000,
  maxWaiters: 100_000,
  maxResultBytes: 64 * 1024 * 1024,
  maxEventBytes: 32 * 1024 * 1024,
  requestIdWindowMs: 2 * 60 * 1000,
  requestIdCacheBytes: 32 * 1024 * 1024,
  checkpointIntervalMs: 500,
  minRefillTasks: 100,
  maxRefillTasks: 2_500,
  emptyQueueRetentionMs: 60_000,
  maxConcurrentBackups: 4,
  maxBackupBytesPerSecond: 64 * 1024 * 1024,
};
