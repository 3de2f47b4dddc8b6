/** Lengths and counts every node, proxy and client agrees on. Times are in ms, sizes in bytes. */
export const limits = {
  /** Longest consistency group and longest queue name, each, in bytes of UTF-8. */
  nameBytes: 512,
  /** Longest PID. The shortest has one byte. */
  pidBytes: 4096,
  /** Largest payload of one task: a task fits into a message of 4 MiB, gRPC's default limit, in every language. */
  dataBytes: 3 * 1024 * 1024,
  /** Largest request. */
  requestBytes: 4 * 1024 * 1024,
  /** Most payload in one reply. */
  replyDataBytes: 3.5 * 1024 * 1024,
  /** Longest request id. */
  requestIdBytes: 64,
  /** Longest label of a worker. */
  workerBytes: 256,
  /** Longest regular expression. */
  regexBytes: 256,
  /** Most items in one update, all kinds together. */
  updateItems: 10_000,
  /** Most tasks in one lease reply. */
  leaseTasks: 10_000,
  /** Most queues named in one lease request. */
  leaseQueues: 1_000,
  /** Most requests in one batch. */
  batchRequests: 1_000,
  /** Most items in all updates of one batch. */
  batchItems: 100_000,
  /** Most calls in one message of a stream. */
  streamCalls: 10_000,
  /** Most items of updates and queues of leases in all calls of one message of a stream. */
  streamItems: 100_000,
  /** Most tasks shown by one peek, most PIDs looked up by one get. */
  peekTasks: 1_000,
  /** Most queues in one listing or statistics reply. */
  listQueues: 10_000,
  /** Length of a lease where a request gives none. */
  defaultLeaseMs: 30_000,
  /** Longest lease: a year. */
  leaseMs: 365 * 24 * 3600 * 1000,
  /** Longest delay and longest backoff: ten years. */
  delayMs: 10 * 365 * 24 * 3600 * 1000,
  /** Longest long poll. */
  waitMs: 10 * 60 * 1000,
  /** Most attempts a retry policy may allow. */
  maxAttempts: 1_000_000,
} as const;
