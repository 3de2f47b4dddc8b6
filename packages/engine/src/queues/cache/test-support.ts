import type { Instant, LeaseToken } from '../../domain/ids.ts';
import { AVAILABLE, type TaskState } from '../../domain/task.ts';

/** State of an available task without a payload. */
export const availableState: TaskState = {
  enqueuedAt: 0 as Instant,
  dueAt: 0 as Instant,
  headerBytes: 0,
  dataBytes: 0,
  attempts: 0,
  token: 0 as LeaseToken,
  retry: undefined,
  visibility: AVAILABLE,
  history: undefined,
};
