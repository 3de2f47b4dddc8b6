import type { Engine, LimitedGroup } from '@taskmaster/engine';
import { type EngineFigures, type QueueOperations, Refusal } from '@taskmaster/engine/domain';
import type { DiskSpace, StoreSize } from '@taskmaster/engine/ports';
import type { DatabaseFigures } from '@taskmaster/postgres';
import type { Reason } from '@taskmaster/proto';
import type { Access } from '@taskmaster/server/access';
import { addPrincipalQuotaMetrics, type NodeHealth, RpcMetrics, type RpcMetricsSources } from '@taskmaster/server/http';
import { Histogram, type Registry } from 'prom-client';
import type { MemberFigures } from '../cluster/open-member.ts';
import { ClusterMetrics } from './cluster-metrics.ts';
import { DatabaseMetrics } from './database-metrics.ts';
import { addGroupQuotaMetrics } from './group-quota-metrics.ts';
import { type QueueFigures, QueueMetrics } from './queue-metrics.ts';
import { ScheduleMetrics } from './schedule-metrics.ts';

/** Where the metrics come from. A part that is not open yet is undefined. */
export interface MetricsSources extends RpcMetricsSources {
  readonly engine: () => Pick<Engine, 'listQueues' | 'figures'> | undefined;
  readonly health: () => NodeHealth;
  readonly storeSize: () => StoreSize | undefined;
  /** Undefined for a node with a data directory. */
  readonly database: () => DatabaseFigures | undefined;
  readonly cluster: () => MemberFigures | undefined;
  readonly access: () => Access | undefined;
  /** The groups here that have quotas. */
  readonly limitedGroups: () => Iterable<LimitedGroup>;
  /** Limit of the queues, and of the groups, with series of their own. */
  readonly maxQueues: number;
}

const COMMIT_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const COMMIT_BYTES = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304];

const healthStates: readonly NodeHealth['kind'][] = [
  'starting',
  'joining',
  'waiting',
  'skewed',
  'serving',
  'full',
  'failed',
  'stopping',
];

/** The engine's counters. They are read when the metrics are requested. */
const counters: readonly (readonly [name: string, help: string, of: (figures: EngineFigures) => number])[] = [
  ['tasks_enqueued_total', 'Tasks enqueued.', (figures) => figures.tasksEnqueued],
  ['tasks_leased_total', 'Leases granted.', (figures) => figures.tasksLeased],
  ['tasks_completed_total', 'Tasks completed, that is, dequeued.', (figures) => figures.tasksCompleted],
  [
    'leases_expired_total',
    'Leases that expired: the worker neither completed nor released the task in time.',
    (figures) => figures.leasesExpired,
  ],
  [
    'starts_missed_total',
    'Tasks that ended because no worker had leased them by the instant by which they had to start, or because they had waited in vain.',
    (figures) => figures.startsMissed,
  ],
  [
    'attempts_failed_total',
    'Attempts that failed: the worker released the task without giving the attempt back, or the lease expired.',
    (figures) => figures.attemptsFailed,
  ],
  [
    'attempts_interrupted_total',
    'Attempts that did not count because their workers stopped, or died before they had begun the task.',
    (figures) => figures.attemptsInterrupted,
  ],
  ['tasks_dead_lettered_total', 'Tasks moved to a dead-letter queue.', (figures) => figures.tasksDeadLettered],
  [
    'tasks_dropped_total',
    'Tasks that were dropped because as many tasks waited in their queue as its settings allow.',
    (figures) => figures.tasksDropped,
  ],
  [
    'results_evicted_total',
    'Results and other ends of tasks that went before their time, because their group had too many bytes of them.',
    (figures) => figures.resultsEvicted,
  ],
  [
    'atoms_total',
    'Atoms appended to the commit log. An atom holds all changes of one request.',
    (figures) => figures.atoms,
  ],
  ['cache_refills_total', 'Reads from the store that refill the cached head of a queue.', (figures) => figures.refills],
  ['backup_bytes_total', 'Bytes of rows and log entries sent to backups.', (figures) => figures.backupBytes],
  ['backups_failed_total', 'Failed backups that their programs have told of.', (figures) => figures.backupsFailed],
  [
    'cold_reads_total',
    'Single tasks read from the store because they were not in memory.',
    (figures) => figures.coldReads,
  ],
];

const gauges: readonly (readonly [name: string, help: string, of: (figures: EngineFigures) => number])[] = [
  ['queues', 'Queues that hold tasks or became empty lately.', (figures) => figures.queues],
  ['waiting_leases', 'Lease requests that wait for tasks.', (figures) => figures.waiters],
  ['waits_for_tasks', 'Requests that wait for tasks to end.', (figures) => figures.taskWaits],
  ['pauses', 'Pauses of queues that have not ended, also of queues without tasks.', (figures) => figures.pauses],
  ['bulk_runs', 'Bulk runs that go on.', (figures) => figures.bulkRuns],
  ['event_readers', 'Requests that wait for events.', (figures) => figures.eventReaders],
  [
    'in_flight_requests',
    'Requests in progress, without lease requests that wait for tasks.',
    (figures) => figures.inFlightRequests,
  ],
  ['running_backups', 'Partitions that are sent to backups now.', (figures) => figures.runningBackups],
  ['cache_bytes', 'Memory of the cached tasks at the heads of queues.', (figures) => figures.cacheBytes],
  [
    'clock_ahead_seconds',
    'How far the clock of the engine is ahead of the system clock. Negative: it is behind.',
    (figures) => figures.clockAheadMs / 1000,
  ],
];

/** The counters of queues. */
const queueCounters: readonly (readonly [name: string, help: string, of: (counted: QueueOperations) => number])[] = [
  ['tasks_enqueued', 'Tasks enqueued, by queue.', ({ enqueued }) => enqueued],
  ['tasks_leased', 'Leases granted, by queue.', ({ leased }) => leased],
  ['tasks_completed', 'Tasks completed, by queue.', ({ completed }) => completed],
  ['attempts_failed', 'Attempts that failed, by queue.', ({ failed }) => failed],
  [
    'tasks_dead_lettered',
    'Tasks moved to a dead-letter queue, by the queue that they left.',
    ({ deadLettered }) => deadLettered,
  ],
  [
    'task_wait_seconds',
    'For how long leased tasks had waited since they were due, all together, by queue. Divide its rate by that of the leases.',
    ({ waitedMs }) => waitedMs / 1000,
  ],
  [
    'task_work_seconds',
    'For how long completed tasks had been leased, all together, by queue. Divide its rate by that of the completed tasks.',
    ({ workedMs }) => workedMs / 1000,
  ],
];

/** A node that refuses reads, because it is overloaded or failed, must still be able to show this in its other metrics. */
function nothingIfRefused(error: unknown): QueueFigures[] {
  if (error instanceof Refusal) return [];
  throw error;
}

/** The metrics of one node, in the text format of Prometheus. */
export class NodeMetrics {
  readonly #rpcs: RpcMetrics;
  readonly #commitSeconds: Histogram;
  readonly #commitBytes: Histogram;
  readonly #cluster: ClusterMetrics;
  readonly #schedules: ScheduleMetrics;
  /** Of a store in a database. */
  readonly database: DatabaseMetrics;

  constructor(sources: MetricsSources) {
    this.#rpcs = new RpcMetrics(sources);
    const registers = [this.#rpcs.registry];
    this.#commitSeconds = new Histogram({
      name: 'taskmaster_commit_duration_seconds',
      help: 'Time to write one batch to the store, including the fsync.',
      buckets: COMMIT_SECONDS,
      registers,
    });
    this.#commitBytes = new Histogram({
      name: 'taskmaster_commit_batch_bytes',
      help: 'Size of one batch written to the store.',
      buckets: COMMIT_BYTES,
      registers,
    });
    this.database = new DatabaseMetrics(this.#rpcs, sources.database);
    this.#addNode(sources);
    this.#addEngine(sources);
    this.#addQueues(sources);
    this.#schedules = new ScheduleMetrics(this.#rpcs, () => sources.engine()?.figures());
    addPrincipalQuotaMetrics(this.#rpcs, sources.access);
    addGroupQuotaMetrics(this.#rpcs, sources.limitedGroups, sources.maxQueues);
    this.#cluster = new ClusterMetrics(this.#rpcs, sources.cluster);
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

  /** A run of a schedule was enqueued this long after its instant. */
  ran(lateMs: number): void {
    this.#schedules.ran(lateMs);
  }

  handedOver(frozenMs: number): void {
    this.#cluster.handedOver(frozenMs);
  }

  #addNode({ health, storeSize }: MetricsSources): void {
    this.#rpcs.gauge('health', '1 for the present state of the node, 0 for all other states.', ['state'], (gauge) => {
      for (const state of healthStates) gauge.labels(state).set(health().kind === state ? 1 : 0);
    });
    this.#rpcs.gauge(
      'store_bytes',
      'Size of the data directory on disk, or of the tables in the database, and memory that is set aside for the store.',
      ['kind'],
      (gauge) => {
        const size = storeSize();
        if (size === undefined) return;
        gauge.labels('disk').set(size.disk);
        gauge.labels('memory').set(size.memory);
      },
    );
    const space: readonly (readonly [name: string, help: string, of: (space: DiskSpace) => number])[] = [
      ['disk_free_bytes', 'Free space on the disk of the data directory.', ({ freeBytes }) => freeBytes],
      [
        'disk_full_below_bytes',
        'Free space below which the node refuses new tasks with DISK_FULL.',
        ({ fullBelowBytes }) => fullBelowBytes,
      ],
    ];
    for (const [name, help, of] of space) {
      this.#rpcs.gaugeIfKnown(name, help, () => {
        const known = storeSize()?.space;
        return known && of(known);
      });
    }
  }

  #addEngine({ engine, grpc }: MetricsSources): void {
    this.#rpcs.gauge(
      'in_flight_bytes',
      'Payload bytes of requests in progress, of requests that are being received, and of replies that are read from the store.',
      [],
      (gauge) => gauge.set((engine()?.figures().inFlightBytes ?? 0) + (grpc()?.receivingBytes ?? 0)),
    );
    for (const [name, help, of] of gauges) {
      this.#rpcs.gauge(name, help, [], (gauge) => {
        const figures = engine()?.figures();
        if (figures !== undefined) gauge.set(of(figures));
      });
    }
    this.#rpcs.gaugeIfKnown(
      'backup_oldest_timestamp_seconds',
      'When the oldest of the backups began that have the partitions of this node, in seconds since 1970. No value until each partition was sent whole to a backup since the start.',
      () => {
        const at = engine()?.figures().backedUpAt;
        return at && at / 1000;
      },
    );
    this.#rpcs.gaugeIfKnown(
      'backup_failed_timestamp_seconds',
      'When the last backup failed, in seconds since 1970, if its program has told this node. No value if there is none, or once a later backup has the partition here that tells of it.',
      () => {
        const at = engine()?.figures().backupFailure?.at;
        return at && at / 1000;
      },
    );
    this.#rpcs.durations(
      'task_wait_seconds',
      'For how long a task had waited since it was due, when it was leased.',
      () => engine()?.figures().waited,
    );
    this.#rpcs.durations(
      'task_work_seconds',
      'For how long a completed task had been leased by the worker that completed it.',
      () => engine()?.figures().worked,
    );
    for (const [name, help, of] of counters) {
      this.#rpcs.counter(name, help, () => {
        const figures = engine()?.figures();
        return figures && of(figures);
      });
    }
  }

  #addQueues({ engine, maxQueues }: MetricsSources): void {
    const queues = new QueueMetrics(maxQueues);
    const read = async (): Promise<QueueFigures[]> => {
      const opened = engine();
      return opened === undefined ? [] : queues.read(opened).catch(nothingIfRefused);
    };
    this.#rpcs.gauge('tasks', 'Tasks in a queue, by state.', ['queue', 'state'], async (gauge) => {
      const figures = await read();
      // In one turn with the new values: another request for the metrics may be collecting too.
      gauge.reset();
      for (const { queue, available, leased, delayed } of figures) {
        gauge.labels(queue, 'available').set(available);
        gauge.labels(queue, 'leased').set(leased);
        gauge.labels(queue, 'delayed').set(delayed);
      }
    });
    this.#rpcs.gauge(
      'oldest_task_age_seconds',
      'Time since the oldest task in a queue became due. Delayed tasks are not due. Leased tasks count.',
      ['queue'],
      async (gauge) => {
        const figures = await read();
        gauge.reset();
        for (const { queue, oldestAgeMs } of figures) gauge.labels(queue).set(oldestAgeMs / 1000);
      },
    );
    this.#rpcs.gauge(
      'queue_paused',
      'Whether a queue is paused: 1 or 0. Of the other queues together: how many are.',
      ['queue'],
      async (gauge) => {
        const figures = await read();
        gauge.reset();
        for (const { queue, paused } of figures) gauge.labels(queue).set(paused);
      },
    );
    this.#rpcs.gauge(
      'queue_held_back_tasks',
      'Available tasks of a queue that limits hold back now, of the queue or of limit keys.',
      ['queue'],
      async (gauge) => {
        const figures = await read();
        gauge.reset();
        for (const { queue, heldTasks } of figures) gauge.labels(queue).set(heldTasks);
      },
    );
    this.#rpcs.gauge(
      'unclaimed_tasks',
      'Available tasks of a queue whose kinds no lease request has accepted for five minutes.',
      ['queue'],
      async (gauge) => {
        const figures = await read();
        gauge.reset();
        for (const { queue, unclaimed } of figures) gauge.labels(queue).set(unclaimed);
      },
    );
    this.#rpcs.gauge(
      'queue_held_keys',
      'Limit keys with available tasks in a queue that a limit of keys holds back now.',
      ['queue'],
      async (gauge) => {
        const figures = await read();
        gauge.reset();
        for (const { queue, heldKeys } of figures) gauge.labels(queue).set(heldKeys);
      },
    );
    for (const [name, help, of] of queueCounters) {
      this.#rpcs.labelledCounter(`queue_${name}_total`, help, ['queue'], async () =>
        (await read()).flatMap(({ queue, operations }) =>
          operations === undefined ? [] : [{ labels: { queue }, count: of(operations) }],
        ),
      );
    }
  }
}
