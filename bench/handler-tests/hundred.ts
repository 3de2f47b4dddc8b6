import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LeasedTask } from '@taskmaster/client';
import { enqueued, fakeTask, openMemory, runUntilEmpty, TestClock } from '@taskmaster/node/memory';

// Tests of handlers as an application has them, run by node:test: `node hundred.js NUMBER`. Half of them call a handler, half run
// a worker with a queue of its own through a delay of a week and two backoffs.

const tests = Number(process.argv[2]);

const greet = async ({ data, attempt, signal }: LeasedTask<{ name: string }>) => {
  signal.throwIfAborted();
  return { result: `hello ${data.name}, attempt ${attempt}` };
};

for (let at = 0; at < tests; at++) {
  if (at % 2 === 0) {
    test(`a handler alone, ${at}`, async () => {
      assert.deepEqual(await greet(await fakeTask({ name: 'ann' })), { result: 'hello ann, attempt 1' });
    });
    continue;
  }
  test(`a worker with its queue, ${at}`, async () => {
    const clock = new TestClock();
    await using client = await openMemory({ clock });
    const mail = client.queue<{ to: string }>('test#mail');
    const sent = client.queue<string>('test#sent');
    const worker = client.worker(mail, async (task) => {
      if (task.attempt < 3) throw new Error('the mail server is busy');
      return { enqueue: [sent.task(task.data.to)] };
    });
    await mail.enqueue({ to: 'ann@example.com' }, { delay: '7d', retry: { backoff: { initial: '1h' } } });
    const { handled, errors } = await runUntilEmpty(worker, { clock });
    assert.deepEqual([handled, errors.length], [1, 2]);
    assert.deepEqual(
      (await enqueued(sent)).map(({ data }) => data),
      ['ann@example.com'],
    );
  });
}

// Of the process since its start.
process.once('exit', () => {
  const { user, system } = process.cpuUsage();
  process.stderr.write(`${JSON.stringify({ cpuMs: (user + system) / 1000 })}\n`);
});
