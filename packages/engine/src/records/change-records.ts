import type { Instant } from '../domain/ids.ts';
import type { EngineState } from '../engine-state.ts';
import { type Attempt, decide } from '../operations/decide.ts';
import { TaskDraft } from '../operations/task-draft.ts';
import { EngineView } from '../pending/engine-view.ts';

/** How an engine runs requests about the records of a group. */
export interface RecordRequests {
  /** Runs a request that changes a group. `addedBytes`: bytes of payload that it adds. Undefined: it adds no tasks. */
  readonly change: <T>(work: (engineState: EngineState) => Promise<T>, addedBytes?: number) => Promise<T>;
  /** Runs a request that reads of a group. Undefined: of those that this node holds. */
  readonly read: <T>(group: string | undefined, work: (engineState: EngineState) => Promise<T>) => Promise<T>;
}

/**
 * Changes the records of a group in one atom. Resolves when it is durable.
 * @param first what has to end before the plan is made. Undefined: nothing.
 */
export async function changeRecords<T>(
  engineState: EngineState,
  group: string,
  plan: (draft: TaskDraft, now: Instant) => T,
  first: (now: Instant) => (() => Promise<unknown>) | undefined = () => undefined,
): Promise<T> {
  const { result, durable } = await decide(engineState, engineState.partitionOf(group), (now, reads): Attempt<T> => {
    const wait = first(now);
    if (wait !== undefined) return { kind: 'waits', wait };
    const draft = new TaskDraft(new EngineView(engineState, now, reads));
    const planned = plan(draft, now);
    const { needs, changes, created } = draft;
    if (needs.length > 0) return { kind: 'needs', needs };
    return { kind: 'decided', result: planned, changes: changes.length === 0 ? undefined : { changes, created } };
  });
  await durable;
  return result;
}
