export type { CancelTimer, Clock } from './clock.ts';
export type { Log } from './log.ts';
export type { Random } from './random.ts';
export {
  type Gift,
  type SharedHolders,
  type SharedNode,
  type SharedPartition,
  type SharedState,
  SURE_MS,
} from './shared-holders.ts';
export { sleep } from './sleep.ts';
export {
  type DiskSpace,
  Family,
  familyNames,
  type KeyRange,
  type Row,
  type ScanLimit,
  type Store,
  StoreClosedError,
  StoreCorruptError,
  StoreFailedError,
  StoreFullError,
  StoreLockedError,
  StoreLostError,
  StoreNewerError,
  type StoreSize,
  type StoreState,
  StoreUnfinishedError,
  StoreUsedError,
} from './store.ts';
export { SystemClock } from './system-clock.ts';
export { systemRandom } from './system-random.ts';
export { reuseMemory, visitWrites, WriteBatch, type WriteVisitor } from './write-batch.ts';
