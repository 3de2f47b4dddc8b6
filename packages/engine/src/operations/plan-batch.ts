import { limits } from '@taskmaster/proto';
import { BATCH_START } from '../domain/batches.ts';
import type { BatchCommand, BatchOutcome, EnqueueOutcome, UpdateEnd } from '../domain/commands.ts';
import { Refusal, UpdateRefusal } from '../domain/refusal.ts';
import type { Need } from '../pending/reads.ts';
import type { Queue } from '../queues/queue.ts';
import { settleEnds } from './flows/settle-ends.ts';
import { UpdatePlanner, type UpdateView } from './plan-update.ts';
import { type DraftMark, TaskDraft } from './task-draft.ts';

export type BatchPlan =
  /** Plan again after these have been read. */
  | { readonly kind: 'needs'; readonly needs: readonly Need[] }
  /** Plan again after these queues are searched: last attempts have ended there, or the tasks of each key must be counted. */
  | { readonly kind: 'due'; readonly queues: ReadonlySet<Queue> }
  | {
      readonly kind: 'planned';
      readonly outcome: BatchOutcome;
      /** The changes of the updates that are not refused. */
      readonly draft: TaskDraft;
    };

/** An update of a batch that is being planned. One object stands for all updates of the batch, one after the other. */
export interface PlannedUpdate {
  start: UpdateEnd;
  end: UpdateEnd;
  readonly draft: TaskDraft;
  /** Where its changes begin in the draft. */
  readonly mark: DraftMark;
  /** Outcomes of enqueues, which may be replaced: its own ones begin at `firstOutcome`. */
  readonly outcomes: EnqueueOutcome[];
  firstOutcome: number;
}

/** A refusal for another reason than items, or the queues that must be searched before there may be one; see `BatchPlan`. */
export type Objection = Refusal | { readonly kind: 'due'; readonly queues: ReadonlySet<Queue> };

/** Decides updates in order on one draft. Refused ones leave nothing in it. `most`: so many are decided, others come again. */
export function planBatch(
  command: BatchCommand,
  view: UpdateView,
  objectionTo: (update: Readonly<PlannedUpdate>) => Objection | undefined,
  most = Number.POSITIVE_INFINITY,
): BatchPlan {
  const draft = new TaskDraft(view);
  const planner = new UpdatePlanner(view, draft, command);
  const { mark } = draft;
  const outcomes = planner.enqueued;
  const update: PlannedUpdate = { start: BATCH_START, end: BATCH_START, draft, mark, outcomes, firstOutcome: 0 };
  let refusals: Map<number, Refusal> | undefined;
  let start = BATCH_START;
  let index = -1;
  for (const end of command.updates) {
    index++;
    if (index >= most) {
      refusals ??= new Map();
      refusals.set(index, tooMuchAtOnce('read as much'));
      continue;
    }
    draft.advance(mark);
    const enqueued = planner.enqueued.length;
    update.start = start;
    update.end = end;
    update.firstOutcome = enqueued;
    const renewed = planner.renewed.length;
    const released = planner.released.length;
    const { assignedBytes } = planner;
    const { told } = draft;
    draft.mostTold = limits.toldParents;
    const plan = planner.plan(start, end);
    // From here on nothing can be refused for it any more.
    draft.mostTold = Number.POSITIVE_INFINITY;
    if (plan.kind === 'due') return plan;
    // Goes on, so that one read fetches what all updates need.
    if (plan.kind !== 'needs') {
      const refused =
        plan.kind === 'refused' ? new UpdateRefusal(plan.items) : (tooManyParents(draft, told) ?? objectionTo(update));
      draft.tellsTooMany = false;
      if (refused !== undefined) {
        if (!(refused instanceof Refusal)) return refused;
        draft.rollBack(mark);
        draft.told = told;
        planner.rollBack(enqueued, renewed, released, assignedBytes);
        refusals ??= new Map();
        refusals.set(index, refused);
      } else if (draft.hasEnds) settleEnds(draft, view.now);
    }
    start = end;
  }
  if (draft.needs.length > 0) return { kind: 'needs', needs: draft.needs };
  const { enqueued, renewed, released } = planner;
  return { kind: 'planned', outcome: { enqueued, renewed, released, refusals: refusals ?? NO_REFUSALS }, draft };
}

/** `told`: how many have heard of the updates before. */
function tooManyParents({ tellsTooMany }: TaskDraft, told: number): Refusal | undefined {
  if (!tellsTooMany) return undefined;
  const limit = String(limits.toldParents);
  if (told === 0) {
    const message = `it ends tasks with more than ${limit} parents together: end them in several updates`;
    return new Refusal('TOO_MANY_ITEMS', message, { metadata: { field: 'dequeue', limit } });
  }
  return tooMuchAtOnce('end tasks with as many parents');
}

const tooMuchAtOnce = (what: string): Refusal =>
  new Refusal('OVERLOADED', `the updates before this one ${what} as one turn may`, { retryDelayMs: RETRY_DELAY_MS });

const RETRY_DELAY_MS = 100;
const NO_REFUSALS: ReadonlyMap<number, Refusal> = new Map();
