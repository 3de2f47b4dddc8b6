import { limits, parseQueueName, type QueueName, QueueSettings } from '@taskmaster/proto';
import type { SettingsOperations } from '../domain/queue-settings.ts';
import type { EngineState } from '../engine-state.ts';
import { recordState } from '../operations/attempts.ts';
import { mayBeDue, showAllDue } from '../operations/expire.ts';
import type { TaskDraft } from '../operations/task-draft.ts';
import type { Queue } from '../queues/queue.ts';
import { changeRecords, type RecordRequests } from './change-records.ts';
import { pidOfPattern, putPatternRecord } from './pattern-records.ts';
import { settingsRecords } from './record-store.ts';

/** The operations of an engine on the settings of queues. */
export const settingsOperations = ({ change, read }: RecordRequests): SettingsOperations => ({
  put: (settings) => {
    const data = QueueSettings.encode(settings).finish();
    const pattern = parseQueueName(settings.queues);
    return change((engineState) => putSettings(engineState, pattern, data), data.byteLength);
  },
  delete: (pattern) => change((engineState) => deleteSettings(engineState, pattern)),
  list: (group) =>
    read(group, async (engineState) => {
      const records = [...(engineState.settings.records.of(group)?.values() ?? [])];
      await engineState.durable();
      return records;
    }),
});

async function putSettings(engineState: EngineState, queues: QueueName, data: Uint8Array): Promise<void> {
  await change(engineState, queues.group, (draft) => {
    const state = recordState(data, engineState.clock.now());
    putPatternRecord(draft, settingsRecords, { queues, state, data }, limits.queueSettings, 'settings: delete some');
  });
}

const deleteSettings = (engineState: EngineState, pattern: QueueName): Promise<boolean> =>
  change(engineState, pattern.group, (draft) =>
    settingsRecords.remove(draft, pattern.group, pidOfPattern(pattern.name)),
  );

/** Changes the settings of a group. Attempts that are over have failed by the settings before. */
function change<T>(engineState: EngineState, group: string, plan: (draft: TaskDraft) => T): Promise<T> {
  const asked = new Set<Queue>();
  return changeRecords(engineState, group, plan, (now) => {
    const over = [...engineState.table.ofGroup(group)].filter(
      (queue) => queue.ledger.leased > 0 && mayBeDue(queue, now) && !asked.has(queue),
    );
    if (over.length === 0) return undefined;
    for (const queue of over) asked.add(queue);
    return () => showAllDue(engineState, over);
  });
}
