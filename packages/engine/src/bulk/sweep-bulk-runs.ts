import { BulkAction, BulkRunState } from '@taskmaster/proto';
import { type BulkRunRecord, goesOn } from '../domain/bulk-runs.ts';
import { UnreadableBytesError } from '../domain/bytes.ts';
import type { Instant } from '../domain/ids.ts';
import { LONG_AGO, NEVER } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { StoreCorruptError } from '../ports/store.ts';
import { changeRecords } from '../records/change-records.ts';
import { bulkRunRecords } from '../records/record-store.ts';
import type { Sweep } from '../sweeper.ts';
import { ended, pidOfRun, putRun, tellEnd } from './record.ts';
import { type FoundAhead, onThisNode, runSlice } from './run-slice.ts';

/** Slices of a run in one sweep. Then the next run has its turn. */
const SLICES_AT_ONCE = 10;

/** Does the next slices of bulk runs, and removes runs that ended long ago. */
export const sweepBulkRuns = (found: FoundAhead = new WeakMap()): Sweep<BulkRunRecord> => ({
  everyMs: 100,
  atOnce: 4,
  next: firstDue(),
  *due(engineState) {
    const now = engineState.clock.now();
    for (const record of engineState.bulkRuns.all()) {
      const { group } = record.queues;
      // A partition that moves is left to its next holder.
      if (!isDue(record, now) || !engineState.holdings.canCommit(engineState.partitionOf(group))) continue;
      if (!goesOn(record) || hasRoom(engineState, record)) yield record;
    }
  },
  async sweep(engineState, record, isWritable) {
    if (!goesOn(record)) {
      await remove(engineState, record);
      return;
    }
    if (!record.isKnown) {
      await fail(
        engineState,
        record,
        'a later release has started it, and this one does not know all that it asks for',
      );
      return;
    }
    try {
      await runSlices(engineState, record, found, isWritable);
    } catch (error) {
      if (!(error instanceof StoreCorruptError || error instanceof UnreadableBytesError)) throw error;
      await fail(engineState, record, error.message);
    }
  },
});

/** When the first run is due. Looks at all runs only when some have changed. */
function firstDue(): (engineState: EngineState) => Instant {
  let seen:
    | { readonly bulkRuns: EngineState['bulkRuns']; readonly changes: number; readonly first: Instant }
    | undefined;
  return ({ bulkRuns }) => {
    if (seen?.bulkRuns !== bulkRuns || seen.changes !== bulkRuns.changes) {
      let first = NEVER;
      for (const { until = LONG_AGO } of bulkRuns.all()) if (until < first) first = until;
      seen = { bulkRuns, changes: bulkRuns.changes, first };
    }
    return seen.first;
  };
}

const isDue = ({ until }: BulkRunRecord, now: Instant): boolean => until === undefined || until <= now;

/** On a full disk only work that frees space goes on. */
const hasRoom = ({ store }: EngineState, { run }: BulkRunRecord): boolean =>
  store.state.kind !== 'full' || run.spec.action === BulkAction.BULK_ACTION_DELETE;

async function runSlices(
  engineState: EngineState,
  first: BulkRunRecord,
  found: FoundAhead,
  isWritable: () => boolean,
): Promise<void> {
  const onNode = await onThisNode(engineState, first, found);
  if (onNode === undefined) return;
  let record: BulkRunRecord | undefined = first;
  for (let slices = 0; slices < SLICES_AT_ONCE && isWritable(); slices++) {
    record = await runSlice(engineState, record, onNode);
    if (record === undefined || !goesOn(record) || !isDue(record, engineState.clock.now())) return;
  }
}

const remove = (engineState: EngineState, { queues: { group }, run }: BulkRunRecord): Promise<void> =>
  changeRecords(engineState, group, (draft) => {
    bulkRunRecords.remove(draft, group, pidOfRun(run.id));
  });

/** Ends a run that cannot go on. */
async function fail(
  engineState: EngineState,
  { queues: { group }, run }: BulkRunRecord,
  problem: string,
): Promise<void> {
  const after = await changeRecords(engineState, group, (draft, now) => {
    const record = engineState.bulkRuns.of(group)?.get(pidOfRun(run.id));
    if (record === undefined || !goesOn(record)) return undefined;
    const failed = ended(record, BulkRunState.BULK_RUN_STATE_FAILED, now, problem);
    putRun(draft, group, failed, now);
    return failed;
  });
  if (after !== undefined) tellEnd(engineState, after);
}
