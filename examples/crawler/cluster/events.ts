/** What befalls the crawl, and how long it took to recover. Times in ms. */
export type ChaosEvent = WorkerKilled | NodeKilled | NodeJoined | NodeDrained;

export interface WorkerKilled {
  readonly kind: 'worker-killed';
  readonly name: string;
  readonly pid: number | undefined;
  /** Tasks that it had leased when it died. */
  readonly tasksHeld: number;
  /** From the kill until the last of those was back in its queue, or in another worker's hands. */
  readonly recoveredMs: number;
}

export interface NodeKilled {
  readonly kind: 'node-killed';
  readonly name: string;
  readonly pid: number | undefined;
  /** That were away with it; undefined when it is the only node. */
  readonly partitionsHeld: number | undefined;
  /** Tasks in its queues when it was back, done and undone: what it has recovered. */
  readonly tasksRecovered: number;
  /** From the kill until it served again. */
  readonly readyMs: number;
  /** From the kill until all queues answered and a task was completed again. */
  readonly workingMs: number;
}

export interface NodeJoined {
  readonly kind: 'node-joined';
  readonly name: string;
  readonly pid: number | undefined;
  /** What it holds now. */
  readonly partitionsHeld: number;
  readonly tasksHeld: number;
  /** Partitions that were handed from one node to another on the way. */
  readonly partitionsMoved: number;
  /** From the start of its process until it served as a member that held nothing. */
  readonly readyMs: number;
  /** From then on until every node held its share. */
  readonly balancedMs: number;
}

export interface NodeDrained {
  readonly kind: 'node-drained';
  readonly name: string;
  readonly pid: number | undefined;
  /** What it held before. */
  readonly partitionsHeld: number;
  readonly tasksHeld: number;
  readonly partitionsMoved: number;
  /** From the request until it had handed over everything, had left, and its process had ended by itself. */
  readonly drainedMs: number;
}
