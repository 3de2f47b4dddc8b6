import { limits } from '@taskmaster/proto';
import {
  addresses,
  bytes,
  choice,
  clusterFields,
  count,
  flag,
  GIB,
  grpcSection,
  InvalidConfigError,
  LONGEST_TIMER_MS,
  MIB,
  ms,
  optionalText,
  port,
  text,
} from '@taskmaster/server/program';
import { z } from 'zod';
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from './engine/config.ts';

const engine = DEFAULT_ENGINE_CONFIG;

/**
 * Every setting of a node, with its meaning, default and bounds; units are in the names. A setting is named by its path:
 * `engine.cacheBytes` in the file is `TASKMASTER_ENGINE_CACHE_BYTES` in the environment and `--engine-cache-bytes` as a
 * flag.
 */
export const configSchema = z.strictObject({
  dataDir: text('Directory of the data; created if it is missing. One node at a time can use it.', './data'),
  host: text('Address to listen on, for gRPC and HTTP. 0.0.0.0: every IPv4 address of the machine.', '127.0.0.1'),
  grpcPort: port('Port of the service itself. 0: any free port.', 7400),
  httpPort: port('Port of health, metrics and the page of queues. 0: any free port.', 7401),
  gossipPort: port('UDP port of gossip, in a cluster. 0: any free port.', 7402),
  name: optionalText('Name in the cluster, unique among its members. Empty: the name of the machine.'),
  bootstrap: flag(
    'Begins a new cluster with what the data directory has. Without effect on a member. With --join: only where the first address there is its own, and only if nobody answers.',
    false,
  ),
  join: addresses('gRPC addresses of members of the cluster to join, host:port, separated by commas. One is enough.'),
  withProxy: flag('Answers for the whole cluster: sends on what other members hold. Otherwise says where it is.', true),
  drainOnStop: flag(
    'Hands everything over and leaves the cluster when told to stop. Otherwise a stop is a restart: nothing moves.',
    false,
  ),
  logLevel: choice(
    'What is logged, as JSON on standard error.',
    ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
    'info',
  ),
  stopGraceMs: ms({
    about: 'How long what is in flight may take to finish when the node is told to stop.',
    default: 10_000,
    min: 0,
    max: 10 * 60 * 1000,
  }),
  durability: choice(
    'synced: a success means that the change is on disk. relaxed: it is within durabilityFlushMs; a crash of the machine may lose that much.',
    ['synced', 'relaxed'],
    'synced',
  ),
  durabilityFlushMs: ms({
    about: 'Longest time between syncs when durability is relaxed.',
    default: 100,
    min: 1,
    max: 10_000,
  }),
  cluster: z
    .strictObject({
      ...clusterFields,
      transfersAtOnce: count({
        about: 'Partitions on their way from this node at once. Of those with at most 1,000 tasks four count as one.',
        default: 2,
        min: 1,
        max: 64,
      }),
      transferBytesPerSecond: bytes({
        about: 'Bytes a second at most for partitions on their way from this node. 0: no bound.',
        default: 64 * MIB,
        min: 0,
        max: 16 * GIB,
      }),
      drainTimeoutMs: ms({
        about:
          'How long a stop with drainOnStop may take; then the node stops with what it has, and goes on when it is started.',
        default: 10 * 60 * 1000,
        min: 1_000,
        max: LONGEST_TIMER_MS,
      }),
    })
    .prefault({}),
  engine: z
    .strictObject({
      partitions: count({
        about: 'Partitions of a new data directory; an existing one keeps its own number.',
        default: engine.partitions,
        min: 1,
        max: 65_536,
      }),
      cacheBytes: bytes({
        about: 'Memory for tasks at the heads of queues. More: fewer reads of the disk while queues are long.',
        default: engine.cacheBytes,
        min: MIB,
        max: 64 * GIB,
      }),
      maxInFlightRequests: count({
        about:
          'Requests being worked on at once, waiting leases aside; more are refused as OVERLOADED. The last fifth is for updates without enqueues.',
        default: engine.maxInFlightRequests,
        min: 1,
        max: 1_000_000,
      }),
      maxInFlightBytes: bytes({
        about: 'Payload bytes of those requests and of answers being read; leases wait for room, enqueues are refused.',
        default: engine.maxInFlightBytes,
        min: 2 * limits.requestBytes,
        max: 16 * GIB,
      }),
      maxWaiters: count({
        about: 'Leases that wait for tasks at once; more are refused as TOO_MANY_WAITERS.',
        default: engine.maxWaiters,
        min: 0,
        max: 10_000_000,
      }),
      requestIdWindowMs: ms({
        about: 'How long a repeated request id gets the first outcome instead of being applied again.',
        default: engine.requestIdWindowMs,
        min: 1_000,
        max: 24 * 3600 * 1000,
      }),
      requestIdBytes: bytes({
        about: 'Memory for request ids; when older ones within the window come again, they are looked up on disk.',
        default: engine.requestIdBytes,
        min: MIB,
        max: 16 * GIB,
      }),
      checkpointIntervalMs: ms({
        about:
          'How often counters and what became of tasks are written. Longer: less to write, more to replay after a crash.',
        default: engine.checkpointIntervalMs,
        min: 10,
        max: 60_000,
      }),
      refillMinTasks: count({
        about: 'Tasks read ahead at least when a queue in memory runs low.',
        default: engine.refillMinTasks,
        min: 1,
        max: 100_000,
      }),
      refillMaxTasks: count({
        about: 'Tasks read ahead at most; fast queues come close to it.',
        default: engine.refillMaxTasks,
        min: 1,
        max: 1_000_000,
      }),
      emptyQueueLingerMs: ms({
        about: 'How long the statistics of a queue stay after its last task.',
        default: engine.emptyQueueLingerMs,
        min: 0,
        max: 24 * 3600 * 1000,
      }),
    })
    .refine(({ refillMinTasks, refillMaxTasks }) => refillMinTasks <= refillMaxTasks, {
      path: ['refillMinTasks'],
      error: 'must not be more than engine.refillMaxTasks',
    })
    .prefault({}),
  store: z
    .strictObject({
      cacheBytes: bytes({
        about: 'Memory of RocksDB for blocks read from disk.',
        default: 128 * MIB,
        min: MIB,
        max: 64 * GIB,
      }),
      memtableBytes: bytes({
        about:
          'Memory of RocksDB for what is not yet in files, at its worst. Its log grows to about four times as much.',
        default: 96 * MIB,
        min: 8 * MIB,
        max: 16 * GIB,
      }),
      reserveBytes: bytes({
        about: 'Disk space kept back, so that work in progress can be finished when the disk is full.',
        default: 256 * MIB,
        min: MIB,
        max: 64 * GIB,
      }),
      compression: flag(
        'Dictionaries for the compression of tasks that stay: less disk space, about half as much CPU again for each task.',
        false,
      ),
    })
    .prefault({}),
  grpc: grpcSection,
  http: z
    .strictObject({
      metricsQueues: count({
        about: 'Queues with metrics of their own, the largest ones; the rest are summed up as _other.',
        default: 100,
        min: 0,
        max: 10_000,
      }),
    })
    .prefault({}),
});

/** The settings of a node, all of them decided. */
export type NodeConfig = z.output<typeof configSchema>;

type Some<T> = { readonly [K in keyof T]?: T[K] extends object ? Some<T[K]> : T[K] };

/** Some of the settings; the rest have their defaults. */
export type NodeConfigInput = Some<NodeConfig>;

/** `partitions`: what the cluster has. Default: as set. */
export function engineConfigOf(
  { engine, durability, durabilityFlushMs }: NodeConfig,
  partitions: number = engine.partitions,
): EngineConfig {
  return {
    ...engine,
    partitions,
    durability: durability === 'synced' ? { kind: 'synced' } : { kind: 'relaxed', flushIntervalMs: durabilityFlushMs },
  };
}

/** Decides the settings that are not given. Throws `InvalidConfigError`. */
export function completeConfig(config: NodeConfigInput): NodeConfig {
  const parsed = configSchema.safeParse(config);
  if (parsed.success) return parsed.data;
  throw new InvalidConfigError(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`));
}
