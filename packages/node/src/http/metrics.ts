import type { Reason } from '@taskmaster/proto';
import type { EngineFigures, TaskEngine } from '@taskmaster/server/domain';
import { type NodeHealth, RpcMetrics, type RpcMetricsSources } from '@taskmaster/server/http';
import { Histogram, type Registry } from 'prom-client';
import type { MemberFigures } from '../cluster/open-member.ts';
import type { StoreSize } from '../ports/store.ts';
import { addClusterMetrics } from './cluster-metrics.ts';
import { QueueMetrics } from './queue-metrics.ts';

/** What the metrics are read from; parts that are not open yet are undefined. */
export interface MetricsSources extends RpcMetricsSources {
  readonly engine: () => TaskEngine | undefined;
  readonly health: () => NodeHealth;
  readonly storeSize: () => StoreSize | undefined;
  readonly cluster: () => MemberFigures | undefined;
  /** Queues with metrics of their own. */
  readonly queues: number;
}

const COMMIT_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const COMMIT_BYTES = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304];

const healthStates: readonly NodeHealth['kind'][] = [
  'starting',
  'joining',
  'waiting',
  'serving',
  'full',
  'failed',
  'stopping',
];

/** Counted by the engine since its start: name, what it counts, where the engine has it. */
const counters: readonly (readonly [name: string, help: string, of: (figures: EngineFigures) => number])[] = [
  ['tasks_enqueued_total', 'Tasks enqueued.', (figures) => figures.tasksEnqueued],
  ['tasks_leased_total', 'Leases granted.', (figures) => figures.tasksLeased],
  ['tasks_completed_total', 'Tasks dequeued.', (figures) => figures.tasksCompleted],
  ['leases_expired_total', 'Leases that ended without a word from their workers.', (figures) => figures.leasesExpired],
  ['tasks_dead_lettered_total', 'Tasks moved to a dead-letter queue.', (figures) => figures.tasksDeadLettered],
  ['atoms_total', 'Changes written to the commit log.', (figures) => figures.atoms],
  ['cache_refills_total', 'Reads of the disk to refill the head of a queue.', (figures) => figures.refills],
  ['cold_reads_total', 'Reads of the disk for single tasks.', (figures) => figures.coldReads],
];

const gauges: readonly (readonly [name: string, help: string, of: (figures: EngineFigures) => number])[] = [
  ['queues', 'Queues that hold tasks, or held some lately.', (figures) => figures.queues],
  ['waiting_leases', 'Lease requests that wait for tasks.', (figures) => figures.waiters],
  ['in_flight_requests', 'Requests being worked on.', (figures) => figures.inFlightRequests],
  [
    'in_flight_bytes',
    'Payload bytes of requests being worked on and of answers on their way from the store.',
    (figures) => figures.inFlightBytes,
  ],
  ['cache_bytes', 'Memory used for tasks at the heads of queues.', (figures) => figures.cacheBytes],
];

/** The metrics of one node, in the text format of Prometheus. */
export class NodeMetrics {
  readonly #rpcs: RpcMetrics;
  readonly #commitSeconds: Histogram;
  readonly #commitBytes: Histogram;

  constructor(sources: MetricsSources) {
    this.#rpcs = new RpcMetrics(sources);
    const registers = [this.#rpcs.registry];
    this.#commitSeconds = new Histogram({
      name: 'taskmaster_commit_duration_seconds',
      help: 'Time to write one batch to the store, its sync included.',
      buckets: COMMIT_SECONDS,
      registers,
    });
    this.#commitBytes = new Histogram({
      name: 'taskmaster_commit_batch_bytes',
      help: 'Size of the batches written to the store.',
      buckets: COMMIT_BYTES,
      registers,
    });
    this.#addNode(sources);
    this.#addEngine(sources);
    this.#addQueues(sources);
    addClusterMetrics(this.#rpcs, sources.cluster);
  }

  get contentType(): string {
    return this.#rpcs.contentType;
  }

  get registry(): Registry {
    return this.#rpcs.registry;
  }

  text(): Promise<string> {
    return this.#rpcs.text();
  }

  callEnded(method: string, reason: Reason | undefined, durationMs: number): void {
    this.#rpcs.callEnded(method, reason, durationMs);
  }

  committed(bytes: number, durationMs: number): void {
    this.#commitBytes.observe(bytes);
    this.#commitSeconds.observe(durationMs / 1000);
  }

  #addNode({ health, storeSize }: MetricsSources): void {
    this.#rpcs.gauge('health', 'State of the node: 1 for the present one.', ['state'], (gauge) => {
      for (const state of healthStates) gauge.labels(state).set(health().kind === state ? 1 : 0);
    });
    this.#rpcs.gauge('store_bytes', 'What the store takes of the disk and of memory.', ['kind'], (gauge) => {
      for (const [kind, bytes] of Object.entries(storeSize() ?? {})) gauge.labels(kind).set(bytes);
    });
  }

  #addEngine({ engine }: MetricsSources): void {
    for (const [name, help, of] of gauges) {
      this.#rpcs.gauge(name, help, [], (gauge) => {
        const figures = engine()?.figures();
        if (figures !== undefined) gauge.set(of(figures));
      });
    }
    for (const [name, help, of] of counters) {
      this.#rpcs.counter(name, help, () => {
        const figures = engine()?.figures();
        return figures && of(figures);
      });
    }
  }

  #addQueues({ engine, queues: most }: MetricsSources): void {
    const queues = new QueueMetrics(most);
    const read = async () => {
      const opened = engine();
      return opened === undefined ? [] : queues.read(opened);
    };
    this.#rpcs.gauge('tasks', 'Tasks by queue and state.', ['queue', 'state'], async (gauge) => {
      gauge.reset();
      for (const { queue, available, leased, delayed } of await read()) {
        gauge.labels(queue, 'available').set(available);
        gauge.labels(queue, 'leased').set(leased);
        gauge.labels(queue, 'delayed').set(delayed);
      }
    });
    this.#rpcs.gauge(
      'oldest_task_age_seconds',
      'Age of the oldest task of a queue that is not delayed, since it became due.',
      ['queue'],
      async (gauge) => {
        gauge.reset();
        for (const { queue, oldestAgeMs } of await read()) gauge.labels(queue).set(oldestAgeMs / 1000);
      },
    );
    const rateHelp = 'Tasks per second through a queue, averaged over about a minute.';
    this.#rpcs.gauge('queue_rate', rateHelp, ['queue', 'operation'], async (gauge) => {
      gauge.reset();
      for (const { queue, enqueueRate, leaseRate, completeRate } of await read()) {
        gauge.labels(queue, 'enqueue').set(enqueueRate);
        gauge.labels(queue, 'lease').set(leaseRate);
        gauge.labels(queue, 'complete').set(completeRate);
      }
    });
  }
}
