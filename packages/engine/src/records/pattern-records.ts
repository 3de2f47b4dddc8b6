import type { QueueName } from '@taskmaster/proto';
import { latin1Of } from '../domain/bytes.ts';
import type { Pid } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { TaskState } from '../domain/task.ts';
import type { RecordDraft, RecordStore } from './record-store.ts';

// Records of queues that match a pattern: their settings, pauses and limits. The pattern is the key.

/** Names of queues do not have it. */
const BEFORE_KEYS = '\uFFFD';

/** `keys`: a pattern of keys, too, of limits of these. */
export const pidOfPattern = (pattern: string, keys = ''): Pid =>
  latin1Of(Buffer.from(keys === '' ? pattern : pattern + BEFORE_KEYS + keys)) as Pid;

export const patternOfPid = (pid: Pid): string => {
  const [pattern = ''] = Buffer.from(pid, 'latin1').toString().split(BEFORE_KEYS, 1);
  return pattern;
};

export interface PatternRecord {
  /** Its name is the pattern. */
  readonly queues: QueueName;
  /** See `pidOfPattern`. */
  readonly keys?: string;
  readonly state: TaskState;
  readonly data: Uint8Array;
}

/** Adds or replaces the record of a pattern. Throws a `Refusal` if its group has `most` others. `advice`: what to do then. */
export function putPatternRecord(
  draft: RecordDraft,
  store: RecordStore,
  { queues: { group, name }, keys, state, data }: PatternRecord,
  most: number,
  advice: string,
): void {
  const pid = pidOfPattern(name, keys);
  const isNew = store.find(draft, group, pid) === undefined;
  // Counted in the turn of the commit: two callers do not both get the last place.
  if (isNew && draft.needs.length === 0 && store.count(draft, group) >= most) {
    throw new Refusal('TOO_MANY_ITEMS', `queues: the group has ${most} ${advice}`, {
      metadata: { field: 'queues', value: String(most + 1), limit: String(most) },
    });
  }
  store.put(draft, group, pid, state, data);
}
