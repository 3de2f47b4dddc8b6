import { type BulkRunState, limits, StoredBulkRun } from '@taskmaster/proto';
import { type BulkRunRecord, goesOn } from '../domain/bulk-runs.ts';
import { latin1Of } from '../domain/bytes.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import type { EngineState } from '../engine-state.ts';
import { recordState } from '../operations/attempts.ts';
import { bulkRunRecords, type FoundRecord, type RecordDraft } from '../records/record-store.ts';

/** A run after a change. `until`: as in `BulkRunRecord`. */
export interface RunAfter {
  readonly stored: BulkRunRecord['stored'] & Pick<BulkRunRecord, 'run'>;
  readonly until: Instant;
}

/** Tells of a run that has ended. Call it when the change is durable. */
export function tellEnd({ onBulkRunEnd }: EngineState, { stored }: RunAfter): void {
  if (!goesOn(stored)) onBulkRunEnd(stored.run);
}

/** The PID of the record of a run. */
export const pidOfRun = (id: string): Pid => latin1Of(Buffer.from(id)) as Pid;

/** Undefined: there is none, or it must be read first. */
export const findRun = (draft: RecordDraft, group: string, id: string): FoundRecord | undefined =>
  bulkRunRecords.find(draft, group, pidOfRun(id));

/** Writes a run. Its task keeps the instant of its enqueue, at which the run began. */
export function putRun(draft: RecordDraft, group: string, { stored, until }: RunAfter, now: Instant): void {
  const data = StoredBulkRun.encode(stored).finish();
  const pid = pidOfRun(stored.run.id);
  const found = bulkRunRecords.find(draft, group, pid);
  const state = recordState(data, now, until);
  const enqueuedAt = found?.task.state.enqueuedAt ?? now;
  bulkRunRecords.put(draft, group, pid, { ...state, enqueuedAt }, data);
}

/** A run that ends now. Its record stays for a while. */
export function ended(
  { stored, run }: Pick<BulkRunRecord, 'stored' | 'run'>,
  state: BulkRunState,
  now: Instant,
  problem = '',
): RunAfter {
  return {
    stored: { ...stored, run: { ...run, state, problem, endedUnixMs: now } },
    until: (now + limits.bulkRunRetentionMs) as Instant,
  };
}
