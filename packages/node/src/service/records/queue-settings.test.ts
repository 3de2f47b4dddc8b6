import { limits, NO_SETTINGS, QueueSettings } from '@taskmaster/proto';
import type { Pid } from '@taskmaster/server/domain';
import { expect, test } from 'vitest';
import { fakeEngine } from '../../testing/fake-engine.ts';
import { putQueueSettings } from './queue-settings.ts';

const put = (engine: Parameters<typeof putQueueSettings>[0], queues: string) =>
  putQueueSettings(engine, { queues, settings: { ...NO_SETTINGS, leaseDurationMs: 1 } });

/** An engine whose group has as many settings as a group may have. */
const fullEngine = () =>
  fakeEngine({
    peekTasks: async ({ queue }) =>
      Array.from({ length: limits.queueSettings }, (_, index) => ({
        queue,
        pid: `q${index}` as Pid,
        state: undefined,
        data: QueueSettings.encode({ ...NO_SETTINGS, queues: `shop#q${index}` }).finish(),
      })),
    updateTasks: async () => ({ enqueued: [], renewed: [], released: [] }),
  });

test('a group has a limited number of settings', async () => {
  const engine = fullEngine();
  await expect(put(engine, 'shop#one-more')).rejects.toMatchObject({
    reason: 'TOO_MANY_ITEMS',
    metadata: { field: 'queues', limit: String(limits.queueSettings) },
  });
  expect(engine.asked.map(({ operation }) => operation)).toEqual(['peekTasks']);
});

test('settings at the limit can be replaced', async () => {
  const engine = fullEngine();
  await put(engine, 'shop#q7');
  expect(engine.asked.map(({ operation }) => operation)).toEqual(['peekTasks', 'updateTasks']);
});
