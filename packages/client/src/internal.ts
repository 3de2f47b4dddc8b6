// What the command line, the outbox and the embedded queue need of the client, and users do not. It may change in every release.

export type { StandardSchemaV1 as StandardSchema } from '@standard-schema/spec';
export { limitInfo } from './api/limits.ts';
export { pauseInfo } from './api/pauses.ts';
export { assertRuntime } from './api/runtime.ts';
export { foldShards } from './api/shards/shard-stats.ts';
export { LEASE } from './leases/lease.ts';
export { CONTEXT } from './tasks/context.ts';
export { WATCH } from './tasks/leased-task.ts';
export {
  canonicalName,
  FORMAT,
  nameToFill,
  newTask,
  queueRef,
  queuesPattern,
  taskNames,
} from './tasks/new-task.ts';
export { identityOf, MAX_SHARDS, ShardNames, shardOfPid } from './tasks/shard-names.ts';
export { OUTBOX_MARKERS } from './telemetry/conventions.ts';
export { injectActive } from './telemetry/task-context.ts';
export { headersSizeBound } from './transport/request-size.ts';
export { MAX_TIMER_MS, sleep, systemTiming, type Timing } from './transport/timing.ts';
export { makeError } from './values/errors.ts';
export { assertKnown, type OptionNames } from './values/known-options.ts';
export { isByKey, nameFields } from './values/task-name.ts';
export { QUEUES } from './worker/worker.ts';
