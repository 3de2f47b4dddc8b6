// For tests of other packages: an engine on virtual time and on a simulated disk.

export { laneOfKey, lanesPrefix, orderKeyRow, ordersPrefix } from '../domain/keys.ts';
export { dueOf, lastOf } from '../domain/task.ts';
export { decodeTaskRow } from '../log/atom-rows.ts';
export { settle, VirtualClock, VirtualTime } from '../ports/virtual-clock.ts';
export { putSchedule, ScheduleWorker, scheduleOf } from '../schedules/test-support.ts';
export { taskStates } from './arbitraries.ts';
export { BackupCopy, backupRequest } from './backup-copy.ts';
export { bulkRunOf, startBulk } from './bulk-runs.ts';
export {
  EngineHarness,
  type EnqueueSpec,
  engineHarness,
  type HarnessOptions,
  pidsOf,
  type UpdateSpec,
} from './engine-harness.ts';
export { fingerprintOf } from './fingerprint.ts';
export { type KeptLog, keptLog } from './kept-log.ts';
export { limitQueues, unlimitQueues } from './limit-queues.ts';
export { pauseQueues, resumeQueues } from './pause-queues.ts';
export { putSettings } from './put-settings.ts';
export { SeededRandom } from './seeded-random.ts';
export { sharedHoldersContract } from './shared-holders-contract.ts';
export {
  type SimCommit,
  type SimConditions,
  type SimFate,
  SimSharedDatabase,
  type SimStatement,
} from './sim-shared-database.ts';
export { SimDisk } from './sim-store.ts';
export { type CrashableStore, storeContract } from './store-contract.ts';
