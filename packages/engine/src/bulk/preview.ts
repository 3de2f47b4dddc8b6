import { BulkAction, limits } from '@taskmaster/proto';
import { type BulkCommand, type BulkPlace, type BulkPreview, taskFilter } from '../domain/bulk-runs.ts';
import type { TaskView } from '../domain/commands.ts';
import { isLeasedAt } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { EngineView } from '../pending/engine-view.ts';
import { Reads } from '../pending/reads.ts';
import { BEGINNING, type FoundTask, lookFrom, matchingNow, queuesOf } from './look.ts';
import { targetOf } from './run-slice.ts';

/** For how long a preview looks at tasks, in ms: people wait for it, and headers of large tasks take long to read. */
const LOOK_MS = 5_000;

/** Counts the tasks that a run would change if it began now. Looks at a bounded number of tasks behind a place. */
export async function previewBulk(
  engineState: EngineState,
  { queues, spec }: BulkCommand,
  from = BEGINNING,
): Promise<BulkPreview> {
  const filter = taskFilter(spec, engineState.clock.now());
  const chosen = queuesOf(engineState, queues, { except: targetOf(spec)?.name });
  const tasks = chosen.reduce((sum, { ledger }) => sum + ledger.size, 0);
  const filled = chosen.filter(({ ledger }) => ledger.size > 0);
  const counts = { queues: filled.length, tasks, lookedAt: 0, matched: 0, leased: 0 };
  const samples: TaskView[] = [];
  const end = engineState.clock.now() + LOOK_MS;
  const goesOn = (): boolean => counts.lookedAt < limits.bulkPreviewTasks && engineState.clock.now() < end;
  let place: BulkPlace | undefined = from;
  while (place !== undefined && goesOn()) {
    const found = await lookFrom(engineState, chosen, filter, place, filter.passes !== undefined);
    const matching = await readMatching(engineState, found.tasks, filter);
    const now = engineState.clock.now();
    counts.lookedAt += found.lookedAt;
    counts.matched += matching.length;
    if (spec.action !== BulkAction.BULK_ACTION_CANCEL) {
      counts.leased += matching.filter(({ state }) => isLeasedAt(state, now)).length;
    }
    for (const { queue, pid, state } of matching.slice(0, limits.bulkPreviewSamples - samples.length)) {
      samples.push({ queue: queue.ledger.name, pid, state, data: undefined });
    }
    place = found.next;
  }
  await engineState.durable();
  return { ...counts, samples, next: place };
}

async function readMatching(
  engineState: EngineState,
  tasks: readonly FoundTask[],
  filter: Parameters<typeof matchingNow>[2],
): Promise<readonly FoundTask[]> {
  using reads = new Reads(engineState);
  for (;;) {
    const now = engineState.clock.now();
    const { tasks: matching, needs } = matchingNow(new EngineView(engineState, now, reads), tasks, filter, now);
    if (needs.length === 0) return matching;
    await reads.fetch(needs);
  }
}
