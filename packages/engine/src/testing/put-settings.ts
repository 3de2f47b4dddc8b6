import { EnqueueMode, NO_SETTINGS, parseQueueName, QueueSettings, reservedQueues } from '@taskmaster/proto';
import { latin1Of, type Pid } from '@taskmaster/server/domain';
import type { Engine } from '../engine.ts';

/** Puts settings of the queues `group#pattern`, as the service does. */
export async function putSettings(engine: Engine, queues: string, settings: Partial<QueueSettings>): Promise<void> {
  const { group, name } = parseQueueName(queues);
  const item = {
    queue: { group, name: reservedQueues.settings },
    pid: latin1Of(Buffer.from(name)) as Pid,
    data: QueueSettings.encode({ ...NO_SETTINGS, queues, ...settings }).finish(),
    isPublished: false,
    headerBytes: 0,
    key: undefined,
    timeLimitMs: undefined,
    mode: EnqueueMode.ENQUEUE_MODE_REPLACE,
    delayMs: 0,
    runAt: undefined,
    retry: undefined,
  };
  await engine.updateTasks({
    group,
    enqueue: [item],
    dequeue: [],
    renew: [],
    release: [],
    publishes: false,
    requestId: undefined,
  });
}
