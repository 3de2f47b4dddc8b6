/** A planned fault of the crawl, and how long the crawl took to recover. Times in ms. */
export type ChaosEvent = WorkerKilled | NodeKilled | NodeJoined | NodeDrained;

export interface WorkerKilled {
  readonly kind: 'worker-killed';
  readonly name: string;
  readonly pid: number | undefined;
  /** Tasks that were leased to the worker when it died. */
  readonly tasksHeld: number;
  /** From the kill until each of these tasks was back in its queue or leased to another worker. */
  readonly recoveredMs: number;
}

export interface NodeKilled {
  readonly kind: 'node-killed';
  readonly name: string;
  readonly pid: number | undefined;
  /** Partitions of the node. Undefined if it is the only node. */
  readonly partitionsHeld: number | undefined;
  /** Tasks in the node's queues after its restart, completed ones included. */
  readonly tasksRecovered: number;
  /** From the kill until the node served again. */
  readonly readyMs: number;
  /** From the kill until all queues answered and a task was completed again. */
  readonly workingMs: number;
}

export interface NodeJoined {
  readonly kind: 'node-joined';
  readonly name: string;
  readonly pid: number | undefined;
  /** Partitions that it holds now. */
  readonly partitionsHeld: number;
  readonly tasksHeld: number;
  /** Number of hand-offs that this took. */
  readonly partitionsMoved: number;
  /** From the start of its process until it served as a member without partitions. */
  readonly readyMs: number;
  /** From then on until every node held its share. */
  readonly balancedMs: number;
}

export interface NodeDrained {
  readonly kind: 'node-drained';
  readonly name: string;
  readonly pid: number | undefined;
  /** Partitions that it held before. */
  readonly partitionsHeld: number;
  readonly tasksHeld: number;
  readonly partitionsMoved: number;
  /** From the request until the node had handed everything over and its process had ended. */
  readonly drainedMs: number;
}
