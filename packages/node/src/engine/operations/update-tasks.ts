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
import { type Need, Reads } from '../pending/reads.ts';
import type { Queue } from '../queues/queue.ts';
import { decodeOutcome, encodeOutcome } from '../requests/outcome-codec.ts';
import { fingerprintOf } from '../requests/request-fingerprint.ts';
import type { RequestKnowledge } from '../requests/request-ids.ts';
import { tryShowDue } from './expire.ts';
import { refusalByLimit } from './limits.ts';
import { planUpdate, type UpdatePlan } from './plan-update.ts';

/** The decision on an update. A success is committed but not durable yet. */
type Decision =
  | { readonly kind: 'done'; readonly outcome: UpdateOutcome; readonly deadLettered: number }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

/** A decision, or what must happen before the next attempt. */
type Attempt =
  | Decision
  | { readonly kind: 'needs'; readonly needs: readonly Need[] }
  | { readonly kind: 'due'; readonly queues: Iterable<Queue> }
  /** The store must be asked whether it has the request id. */
  | { readonly kind: 'request-unknown' };

/**
 * UpdateTasks (the paper, 4): reads what is not in memory, decides, commits. Decision and commit happen in one turn, so no
 * state changes in between. Operations wait for their own reads only, never for each other.
 */
export async function updateTasks(memory: EngineState, command: UpdateCommand): Promise<UpdateOutcome> {
  const decision = decideNow(memory, command) ?? (await decide(memory, command));
  // A refusal also waits: a task that it reports as missing must not reappear after a crash.
  await memory.durable();
  if (decision.kind === 'refused') throw decision.refusal;
  memory.counts.tasksDeadLettered += decision.deadLettered;
  return decision.outcome;
}

/** The fast path, taken by nearly all updates: decides at once if no read and no wait is needed. Otherwise undefined. */
function decideNow(memory: EngineState, command: UpdateCommand): Decision | undefined {
  memory.assertCurrent();
  const { partition, latin1 } = memory.groups.get(command.group);
  if (!memory.holdings.canCommit(partition)) return undefined;
  if (sourcesOf(memory, command).length > 0) return undefined;
  const attempted = attempt(memory, command, partition, nameOfRequest(latin1, command));
  return attempted.kind === 'done' || attempted.kind === 'refused' ? attempted : undefined;
}

async function decide(memory: EngineState, command: UpdateCommand): Promise<Decision> {
  const { partition, latin1 } = memory.groups.get(command.group);
  const requestName = nameOfRequest(latin1, command);
  using reads = new Reads(memory);
  using _held = requestName === undefined ? undefined : memory.requests.hold(requestName);
  let readRequest: RequestKnowledge | undefined;
  const asked = new Set<Queue>();
  const notShown = new Set<Queue>();
  for (;;) {
    memory.assertCurrent();
    const gate = memory.holdings.gate(partition);
    if (gate) {
      await gate;
      continue;
    }
    const sources = sourcesOf(memory, command).filter((queue) => !asked.has(queue));
    for (const queue of sources) asked.add(queue);
    if (sources.length > 0) {
      for (const queue of sources) await tryShowDue(memory, queue);
      continue;
    }
    const attempted = attempt(memory, command, partition, requestName, readRequest, reads, notShown);
    if (attempted.kind === 'due') {
      for (const queue of attempted.queues) if (!(await tryShowDue(memory, queue))) notShown.add(queue);
    } else if (attempted.kind === 'needs') await reads.fetch(attempted.needs);
    else if (attempted.kind !== 'request-unknown') return attempted;
    else if (requestName !== undefined) {
      readRequest = await memory.requests.read(partition, requestName, memory.clock.now());
    }
  }
}

/** Queues whose dead tasks may belong into queues of the update. They must be moved before the update is decided. */
function sourcesOf(memory: EngineState, { group, enqueue, dequeue, renew, release }: UpdateCommand): Queue[] {
  const { lastAttempts } = memory;
  if (!lastAttempts.anyInto(group)) return NO_QUEUES;
  const now = memory.clock.now();
  const sources = new Set<Queue>();
  for (const items of [enqueue, dequeue, renew, release]) {
    let asked: string | undefined;
    for (const { queue } of items) {
      // Most items in a row name the same queue.
      if (queue.name === asked) continue;
      asked = queue.name;
      for (const source of lastAttempts.into(queue, now)) sources.add(source);
    }
  }
  return [...sources];
}

/** Decides and commits, if memory and the reads so far are sufficient. */
function attempt(
  memory: EngineState,
  command: UpdateCommand,
  partition: PartitionId,
  requestName: string | undefined,
  readRequest?: RequestKnowledge,
  reads?: Reads,
  notShown?: ReadonlySet<Queue>,
): Attempt {
  const now = memory.clock.now();
  if (requestName !== undefined) {
    const known = memory.requests.lookUp(requestName, now);
    const seen = known.kind === 'unknown' ? readRequest : known;
    if (seen === undefined) return { kind: 'request-unknown' };
    if (seen.kind === 'seen') return repeat(command, seen.outcome);
  }
  const plan = planUpdate(command, new EngineView(memory, now, reads, notShown));
  if (plan.kind === 'needs' || plan.kind === 'due') return plan;
  if (plan.kind === 'refused') return { kind: 'refused', refusal: new UpdateRefusal(plan.items) };
  const refusal = refusalByLimit(memory, command, plan);
  if (refusal !== undefined) return { kind: 'refused', refusal };
  commit(memory, partition, command, requestName, plan, now);
  return { kind: 'done', outcome: plan.outcome, deadLettered: plan.deadLettered };
}

const NO_QUEUES: Queue[] = [];

/** The request id with its group, because a partition holds many groups. */
const nameOfRequest = (group: string, { requestId }: UpdateCommand): string | undefined =>
  requestId === undefined ? undefined : `${group}\0${requestId}`;

function commit(
  memory: EngineState,
  partition: PartitionId,
  command: UpdateCommand,
  requestName: string | undefined,
  plan: Extract<UpdatePlan, { kind: 'planned' }>,
  at: Instant,
): void {
  // An update whose enqueues all collapsed changes no task. Its request id, if any, is recorded nevertheless.
  if (plan.changes.length === 0 && requestName === undefined) return;
  const request: RecordedRequest | undefined =
    requestName === undefined
      ? undefined
      : { id: requestName, outcome: encodeOutcome(fingerprintOf(command), plan.outcome) };
  memory.commit({ partition, at, changes: plan.changes, created: plan.created, request });
}

function repeat(command: UpdateCommand, recorded: string): Decision {
  const { fingerprint, outcome } = decodeOutcome(recorded);
  if (fingerprint === fingerprintOf(command)) return { kind: 'done', outcome, deadLettered: 0 };
  const message = 'the request id was used for a different request before';
  return { kind: 'refused', refusal: new Refusal('REQUEST_ID_REUSED', message) };
}
