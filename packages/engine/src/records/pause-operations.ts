import { formatQueueName, limits, type QueueName, QueuePause } from '@taskmaster/proto';
import type { Instant } from '../domain/ids.ts';
import {
  decodePause,
  type PauseCommand,
  type PauseOperations,
  type PauseRecord,
  type Resumed,
} from '../domain/queue-pauses.ts';
import { inOrder } from '../domain/queue-settings.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { recordState } from '../operations/attempts.ts';
import type { Sweep } from '../sweeper.ts';
import { changeRecords, type RecordRequests } from './change-records.ts';
import { pidOfPattern, putPatternRecord } from './pattern-records.ts';
import { pauseRecords } from './record-store.ts';

/** Records that one look removes. */
const RECORDS_AT_ONCE = 64;
/** More than a record takes beside its texts. */
const RECORD_BYTES = 64;

/** The operations of an engine on pauses of queues. */
export const pauseOperations = ({ change, read }: RecordRequests): PauseOperations => ({
  pause: (command) => {
    const bytes = RECORD_BYTES + command.queues.name.length + command.reason.length + command.by.length;
    return change((engineState) => pauseQueues(engineState, command), bytes);
  },
  resume: (pattern) => change((engineState) => resumeQueues(engineState, pattern)),
  list: (group) =>
    read(group, async (engineState) => {
      const pauses = inOrder(engineState.pauses.list(group, engineState.clock.now()));
      await engineState.durable();
      return pauses;
    }),
});

function pauseQueues(engineState: EngineState, { queues, ...command }: PauseCommand): Promise<PauseRecord> {
  return changeRecords(engineState, queues.group, (draft, now) => {
    const until = endOf(command, now);
    const before = engineState.pauses.find(queues, now);
    const data = QueuePause.encode({
      queues: formatQueueName(queues),
      reason: command.reason,
      pausedBy: command.by,
      sinceUnixMs: before?.message.sinceUnixMs ?? now,
      untilUnixMs: until ?? 0,
    }).finish();
    const state = recordState(data, now, until);
    putPatternRecord(draft, pauseRecords, { queues, state, data }, limits.queuePauses, 'pauses: end some');
    return decodePause(data, until);
  });
}

function endOf({ durationMs, until }: Pick<PauseCommand, 'durationMs' | 'until'>, now: Instant): Instant | undefined {
  if (durationMs !== undefined) return (now + durationMs) as Instant;
  if (until === undefined || until > now) return until;
  throw new Refusal('INVALID_ARGUMENT', `until_unix_ms is ${until}: the node's clock is at ${now} already`, {
    metadata: { field: 'until_unix_ms', value: String(until) },
  });
}

const resumeQueues = (engineState: EngineState, queues: QueueName): Promise<Resumed> =>
  changeRecords(engineState, queues.group, (draft, now) => {
    const { group, name: pattern } = queues;
    const others = engineState.pauses.list(group, now).filter((other) => other.pattern !== pattern);
    // A pattern that matches the text of another one matches all names that this one matches.
    const pauses = inOrder(others.filter(({ matches }) => matches(pattern)));
    const resumed = engineState.pauses.find(queues, now) !== undefined;
    pauseRecords.remove(draft, group, pidOfPattern(pattern));
    return { resumed, pauses };
  });

/** Ends pauses in time, which serves the requests that wait for their queues, and removes their records. */
export const sweepPauses: Sweep<PauseRecord> = {
  everyMs: 100,
  atOnce: 16,
  next: ({ holdsEndAt }) => holdsEndAt,
  *due(engineState) {
    engineState.endHolds(engineState.clock.now());
    // Few, and none that would wait: requests wait for the next look.
    let left = RECORDS_AT_ONCE;
    for (const pause of engineState.pauses.ended) {
      if (!engineState.holdings.canCommit(engineState.partitionOf(pause.group))) continue;
      if (left-- === 0) return;
      yield pause;
    }
  },
  sweep: (engineState, { group, pattern }) =>
    changeRecords(engineState, group, (draft, now) => {
      // It may have been renewed meanwhile.
      if (engineState.pauses.find({ group, name: pattern }, now) !== undefined) return;
      pauseRecords.remove(draft, group, pidOfPattern(pattern));
    }),
};
