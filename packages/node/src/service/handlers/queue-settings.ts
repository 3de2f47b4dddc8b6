import {
  defaultDeadLetters,
  inOrder,
  type LimitOperations,
  limitMessage,
  type PauseOperations,
  type SettingsOperations,
  type SettingsRecord,
  settingsOf,
} from '@taskmaster/engine/domain';
import { formatQueueName, type QueueName, type QueueSettings } from '@taskmaster/proto';
import type { TaskHandlers } from '@taskmaster/server/calls';
import { queueOrGroup } from '@taskmaster/server/requests';
import { parseSettings, queuePattern } from './parse-settings.ts';
import { pauseMessages } from './pauses.ts';

/** The part of the service about the settings of queues. */
export const settingsHandlers = ({
  settings: of,
  pauses,
  limits,
}: {
  readonly settings: SettingsOperations;
  readonly pauses: Pick<PauseOperations, 'list'>;
  readonly limits: Pick<LimitOperations, 'list'>;
}): Pick<TaskHandlers, 'putQueueSettings' | 'deleteQueueSettings' | 'listQueueSettings'> => ({
  async putQueueSettings(request) {
    await of.put(parseSettings(request));
    return {};
  },
  deleteQueueSettings: async ({ queues }) => ({ deleted: await of.delete(queuePattern(queues)) }),
  async listQueueSettings({ queue }) {
    const { group, name } = queueOrGroup(queue, { field: 'queue', whole: 'as group# or empty' });
    const records = await of.list(group);
    const asked = inOrder(records.filter(({ matches }) => name === '' || matches(name)));
    const effective = name === '' ? undefined : effectiveOf({ group, name }, asked);
    const paused = (await pauses.list(group)).filter(({ matches }) => name === '' || matches(name));
    const limited = (await limits.list(group)).filter(({ record }) => name === '' || record.matches(name));
    return {
      settings: asked.map(({ message }) => message),
      effective,
      pauses: pauseMessages(paused),
      limits: limited.map(limitMessage),
    };
  },
});

function effectiveOf(queue: QueueName, records: readonly SettingsRecord[]): QueueSettings {
  const { retry, fair, ...rest } = settingsOf(queue.name, records);
  const { deadLetterQueue, ...policy } = retry;
  const target = deadLetterQueue && deadLetterQueue !== queue.name ? deadLetterQueue : defaultDeadLetters(queue.name);
  return {
    ...rest,
    queues: formatQueueName(queue),
    retry: { ...policy, deadLetterQueue: '' },
    fairTurns: fair && { weights: fair.weights },
    deadLetterQueue: formatQueueName({ group: queue.group, name: target }),
  };
}
