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

/**
 * UpdateTasks (the paper, 4): read what memory does not know, decide, commit. Deciding and committing happen in one turn,
 * so nothing can change in between; operations wait for their own reads only, never for each other.
 */
export async function updateTasks(memory: Memory, command: UpdateCommand): Promise<UpdateOutcome> {
  const partition = memory.partitionOf(command.group);
  using reads = new Reads(memory.store, memory.counts);
  using _held = command.requestId === undefined ? undefined : memory.requests.hold(partition, command.requestId);
  let readRequest: RequestKnowledge | undefined;
  for (;;) {
    memory.assertCurrent();
    const now = memory.clock.now();
    if (command.requestId !== undefined) {
      const known = memory.requests.lookUp(partition, command.requestId, now);
      const seen = known.kind === 'unknown' ? readRequest : known;
      if (seen === undefined) {
        readRequest = await memory.requests.read(partition, command.requestId, now);
        continue;
      }
      if (seen.kind === 'seen') return repeat(memory, command, seen.outcome);
    }
    const view = { ...viewOf(memory, reads), now, random: memory.random };
    const plan = planUpdate(command, view);
    if (plan.kind === 'needs') {
      await reads.fetch(plan.needs);
      continue;
    }
    if (plan.kind === 'refused') {
      // What the refusal speaks of must be durable too: a task seen as gone must not come back.
      await memory.durable();
      throw new UpdateRefusal(plan.items);
    }
    commit(memory, partition, command, plan, now);
    await memory.durable();
    memory.counts.tasksDeadLettered += plan.deadLettered;
    return plan.outcome;
  }
}

function commit(
  memory: Memory,
  partition: PartitionId,
  command: UpdateCommand,
  plan: Extract<UpdatePlan, { kind: 'planned' }>,
  at: Instant,
): void {
  const { requestId } = command;
  // An update that only collapsed into existing tasks changes nothing; its id is remembered all the same.
  if (plan.changes.length === 0 && requestId === undefined) return;
  const outcome = requestId === undefined ? undefined : encodeOutcome(fingerprintOf(command), plan.outcome);
  const request = requestId !== undefined && outcome ? { id: requestId, outcome } : undefined;
  // Before the commit: it may hand tasks to waiting callers, and all of it is one turn.
  if (request) memory.requests.remember(partition, request.id, at, request.outcome);
  memory.commit({ partition, at, changes: plan.changes, created: plan.created, request });
}

async function repeat(memory: Memory, command: UpdateCommand, recorded: Uint8Array): Promise<UpdateOutcome> {
  const { fingerprint, outcome } = decodeOutcome(recorded);
  if (fingerprint !== fingerprintOf(command)) {
    throw new Refusal('REQUEST_ID_REUSED', 'the request id was used for a different request before');
  }
  await memory.durable();
  return outcome;
}
