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
  StoreNewerError,
  type StoreSize,
  type StoreState,
  StoreUnfinishedError,
} from './store.ts';
export { reuseMemory, visitWrites, WriteBatch, type WriteVisitor } from './write-batch.ts';
