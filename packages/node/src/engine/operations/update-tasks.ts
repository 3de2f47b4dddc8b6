import {
  type Instant,
  type PartitionId,
  Refusal,
  type UpdateCommand,
  type UpdateOutcome,
  UpdateRefusal,
} from '@taskmaster/server/domain';
import type { RecordedRequest } from '../../domain/atom.ts';
import type { EngineState } from '../engine-state.ts';
import { EngineView } from '../pending/engine-view.ts';
import type { Reads } from '../pending/reads.ts';
import type { Queue } from '../queues/queue.ts';
import { decodeOutcome, encodeOutcome } from '../requests/outcome-codec.ts';
import { fingerprintOf } from '../requests/request-fingerprint.ts';
import type { RequestKnowledge } from '../requests/request-ids.ts';
import { type Attempt, type Changes, decide, decideNow } from './decide.ts';
import { tryShowDue } from './expire.ts';
import { refusalByLimit } from './limits.ts';
import { planUpdate, type UpdatePlan } from './plan-update.ts';

/** The decision on an update. A success is committed but not durable yet. */
type Decision =
  | { readonly kind: 'done'; readonly outcome: UpdateOutcome; readonly deadLettered: number }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

/** What an update has learnt between its attempts, beside its reads. */
interface Learnt {
  /** Queues that were asked for dead tasks. */
  readonly asked: Set<Queue>;
  /** Queues whose due tasks could not be shown. */
  readonly notShown: Set<Queue>;
  /** What the store knows of the request id. Undefined: it was not asked. */
  request: RequestKnowledge | undefined;
}

const nothing = (): Learnt => ({ asked: new Set(), notShown: new Set(), request: undefined });
const NOTHING: Readonly<Learnt> = nothing();

/** UpdateTasks (the paper, 4). Nearly all updates are decided by the first attempt, because they need no read and no wait. */
export async function updateTasks(memory: EngineState, command: UpdateCommand): Promise<UpdateOutcome> {
  const { partition, latin1 } = memory.groups.get(command.group);
  const request = nameOfRequest(latin1, command);
  const update: Update = { memory, command, partition, request };
  const decision =
    decideNow(memory, partition, (now) => attempt(update, now, NOTHING))?.result ?? (await later(update));
  // A refusal also waits: a task that it reports as missing must not reappear after a crash.
  await memory.durable();
  if (decision.kind === 'refused') throw decision.refusal;
  memory.counts.tasksDeadLettered += decision.deadLettered;
  return decision.outcome;
}

async function later(update: Update): Promise<Decision> {
  const { memory, partition, request } = update;
  using _held = request === undefined ? undefined : memory.requests.hold(request);
  const learnt = nothing();
  return decide(memory, partition, (now, reads) => attempt(update, now, learnt, reads));
}

/**
 * Queues whose dead tasks may belong into queues of the update, except those that were asked for them. They must be moved before
 * the update is decided.
 */
function sourcesOf(
  memory: EngineState,
  { group, enqueue, dequeue, renew, release }: UpdateCommand,
  asked: ReadonlySet<Queue>,
): readonly Queue[] {
  const { lastAttempts } = memory;
  if (!lastAttempts.anyInto(group)) return NO_QUEUES;
  const now = memory.clock.now();
  const sources = new Set<Queue>();
  for (const items of [enqueue, dequeue, renew, release]) {
    let last: string | undefined;
    for (const { queue } of items) {
      // Most items in a row name the same queue.
      if (queue.name === last) continue;
      last = queue.name;
      for (const source of lastAttempts.into(queue, now)) if (!asked.has(source)) sources.add(source);
    }
  }
  return [...sources];
}

interface Update {
  readonly memory: EngineState;
  readonly command: UpdateCommand;
  readonly partition: PartitionId;
  /** The request id with its group, because a partition holds many groups. */
  readonly request: string | undefined;
}

function attempt(update: Update, now: Instant, learnt: Learnt, reads?: Reads): Attempt<Decision> {
  const { memory, command, request } = update;
  const sources = sourcesOf(memory, command, learnt.asked);
  if (sources.length > 0) return { kind: 'waits', wait: () => askForDead(memory, sources, learnt) };
  if (request !== undefined) {
    const known = memory.requests.lookUp(request, now);
    const seen = known.kind === 'unknown' ? learnt.request : known;
    if (seen === undefined) return { kind: 'waits', wait: () => askForRequest(update, request, learnt) };
    if (seen.kind === 'seen') return { kind: 'decided', result: repeat(command, seen.outcome) };
  }
  const plan = planUpdate(command, new EngineView(memory, now, reads, learnt.notShown));
  if (plan.kind === 'needs') return plan;
  if (plan.kind === 'due') return { kind: 'waits', wait: () => showDueOf(memory, plan.queues, learnt) };
  if (plan.kind === 'refused') return refused(new UpdateRefusal(plan.items));
  const refusal = refusalByLimit(memory, command, plan);
  if (refusal !== undefined) return refused(refusal);
  const { outcome, deadLettered } = plan;
  return { kind: 'decided', result: { kind: 'done', outcome, deadLettered }, changes: changesOf(update, plan) };
}

const refused = (refusal: Refusal): Attempt<Decision> => ({ kind: 'decided', result: { kind: 'refused', refusal } });

async function askForDead(memory: EngineState, sources: readonly Queue[], { asked }: Learnt): Promise<void> {
  for (const queue of sources) asked.add(queue);
  for (const queue of sources) await tryShowDue(memory, queue);
}

async function showDueOf(memory: EngineState, queues: Iterable<Queue>, { notShown }: Learnt): Promise<void> {
  for (const queue of queues) if (!(await tryShowDue(memory, queue))) notShown.add(queue);
}

async function askForRequest({ memory, partition }: Update, request: string, learnt: Learnt): Promise<void> {
  learnt.request = await memory.requests.read(partition, request, memory.clock.now());
}

const NO_QUEUES: readonly Queue[] = [];

const nameOfRequest = (group: string, { requestId }: UpdateCommand): string | undefined =>
  requestId === undefined ? undefined : `${group}\0${requestId}`;

/** Undefined: nothing changes. The request id of an update whose enqueues all collapsed is recorded nevertheless. */
function changesOf(
  { command, request: id }: Update,
  plan: Extract<UpdatePlan, { kind: 'planned' }>,
): Changes | undefined {
  const { changes, created } = plan;
  if (id === undefined) return changes.length === 0 ? undefined : { changes, created };
  const request: RecordedRequest = { id, outcome: encodeOutcome(fingerprintOf(command), plan.outcome) };
  return { changes, created, request };
}

function repeat(command: UpdateCommand, recorded: string): Decision {
  const { fingerprint, outcome } = decodeOutcome(recorded);
  if (fingerprint === fingerprintOf(command)) return { kind: 'done', outcome, deadLettered: 0 };
  const message = 'the request id was used for a different request before';
  return { kind: 'refused', refusal: new Refusal('REQUEST_ID_REUSED', message) };
}
