// For tests of several parts together: histories of calls, and the checks that `taskmaster load --verify` makes.

export {
  type Call,
  type CallOf,
  type CountsReply,
  type DequeueCall,
  type EndReply,
  type EnqueueCall,
  History,
  type HistoryEvent,
  type LeaseCall,
  type LeasedReply,
  type Outcome,
  type RefusedItemReply,
  type ReleaseCall,
  type RetryCall,
  type ShownTask,
  showHistory,
  type TaskCall,
  type UpdateCall,
} from '../load/verify/history.ts';
export { eventsBehind, type FinalTask, violationsOf } from '../load/verify/history-checker.ts';
