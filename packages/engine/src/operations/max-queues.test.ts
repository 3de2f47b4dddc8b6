import { expect, test } from 'vitest';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

const refused = { reason: 'TOO_MANY_QUEUES', metadata: { limit: '2' } };

test('an enqueue that would create too many queues is refused and changes nothing; all other calls go on', async () => {
  await using h = await engineHarness({ config: { maxQueues: 2 } });
  await h.update({ enqueue: [{ queue: 'a', pid: '1' }] });
  await expect(
    h.update({
      enqueue: [
        { queue: 'a', pid: '2' },
        { queue: 'b', pid: '1' },
        { queue: 'c', pid: '1' },
      ],
    }),
  ).rejects.toMatchObject(refused);
  expect(h.engine.figures()).toMatchObject({ queues: 1, tasksEnqueued: 1 });

  await h.update({ enqueue: [{ queue: 'b', pid: '1', retry: { maxAttempts: 1, deadLetterQueue: 'dead' } }] });
  await expect(h.update({ enqueue: [{ queue: 'c', pid: '1' }] })).rejects.toMatchObject(refused);
  await h.update({ enqueue: [{ queue: 'b', pid: '2' }] });
  const [task] = await h.lease('b', {});
  // A dead-letter queue is created nevertheless: it ends work.
  await h.update({ release: [{ queue: 'b', pid: '1', token: task?.token }] });
  await h.update({ dequeue: [{ queue: 'b', pid: '2' }] });
  expect(h.engine.figures().queues).toBe(3);
});

test('queues above a lowered limit go on', async () => {
  await using h = await engineHarness({ config: { maxQueues: 1 } });
  await h.update({ enqueue: [{ queue: 'a', pid: '1' }] });
  await h.update({ enqueue: [{ queue: 'a', pid: '2' }] });
  expect(h.engine.figures().queues).toBe(1);
});

test.each([
  ['without a look', () => Promise.resolve({})],
  ['after a look', (h: EngineHarness) => h.counts('b')],
])('the dead-letter queue of a last attempt that is over counts, %s', async (_when, look) => {
  await using h = await engineHarness({ config: { maxQueues: 2 } });
  await h.update({ enqueue: [{ queue: 'b', pid: '1', retry: { maxAttempts: 1, deadLetterQueue: 'dead' } }] });
  await h.lease('b', { for: 20 });
  await h.clock.advance(20);
  await look(h);
  await expect(h.clock.run(h.update({ enqueue: [{ queue: 'c', pid: '1' }] }))).rejects.toMatchObject(refused);
});
