import { type MethodKey, methods, NO_SETTINGS, type RequestOf } from '@taskmaster/proto';
import {
  aBulkSpec,
  aGet,
  aLease,
  aList,
  anEnqueue,
  anUpdate,
  aPeek,
  aSchedule,
  aWait,
  bytes,
  someSchedules,
} from './requests.ts';

/**
 * For each method a valid request about a queue of this name, `group#name`, or about schedules, topics and patterns of the same
 * name. A method without a sample does not compile. Tests that must have every method loop over these.
 */
const samples: { readonly [K in MethodKey]: (name: string) => RequestOf<K> } = {
  updateTasks: (queue) => anUpdate({ enqueue: [anEnqueue({ queue })] }),
  leaseTasks: (queue) => aLease({ queues: [queue] }),
  batchUpdateTasks: (queue) => ({ requests: [anUpdate({ enqueue: [anEnqueue({ queue })] })] }),
  batchLeaseTasks: (queue) => ({ requests: [aLease({ queues: [queue] })] }),
  waitForTasks: (queue) => aWait({ tasks: [{ queue, pid: bytes('a') }] }),
  readEvents: (queues) => ({ queues, after: '', kinds: [], task: undefined, maxEvents: 0, waitMs: 0 }),
  listQueues: () => aList(),
  getQueueStats: (queue) => ({ queues: [queue], filter: undefined }),
  getOverview: () => ({ afterUnixMs: 0, includeChanges: false }),
  peekTasks: (queue) => aPeek({ queue }),
  getTasks: (queue) => aGet({ queue }),
  deleteQueue: (queue) => ({ queue }),
  resetLeases: (queue) => ({ queue }),
  putQueueSettings: (queues) => ({ queues, settings: { ...NO_SETTINGS, leaseDurationMs: 60_000 } }),
  deleteQueueSettings: (queues) => ({ queues }),
  listQueueSettings: (queue) => ({ queue }),
  pauseQueues: (queues) => ({ queues, reason: 'a sample', durationMs: 60_000, untilUnixMs: 0 }),
  resumeQueues: (queues) => ({ queues }),
  limitQueues: (queues) => ({ queues, maxLeased: 10, rate: undefined, keys: '' }),
  unlimitQueues: (queues) => ({ queues, keys: '' }),
  startBulkRun: (queues) => ({ id: 'a', queues, spec: aBulkSpec(), preview: false, allTasks: false }),
  listBulkRuns: (queue) => ({ queue, id: '' }),
  cancelBulkRun: (queue) => ({ queue, id: 'a' }),
  putSchedule: (schedule) => ({ schedule, spec: aSchedule({ queue: schedule }) }),
  listSchedules: (schedule) => someSchedules({ schedule, group: undefined }),
  deleteSchedule: (schedule) => ({ schedule }),
  pauseSchedule: (schedule) => ({ schedule, paused: true }),
  triggerSchedule: (schedule) => ({ schedule }),
  subscribe: (name) => ({ topic: name, queue: name, filter: undefined, ttlMs: 0, deleteQueue: false }),
  unsubscribe: (name) => ({ topic: name, queue: name }),
  listSubscriptions: (topic) => ({ topic }),
  listMembers: () => ({}),
  listPartitions: () => ({}),
  drainMember: (name) => ({ name }),
  resumeMember: (name) => ({ name }),
  removeMember: (name) => ({ name, acceptLoss: false, also: [], waitMs: 0 }),
  whoAmI: () => ({ principal: '', questions: [] }),
  backupPartition: () => ({ partition: 0, unchangedSince: undefined, maxBytesPerSecond: 0 }),
};

/** The sample of a method, encoded. */
export function sampleBytes<K extends MethodKey>(key: K, name: string): Buffer {
  const { [key]: sample } = samples;
  const { [key]: method } = methods;
  return method.requestSerialize(sample(name));
}
