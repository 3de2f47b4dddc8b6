import { Refusal, UpdateRefusal } from '../domain/errors.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import type { UpdateCommand, UpdateOutcome } from './commands.ts';
import type { Memory } from './memory.ts';
import { decodeOutcome, encodeOutcome } from './outcome-codec.ts';
import { planUpdate, type UpdatePlan } from './plan-update.ts';
import { Reads } from './reads.ts';
import { fingerprintOf } from './request-fingerprint.ts';
import type { RequestKnowledge } from './request-ids.ts';
import { viewOf } from './view.ts';

/** What was decided of an update; a success is committed, and neither is durable yet. */
type Decision =
  | { readonly kind: 'done'; readonly outcome: UpdateOutcome; readonly deadLettered: number }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

/**
 * UpdateTasks (the paper, 4): read what memory does not know, decide, commit. Deciding and committing happen in one turn,
 * so nothing can change in between; operations wait for their own reads only, never for each other.
 */
export async function updateTasks(memory: Memory, command: UpdateCommand): Promise<UpdateOutcome> {
  const decision = await decide(memory, command);
  // A refusal speaks of what must be durable too: a task seen as gone must not come back.
  await memory.durable();
  if (decision.kind === 'refused') throw decision.refusal;
  memory.counts.tasksDeadLettered += decision.deadLettered;
  return decision.outcome;
}

async function decide(memory: Memory, command: UpdateCommand): Promise<Decision> {
  const partition = memory.partitionOf(command.group);
  using reads = new Reads(memory);
  const requestName = nameOfRequest(command);
  using _held = requestName === undefined ? undefined : memory.requests.hold(partition, requestName);
  let readRequest: RequestKnowledge | undefined;
  for (;;) {
    memory.assertCurrent();
    const gate = memory.holdings.gate(partition);
    if (gate) {
      await gate;
      continue;
    }
    const now = memory.clock.now();
    if (requestName !== undefined) {
      const known = memory.requests.lookUp(partition, requestName, now);
      const seen = known.kind === 'unknown' ? readRequest : known;
      if (seen === undefined) {
        readRequest = await memory.requests.read(partition, requestName, now);
        continue;
      }
      if (seen.kind === 'seen') return repeat(command, seen.outcome);
    }
    const view = { ...viewOf(memory, reads), now, random: memory.random };
    const plan = planUpdate(command, view);
    if (plan.kind === 'needs') {
      await reads.fetch(plan.needs);
      continue;
    }
    if (plan.kind === 'refused') return { kind: 'refused', refusal: new UpdateRefusal(plan.items) };
    commit(memory, partition, command, plan, now);
    return { kind: 'done', outcome: plan.outcome, deadLettered: plan.deadLettered };
  }
}

/** Ids are the groups' own: a partition holds many groups. */
const nameOfRequest = ({ group, requestId }: UpdateCommand): string | undefined =>
  requestId === undefined ? undefined : `${Buffer.from(group, 'utf8').toString('latin1')}\0${requestId}`;

function commit(
  memory: Memory,
  partition: PartitionId,
  command: UpdateCommand,
  plan: Extract<UpdatePlan, { kind: 'planned' }>,
  at: Instant,
): void {
  const requestId = nameOfRequest(command);
  // An update that only collapsed into existing tasks changes nothing; its id is remembered all the same.
  if (plan.changes.length === 0 && requestId === undefined) return;
  const outcome = requestId === undefined ? undefined : encodeOutcome(fingerprintOf(command), plan.outcome);
  const request = requestId !== undefined && outcome ? { id: requestId, outcome } : undefined;
  // Before the commit: it may hand tasks to waiting callers, and all of it is one turn.
  if (request) memory.requests.remember(partition, request.id, at, request.outcome);
  memory.commit({ partition, at, changes: plan.changes, created: plan.created, request });
}

function repeat(command: UpdateCommand, recorded: Uint8Array): Decision {
  const { fingerprint, outcome } = decodeOutcome(recorded);
  if (fingerprint === fingerprintOf(command)) return { kind: 'done', outcome, deadLettered: 0 };
  const message = 'the request id was used for a different request before';
  return { kind: 'refused', refusal: new Refusal('REQUEST_ID_REUSED', message) };
}
