import {
  type DeleteQueueSettingsRequest,
  type DeleteQueueSettingsResponse,
  formatQueueName,
  type ListQueueSettingsRequest,
  type ListQueueSettingsResponse,
  limits,
  type PutQueueSettingsRequest,
  type PutQueueSettingsResponse,
  type QueueName,
  QueueSettings,
  reservedQueues,
} from '@taskmaster/proto';
import type { TaskEngine } from '@taskmaster/server/domain';
import {
  decodeSettings,
  defaultDeadLetters,
  inOrder,
  type SettingsRecord,
  settingsOf,
} from '@taskmaster/server/domain';
import { countAtMost, parseSettings, queueOrGroup, queuePattern } from '@taskmaster/server/requests';
import { deleteRecord, listRecords, putRecord } from './stored-records.ts';

const recordsOf = (group: string): QueueName => ({ group, name: reservedQueues.settings });

export async function putQueueSettings(
  engine: TaskEngine,
  request: PutQueueSettingsRequest,
): Promise<PutQueueSettingsResponse> {
  const { pattern, settings } = parseSettings(request);
  const queue = recordsOf(pattern.group);
  const others = (await listRecords(engine, queue, limits.queueSettings + 1)).filter(({ key }) => key !== pattern.name);
  countAtMost(others.length + 1, { field: 'queues' }, limits.queueSettings);
  await putRecord(engine, queue, pattern.name, QueueSettings.encode(settings).finish());
  return {};
}

export async function deleteQueueSettings(
  engine: TaskEngine,
  request: DeleteQueueSettingsRequest,
): Promise<DeleteQueueSettingsResponse> {
  const { group, name } = queuePattern(request.queues);
  return { deleted: await deleteRecord(engine, recordsOf(group), name) };
}

export async function listQueueSettings(
  engine: TaskEngine,
  { queue }: ListQueueSettingsRequest,
): Promise<ListQueueSettingsResponse> {
  const { group, name } = queueOrGroup(queue, { field: 'queue', whole: 'as group# or empty' });
  const rows = await listRecords(engine, recordsOf(group), limits.queueSettings);
  const messages = new Map<SettingsRecord, QueueSettings>();
  for (const { data } of rows) messages.set(decodeSettings(data), QueueSettings.decode(data));
  const asked = [...messages.keys()].filter(({ matches }) => name === '' || matches(name));
  const settings = inOrder(asked).flatMap((record) => messages.get(record) ?? []);
  return { settings, effective: name === '' ? undefined : effectiveOf({ group, name }, asked) };
}

function effectiveOf(queue: QueueName, records: readonly SettingsRecord[]): QueueSettings {
  const { retry, ...rest } = settingsOf(queue.name, records);
  const { deadLetterQueue, ...policy } = retry;
  const target = deadLetterQueue && deadLetterQueue !== queue.name ? deadLetterQueue : defaultDeadLetters(queue.name);
  return {
    ...rest,
    queues: formatQueueName(queue),
    retry: { ...policy, deadLetterQueue: '' },
    deadLetterQueue: formatQueueName({ group: queue.group, name: target }),
  };
}
