import { formatQueueName, limits, QueueLimit, type QueueName } from '@taskmaster/proto';
import { decodeLimit, type LimitCommand, type LimitOperations, type LimitUse } from '../domain/queue-limits.ts';
import { inOrder } from '../domain/queue-settings.ts';
import { LONG_AGO, NEVER } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { recordState } from '../operations/attempts.ts';
import { dueUnder, showAllDue, showDue } from '../operations/expire.ts';
import { NONE_HELD } from '../queues/lease-limit.ts';
import type { Queue } from '../queues/queue.ts';
import type { Sweep } from '../sweeper.ts';
import { changeRecords, type RecordRequests } from './change-records.ts';
import type { QueuesLimit } from './limit-table.ts';
import { pidOfPattern, putPatternRecord } from './pattern-records.ts';
import { limitRecords } from './record-store.ts';

/** More than a record takes beside its texts. */
const RECORD_BYTES = 64;
/** How many queues look for expired leases at once. */
const SEARCHES_AT_ONCE = 16;

/** The operations of an engine on limits of queues. */
export const limitOperations = ({ change, read }: RecordRequests): LimitOperations => ({
  limit: (command) => {
    const bytes = RECORD_BYTES + command.queues.name.length + command.keys.length + command.by.length;
    return change((engineState) => limitQueues(engineState, command), bytes);
  },
  unlimit: (pattern, keys) =>
    change(async (engineState) => {
      const removed = await removeLimit(engineState, pattern, keys);
      // A pattern that matches the text of another one matches all names that this one matches.
      const others = engineState.limits.list(pattern.group).filter(({ record }) => record.matches(pattern.name));
      return { removed, limits: usesOf(others) };
    }),
  list: (group) =>
    read(group, async (engineState) => {
      await showAllDue(engineState, dueUnder(engineState.limits.list(group), engineState.clock.now()));
      const uses = usesOf(engineState.limits.list(group));
      await engineState.durable();
      return uses;
    }),
});

/** What is used of the limits now, the most specific limits first. */
const usesOf = (found: readonly QueuesLimit[]): LimitUse[] => inOrder([...found]).map(useOf);

const useOf = (limit: QueuesLimit): LimitUse => limit.useNow(limits.heldKeys);

async function limitQueues(
  engineState: EngineState,
  { queues, keys, by, maxLeased, rate }: LimitCommand,
): Promise<LimitUse> {
  const record = await changeRecords(engineState, queues.group, (draft, now) => {
    const before = engineState.limits.find(queues, keys);
    const message = {
      queues: formatQueueName(queues),
      maxLeased,
      rate,
      limitedBy: by,
      sinceUnixMs: before?.record.message.sinceUnixMs ?? now,
      leased: 0,
      usedUpSinceUnixMs: 0,
      keys,
      heldKeys: [],
      heldKeyCount: 0,
      heldTasks: 0,
    };
    const data = QueueLimit.encode(message).finish();
    const state = recordState(data, now);
    putPatternRecord(draft, limitRecords, { queues, keys, state, data }, limits.queueLimits, 'limits: end some');
    return decodeLimit(data);
  });
  const use = engineState.limits.find(queues, keys);
  return use === undefined ? { record, leased: 0, usedUpSince: undefined, ...NONE_HELD } : useOf(use);
}

const removeLimit = (engineState: EngineState, { group, name }: QueueName, keys: string): Promise<boolean> =>
  changeRecords(engineState, group, (draft) => limitRecords.remove(draft, group, pidOfPattern(name, keys)));

/**
 * Gives slots back whose leases have expired, if tasks wait for them. The requests that wait for these tasks stand in the lines
 * of other queues, so no timer of their own looks for these leases.
 */
export const sweepLimits: Sweep<Queue> = {
  everyMs: 100,
  atOnce: SEARCHES_AT_ONCE,
  next: ({ limits: { usedUp } }) => (usedUp.size === 0 ? NEVER : LONG_AGO),
  *due({ limits: { usedUp }, holdings, clock }) {
    if (usedUp.size === 0) return;
    const held = [...usedUp].filter(({ waiting }) => waiting.size > 0);
    // None that would wait: requests wait for the next look.
    for (const queue of dueUnder(held, clock.now())) if (holdings.canCommit(queue.partition)) yield queue;
  },
  sweep: showDue,
};
