import { type Refusal, type UpdateCommand, UpdateRefusal, type UpdateResult } from '@taskmaster/server/domain';
import type { Need } from '../pending/reads.ts';
import type { Queue } from '../queues/queue.ts';
import { UpdatePlanner, type UpdateView } from './plan-update.ts';
import { type DraftMark, TaskDraft } from './task-draft.ts';

export type BatchPlan =
  /** Plan again after these have been read. */
  | { readonly kind: 'needs'; readonly needs: readonly Need[] }
  /** Plan again after the due tasks of these queues are shown: last attempts have ended there. */
  | { readonly kind: 'due'; readonly queues: ReadonlySet<Queue> }
  | {
      readonly kind: 'planned';
      /** In the order of the updates. */
      readonly results: readonly UpdateResult[];
      /** The changes of the updates that are not refused. */
      readonly draft: TaskDraft;
    };

/** The refusal of an update for another reason than its items. `from`: where its changes begin in the draft. */
export type Objection = (command: UpdateCommand, draft: TaskDraft, from: DraftMark) => Refusal | undefined;

/** Decides updates in order on one draft. Refused ones leave nothing in it. */
export function planBatch(updates: readonly UpdateCommand[], view: UpdateView, objection: Objection): BatchPlan {
  const draft = new TaskDraft(view);
  const planner = new UpdatePlanner(view, draft);
  const results: UpdateResult[] = [];
  for (const command of updates) {
    const from = draft.mark;
    const plan = planner.plan(command);
    if (plan.kind === 'due') return plan;
    // Go on, so that one read fetches what all updates need.
    if (plan.kind === 'needs') continue;
    const refusal = plan.kind === 'refused' ? new UpdateRefusal(plan.items) : objection(command, draft, from);
    if (refusal !== undefined) {
      draft.rollBack(from);
      results.push({ kind: 'refused', refusal });
    } else if (plan.kind === 'planned') {
      results.push({ kind: 'done', outcome: plan.outcome });
    }
  }
  return draft.needs.length > 0 ? { kind: 'needs', needs: draft.needs } : { kind: 'planned', results, draft };
}
