import type { Key, Pid } from '../../domain/ids.ts';
import { afterPrefix, pidOfTaskKey, taskKey } from '../../domain/keys.ts';
import type { TaskState } from '../../domain/task.ts';
import type { EngineState } from '../../engine-state.ts';
import { decodeTaskRow } from '../../log/atom-rows.ts';
import { Family } from '../../ports/store.ts';
import type { Queue } from '../queue.ts';
import type { KeyBacklogs } from './key-backlogs.ts';

/** Rows that are read at once. */
const ROWS_AT_ONCE = 1000;
const NOTHING = '' as Pid;

/** Counts the waiting tasks of each key of a queue. Those with keys are among the rows of hidden tasks, in order of PIDs. */
export function countKeys(engineState: EngineState, queue: Queue): Promise<void> {
  const backlogs = queue.keyBacklogs;
  if (backlogs === undefined || backlogs.isCounted) return Promise.resolve();
  backlogs.counting ??= count(engineState, queue, backlogs).finally(() => {
    backlogs.counting = undefined;
  });
  return backlogs.counting;
}

async function count({ store }: EngineState, queue: Queue, backlogs: KeyBacklogs): Promise<void> {
  using _hold = queue.hold();
  const { prefix } = queue;
  const lt = afterPrefix(prefix);
  backlogs.begin();
  let from = NOTHING;
  for (let gte = taskKey(prefix, NOTHING); ; ) {
    const rows = await store.scan(Family.hidden, { gte, lt }, { rows: ROWS_AT_ONCE, bytes: Number.MAX_SAFE_INTEGER });
    const last = rows.at(-1)?.key;
    const upTo = last === undefined || rows.length < ROWS_AT_ONCE ? undefined : pidOfTaskKey(last);
    const states: TaskState[] = [];
    for (const { key, value } of rows)
      if (queue.pendingOf(pidOfTaskKey(key)) === undefined) states.push(decodeTaskRow(value));
    // What has changed since the rows were written, or has none yet.
    for (const { pid, now } of queue.pendingChanges()) {
      const isInPart = (from === NOTHING || pid > from) && (upTo === undefined || pid <= upTo);
      if (isInPart && now !== undefined) states.push(now);
    }
    backlogs.add(states, upTo);
    if (upTo === undefined) return;
    from = upTo;
    gte = `${last}\0` as Key;
  }
}
