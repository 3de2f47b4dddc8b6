import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from '@taskmaster/engine';
import { limits } from '@taskmaster/proto';
import { type AvailableMemory, availableMemory, divideMemory, GIB, MIB } from '@taskmaster/server/memory';
import {
  AUTO,
  accessFields,
  addresses,
  auditSection,
  bytes,
  choice,
  chosenBytes,
  clusterFields,
  count,
  flag,
  grpcSection,
  httpFields,
  InvalidConfigError,
  LONGEST_TIMER_MS,
  limitConnections,
  memoryField,
  ms,
  ONCE,
  optionalText,
  port,
  text,
  tlsFields,
  WAITING_PART,
} from '@taskmaster/server/program';
import { z } from 'zod';
import { type NodeMemory, type NodePart, nodeMemorySpec } from './memory.ts';

const engine = DEFAULT_ENGINE_CONFIG;

/**
 * All settings of a node with meaning, default and bounds. Names end with their unit. `engine.cacheBytes` in the file is
 * `TASKMASTER_ENGINE_CACHE_BYTES` in the environment and `--engine-cache-bytes` as a flag.
 */
export const configSchema = z
  .strictObject({
    dataDir: text(
      'Directory of the data. The node creates it if it is missing. Only one node at a time can use it.',
      './data',
    ),
    memory: memoryField,
    host: text('Address to listen on. 0.0.0.0: all IPv4 addresses of the machine.', '127.0.0.1'),
    grpcPort: port('Port of gRPC. 0: any free port.', 7400),
    httpPort: port('Port of HTTP: health, metrics and pages of queues and schedules. 0: any free port.', 7401),
    gossipPort: port('UDP port of gossip, used only in a cluster. 0: any free port.', 7402),
    name: optionalText('Name of the member, unique in the cluster. Empty: the host name of the machine.'),
    bootstrap: flag(
      'Starts a new cluster with the data of the data directory. It has no effect on a member of a cluster. With join, a new cluster starts only if the first address of join is this node and no member answers.',
      false,
    ),
    join: addresses(
      'gRPC addresses of members of the cluster to join, as host:port, separated by commas. One address is enough.',
    ),
    withRouter: flag(
      'The node answers for the whole cluster: its router forwards requests to the holder of their group. false: the node refuses them with NOT_HOLDER, which names the holder.',
      true,
    ),
    drainOnShutdown: choice(
      'Whether the node hands its partitions to other members and leaves the cluster when it is stopped. never: it stays a member, and its partitions wait for its restart. always: it leaves. scale-down: it leaves if kubernetes.statefulSet was scaled down below its pod; if that is unknown, it stays a member.',
      ['never', 'always', 'scale-down'],
      'never',
    ),
    logLevel: choice(
      'Level of the log, which is JSON on standard error.',
      ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
      'info',
    ),
    shutdownTimeoutMs: ms({
      about: 'How long running requests may take to finish on shutdown.',
      default: 10_000,
      min: 0,
      max: 10 * 60 * 1000,
    }),
    durability: choice(
      'synced: a reply means that the change is on disk (fsynced). relaxed: the fsync follows within durabilityFlushIntervalMs; a crash of the machine may lose the changes of that time.',
      ['synced', 'relaxed'],
      'synced',
    ),
    durabilityFlushIntervalMs: ms({
      about: 'Longest time between two fsyncs with relaxed durability.',
      default: 100,
      min: 1,
      max: 10_000,
    }),
    ...accessFields,
    cluster: z
      .strictObject({
        ...clusterFields,
        maxConcurrentTransfers: count({
          about:
            'Partitions that the node sends to other nodes at the same time. Four partitions of at most 1,000 tasks count as one.',
          default: 2,
          min: 1,
          max: 64,
        }),
        maxTransferBytesPerSecond: bytes({
          about: 'Bytes per second of all transfers from this node together. 0: no limit.',
          default: 64 * MIB,
          min: 0,
          max: 16 * GIB,
        }),
        drainTimeoutMs: ms({
          about:
            'How long drainOnShutdown may take. After that the node stops with the partitions that it still holds, and goes on leaving after its restart.',
          default: 10 * 60 * 1000,
          min: 1_000,
          max: LONGEST_TIMER_MS,
        }),
      })
      .prefault({}),
    kubernetes: z
      .strictObject({
        statefulSet: optionalText(
          'StatefulSet of the pod in which the node runs. drainOnShutdown reads its number of replicas. Empty: none.',
        ),
        clusterConfigMap: optionalText(
          'ConfigMap that records the id of the cluster, in the namespace of the pod. It must exist. A node with an empty data directory begins no cluster if one is recorded. Empty: none.',
        ),
      })
      .prefault({}),
    engine: z
      .strictObject({
        partitions: count({
          about: 'Number of partitions of a new data directory. An existing data directory keeps its number.',
          default: engine.partitions,
          min: 1,
          max: 65_536,
        }),
        cacheBytes: chosenBytes({
          about:
            'Memory for the first tasks of all queues. Larger: fewer reads of the disk while queues are long. auto: a part of memory.',
          min: MIB,
          max: 64 * GIB,
        }),
        maxInFlightRequests: count({
          about:
            'Requests that run at the same time, without waiting lease requests. More are refused with OVERLOADED. The last fifth is kept for updates without enqueues.',
          default: engine.maxInFlightRequests,
          min: 1,
          max: 1_000_000,
        }),
        maxInFlightBytes: chosenBytes({
          about:
            'Payload bytes of these requests, counted for each queue if they publish, and of replies that are being read. Above it enqueues are refused and lease requests wait. auto: a part of memory.',
          min: 2 * limits.requestBytes,
          max: 16 * GIB,
        }),
        maxWaiters: count({
          about:
            'Lease requests that wait for tasks at the same time, and as many waits for tasks to end. More are refused with TOO_MANY_WAITERS.',
          default: engine.maxWaiters,
          min: 0,
          max: 10_000_000,
        }),
        maxQueues: count({
          about:
            'Queues that the node may hold. An enqueue that would create one more is refused with TOO_MANY_QUEUES; existing queues go on. 0: one for each 8 KiB of memory.',
          default: 0,
          min: 0,
          max: 100_000_000,
        }),
        maxResultBytes: bytes({
          about:
            'Bytes of the results that one group keeps. Beyond it the results go first whose retention ends first.',
          default: engine.maxResultBytes,
          min: MIB,
          max: 64 * GIB,
        }),
        maxEventBytes: bytes({
          about:
            'Memory for the events of all groups that have readers, and about how much of the log each of their partitions keeps on disk for readers. Beyond it the oldest events go first.',
          default: engine.maxEventBytes,
          min: MIB,
          max: 4 * GIB,
        }),
        requestIdWindowMs: ms({
          about:
            'How long an update with a repeated request id gets the first outcome and is not applied again. The same at all members that share a database.',
          default: engine.requestIdWindowMs,
          min: 1_000,
          max: 24 * 3600 * 1000,
        }),
        requestIdCacheBytes: chosenBytes({
          about:
            'Memory for request ids. Older ids of the window are looked up on disk when they are repeated. auto: a part of memory.',
          min: MIB,
          max: 16 * GIB,
        }),
        checkpointIntervalMs: ms({
          about:
            'How often counters and states of tasks are written. Longer: less to write, but more to replay after a crash.',
          default: engine.checkpointIntervalMs,
          min: 10,
          max: 60_000,
        }),
        minRefillTasks: count({
          about: 'Smallest number of tasks that are read together when the cached head of a queue runs low.',
          default: engine.minRefillTasks,
          min: 1,
          max: 100_000,
        }),
        maxRefillTasks: count({
          about: 'Largest number of tasks that are read together. Fast queues come close to it.',
          default: engine.maxRefillTasks,
          min: 1,
          max: 1_000_000,
        }),
        emptyQueueRetentionMs: ms({
          about: 'How long the statistics of a queue are kept after its last task.',
          default: engine.emptyQueueRetentionMs,
          min: 0,
          max: 24 * 3600 * 1000,
        }),
      })
      .refine(({ minRefillTasks, maxRefillTasks }) => minRefillTasks <= maxRefillTasks, {
        path: ['minRefillTasks'],
        error: 'must not be more than engine.maxRefillTasks',
      })
      .prefault({}),
    store: z
      .strictObject({
        url: optionalText(
          'PostgreSQL database that has the data, as postgres://user:password@host:5432,other:5432/database. The node then uses no data directory. Without join and bootstrap it takes the place of the node that has used the store; with one of them, the members of a cluster share it. Empty: the data is in dataDir.',
        ),
        schema: text(
          'Schema of the tables in the PostgreSQL database. The node creates it if it is missing.',
          'taskmaster',
        ),
        blockCacheBytes: chosenBytes({
          about: 'Memory of the block cache of RocksDB, for blocks that were read from disk. auto: a part of memory.',
          min: MIB,
          max: 64 * GIB,
        }),
        memtableBytes: chosenBytes({
          about:
            'Largest memory of the memtables of RocksDB, for writes that are not yet in table files. The write-ahead log grows to about four times as much. auto: a part of memory.',
          min: 8 * MIB,
          max: 16 * GIB,
        }),
        reserveBytes: bytes({
          about: 'Disk space in reserve. With it running work can finish when the disk is full.',
          default: 256 * MIB,
          min: MIB,
          max: 64 * GIB,
        }),
        dictionaryCompression: flag(
          'Compresses tasks that stay for long with dictionaries. Less disk space, but about one and a half times the CPU time per task.',
          false,
        ),
      })
      .prefault({}),
    backup: z
      .strictObject({
        maxConcurrentPartitions: count({
          about: 'Partitions that the node sends to backups at the same time. More are refused with TOO_MANY_BACKUPS.',
          default: engine.maxConcurrentBackups,
          min: 1,
          max: 64,
        }),
        maxBytesPerSecond: bytes({
          about: 'Bytes per second of all backups from this node together. 0: no limit.',
          default: engine.maxBackupBytesPerSecond,
          min: 0,
          max: 16 * GIB,
        }),
      })
      .prefault({}),
    clock: z
      .strictObject({
        correctionMsPerSecond: count({
          about:
            'How far the clock of the engine moves towards the system clock in each second, in ms. More: leases and delays last longer or shorter by that share while the clock moves. 0: never.',
          default: 1,
          min: 0,
          max: 100,
        }),
        catchUpAtStart: flag(
          'At its start, a clock of the engine that is behind the system clock is set to it at once. Leases and delays end earlier by the difference then.',
          false,
        ),
      })
      .prefault({}),
    audit: auditSection,
    grpc: grpcSection,
    ...tlsFields,
    http: z
      .strictObject({
        ...httpFields,
        maxQueueMetrics: count({
          about:
            'Number of queues with separate metrics: the largest, the busiest, and those that fail. All others are summed up as _other.',
          default: 100,
          min: 0,
          max: 10_000,
        }),
      })
      .prefault({}),
  })
  .refine(({ drainOnShutdown, kubernetes }) => drainOnShutdown !== 'scale-down' || kubernetes.statefulSet !== '', {
    path: ['drainOnShutdown'],
    error: 'scale-down needs kubernetes.statefulSet',
  });

/** All settings of a node. Sizes may be `auto`. */
export type NodeSettings = z.output<typeof configSchema>;

type Decided<T> = { readonly [K in keyof T]: T[K] extends object ? Decided<T[K]> : Exclude<T[K], typeof AUTO> };

/** All settings of a node, with all sizes. */
export type NodeConfig = Decided<NodeSettings>;

type Some<T> = { readonly [K in keyof T]?: T[K] extends object ? Some<T[K]> : T[K] };

/** Some of the settings. The others have their defaults. */
export type NodeConfigInput = Some<NodeSettings>;

/** @param partitions of the cluster. Default: the setting. */
export function engineConfigOf(
  { engine, backup, durability, durabilityFlushIntervalMs }: NodeConfig,
  partitions: number = engine.partitions,
): EngineConfig {
  return {
    ...engine,
    partitions,
    maxConcurrentBackups: backup.maxConcurrentPartitions,
    maxBackupBytesPerSecond: backup.maxBytesPerSecond,
    durability:
      durability === 'synced' ? { kind: 'synced' } : { kind: 'relaxed', flushIntervalMs: durabilityFlushIntervalMs },
  };
}

/** The settings with defaults for missing ones, and the division of the memory. @throws InvalidConfigError. */
export function completeConfig(
  config: NodeConfigInput,
  available?: AvailableMemory,
): { readonly config: NodeConfig; readonly memory: NodeMemory } {
  const parsed = configSchema.safeParse(config, ONCE);
  if (!parsed.success) {
    throw new InvalidConfigError(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`));
  }
  const memory = divideNodeMemory(parsed.data, available);
  if (memory.kind === 'refused') throw new InvalidConfigError([`memory: ${memory.problem}`]);
  return { config: limitConnections(withParts(parsed.data, memory)), memory };
}

/** Divides the memory of a node with these settings. */
export function divideNodeMemory(
  { memory, engine, store, grpc }: NodeSettings,
  available: AvailableMemory = availableMemory(),
): ReturnType<typeof divideMemory<NodePart>> {
  const parts = {
    'engine.cacheBytes': chosen(engine.cacheBytes),
    'store.blockCacheBytes': chosen(store.blockCacheBytes),
    'store.memtableBytes': chosen(store.memtableBytes),
    'engine.requestIdCacheBytes': chosen(engine.requestIdCacheBytes),
    'engine.maxInFlightBytes': chosen(engine.maxInFlightBytes),
    'grpc.maxUnreadReplyBytes': chosen(grpc.maxUnreadReplyBytes),
  };
  return divideMemory(nodeMemorySpec, { memory: chosen(memory), parts }, available);
}

/** Memory of a node for each of its queues, in bytes. A queue with a long name takes half of it. */
const QUEUE_BYTES = 8 * 1024;

const chosen = (size: number | typeof AUTO): number | undefined => (size === AUTO ? undefined : size);

function withParts(settings: NodeSettings, { memory, parts }: NodeMemory): NodeConfig {
  return {
    ...settings,
    memory,
    engine: {
      ...settings.engine,
      cacheBytes: parts['engine.cacheBytes'],
      requestIdCacheBytes: parts['engine.requestIdCacheBytes'],
      maxInFlightBytes: parts['engine.maxInFlightBytes'],
      maxQueues: settings.engine.maxQueues || Math.floor(memory / QUEUE_BYTES),
    },
    store: {
      ...settings.store,
      blockCacheBytes: parts['store.blockCacheBytes'],
      memtableBytes: parts['store.memtableBytes'],
    },
    grpc: {
      ...settings.grpc,
      maxUnreadReplyBytes: parts['grpc.maxUnreadReplyBytes'],
      maxWaitingBytes: chosen(settings.grpc.maxWaitingBytes) ?? Math.floor(memory * WAITING_PART),
    },
  };
}
