import { EnqueueMode } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { engineHarness } from '../../testing/engine-harness.ts';

const READ_MS = 20;

test.each([
  ['was replaced', { mode: EnqueueMode.ENQUEUE_MODE_REPLACE }],
  ['belongs to a new task with that PID', undefined],
])('a refill caches the payload that %s while it read the payloads', async (_what, replace) => {
  await using h = await engineHarness({ readMs: READ_MS, writeMs: READ_MS });
  await h.clock.run(h.enqueue('mail', ['a', 'b', 'c']));
  await h.clock.advance(1000);
  await h.crash();
  // It reads the states first, then the payloads.
  const first = h.lease('mail');
  await h.clock.advance(READ_MS / 2);
  const task = { queue: 'mail', pid: 'b' };
  // This reads the state of the task, and so is decided during the second read.
  const changed = h.update({
    dequeue: replace ? [] : [task],
    enqueue: [{ ...task, data: 'second', ...replace }],
  });
  await h.clock.run(changed);
  expect(h.engine.figures().refills).toBe(1);
  await h.clock.run(first);
  const [second] = await h.clock.run(h.lease('mail'));
  expect([second?.pid, Buffer.from(second?.data ?? []).toString()]).toEqual(['b', 'second']);
});
