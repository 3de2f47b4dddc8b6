import type { Pid } from '../../domain/ids.ts';
import { LONG_AGO, NEVER } from '../../domain/task.ts';
import type { EngineState } from '../../engine-state.ts';
import { EngineView } from '../../pending/engine-view.ts';
import type { Queue } from '../../queues/queue.ts';
import { endRecords } from '../../records/record-store.ts';
import type { Sweep } from '../../sweeper.ts';
import { type Attempt, decide } from '../decide.ts';
import { mayBeDue, showDue } from '../expire.ts';
import { hiddenPids } from '../get-and-peek.ts';
import { TaskDraft } from '../task-draft.ts';

const RECORDS_PER_ATOM = 1000;

/**
 * Removes records of ends and early signals: those that were kept long enough, and in groups that have too many bytes of them
 * those that would go first.
 */
export const sweepEnds: Sweep<Queue> = {
  everyMs: 500,
  next: ({ records }) => (records.size === 0 ? NEVER : LONG_AGO),
  *due(engineState) {
    for (const queue of engineState.records) {
      const isToSweep = mayBeDue(queue, engineState.clock.now()) || isLarge(engineState, queue);
      if (isToSweep && !queue.dropped && engineState.holdings.canCommit(queue.partition)) yield queue;
    }
  },
  async sweep(engineState, queue) {
    if (mayBeDue(queue, engineState.clock.now())) await showDue(engineState, queue);
    for (let evicted = 1; evicted > 0 && isLarge(engineState, queue); ) {
      evicted = await evict(engineState, queue);
      engineState.counts.resultsEvicted += evicted;
    }
  },
};

/** Signals that are kept for their tasks go with their time only. */
const isLarge = ({ config }: EngineState, { ledger }: Queue): boolean =>
  ledger.bytes > config.maxResultBytes && endRecords.has(ledger.name);

/** Removes the records that would go first, until the bytes are within the limit or the atom is large enough. */
async function evict(engineState: EngineState, queue: Queue): Promise<number> {
  const pids = await hiddenPids(engineState, queue, RECORDS_PER_ATOM);
  const { result } = await decide(engineState, queue.partition, (now, reads): Attempt<number> => {
    const draft = new TaskDraft(new EngineView(engineState, now, reads));
    let excess = queue.dropped ? 0 : queue.ledger.bytes - engineState.config.maxResultBytes;
    for (const pid of pids) {
      if (excess <= 0) break;
      excess -= evictOne(draft, queue, pid);
    }
    const { needs, changes } = draft;
    if (needs.length > 0) return { kind: 'needs', needs };
    return { kind: 'decided', result: changes.length, changes: changes.length === 0 ? undefined : { changes } };
  });
  return result;
}

/** Returns the bytes of the record. */
function evictOne(draft: TaskDraft, queue: Queue, pid: Pid): number {
  const record = draft.find(queue, pid);
  if (record === undefined) return 0;
  draft.remove(queue, pid, record, 'moved');
  return record.state.dataBytes;
}
