import { limits, parseQueueName, type QueueName, QueueSettings } from '@taskmaster/proto';
import { latin1Of } from '../domain/bytes.ts';
import type { Pid } from '../domain/ids.ts';
import type { SettingsOperations } from '../domain/queue-settings.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { recordState } from '../operations/attempts.ts';
import { mayBeDue, showAllDue } from '../operations/expire.ts';
import type { TaskDraft } from '../operations/task-draft.ts';
import type { Queue } from '../queues/queue.ts';
import { changeRecords, type RecordRequests } from './change-records.ts';
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

const pidOf = ({ name }: QueueName): Pid => latin1Of(Buffer.from(name)) as Pid;

async function putSettings(engineState: EngineState, pattern: QueueName, data: Uint8Array): Promise<void> {
  const { group } = pattern;
  const pid = pidOf(pattern);
  await change(engineState, group, (draft) => {
    const isNew = settingsRecords.find(draft, group, pid) === undefined;
    // Counted in the turn of the commit: two callers do not both get the last place.
    if (isNew && draft.needs.length === 0 && settingsRecords.count(draft, group) >= limits.queueSettings)
      throw tooMany();
    settingsRecords.put(draft, group, pid, recordState(data, engineState.clock.now()), data);
  });
}

const deleteSettings = (engineState: EngineState, pattern: QueueName): Promise<boolean> =>
  change(engineState, pattern.group, (draft) => settingsRecords.remove(draft, pattern.group, pidOf(pattern)));

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

const tooMany = (): Refusal =>
  new Refusal('TOO_MANY_ITEMS', `queues: the group has ${limits.queueSettings} settings: delete some`, {
    metadata: { field: 'queues', value: String(limits.queueSettings + 1), limit: String(limits.queueSettings) },
  });
