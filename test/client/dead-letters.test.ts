import { pidText } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { expect, test } from 'vitest';
import { type ClientSetUp, clientSetUp } from './support/client-set-up.ts';

/** A client whose queue `g#q.dead` has these tasks. Each failed with an error that names it. */
async function withDead(...pids: string[]): Promise<ClientSetUp> {
  const made = clientSetUp();
  const queue = made.client.queue<string>('g#q');
  await queue.enqueueMany(pids.map((pid) => ({ pid, data: pid })));
  for (const task of await queue.lease({ max: pids.length })) await task.deadLetter(new Error(`no ${task.data}`));
  return made;
}

const textsOf = async (tasks: AsyncIterable<{ readonly pid: Uint8Array }>): Promise<string[]> => {
  const texts: string[] = [];
  for await (const { pid } of tasks) texts.push(pidText(pid));
  return texts;
};

test('lists the tasks that match, in order', async () => {
  const { client } = await withDead('a', 'b', 'c', 'd');
  const dead = client.deadLetters('g#q.dead');
  expect(await textsOf(dead.list())).toEqual(['a', 'b', 'c', 'd']);
  expect(await textsOf(dead.list({ limit: 2 }))).toEqual(['a', 'b']);
  const where = ({ failures }: { failures: readonly { error: { message: string } | undefined }[] }): boolean =>
    /no [bd]/.test(failures.at(-1)?.error?.message ?? '');
  expect(await textsOf(dead.list({ where }))).toEqual(['b', 'd']);
  for await (const task of dead.list({ limit: 1 })) {
    expect(task).toMatchObject({ deadLetterFrom: 'g#q', failures: [{ attempt: 1 }] });
    expect(task.failures[0]?.error?.details).toContain('dead-letters.test');
  }
});

test('puts tasks back, in updates of a thousand', async () => {
  const pids = Array.from({ length: 1_500 }, (_, number) => `p${String(number).padStart(4, '0')}`);
  const { client, engine } = await withDead(...pids);
  const reached: number[] = [];
  const outcome = await client.deadLetters('g#q.dead').retry({ onProgress: ({ settled }) => reached.push(settled) });
  expect(outcome).toEqual({ settled: 1_500, skipped: 0 });
  expect(reached).toEqual([1_000, 1_500]);
  expect(await engine.pids('g#q')).toEqual(pids);
  expect(await engine.pids('g#q.dead')).toEqual([]);
});

test('leaves tasks whose PID is there again, and does not touch tasks that came from no other queue', async () => {
  const { client, engine } = await withDead('a', 'b', 'c');
  await client.queue('g#q').enqueue('new', { pid: 'b' });
  await client.queue('g#q.dead').enqueue('own', { pid: 'd' });
  expect(await client.deadLetters('g#q.dead').retry()).toEqual({ settled: 2, skipped: 1 });
  expect(await engine.pids('g#q.dead')).toEqual(['b', 'd']);
  expect(await engine.pids('g#q')).toEqual(['a', 'b', 'c']);
  expect(await client.deadLetters('g#q').drop()).toEqual({ settled: 0, skipped: 0 });
  expect(await client.deadLetters('g#q.dead').drop()).toEqual({ settled: 1, skipped: 0 });
  expect(await engine.pids('g#q')).toEqual(['a', 'b', 'c']);
  expect(await engine.pids('g#q.dead')).toEqual(['d']);
});

test('moves as many at a time as fit into memory', async () => {
  const { client, transport } = await withDead('a', 'b', 'c', 'd', 'e');
  const tooLarge = makeError('too much', { reason: 'REQUEST_TOO_LARGE' });
  transport.answers.updateTasks = ({ dequeue }, send) => (dequeue.length > 2 ? Promise.reject(tooLarge) : send());
  expect(await client.deadLetters('g#q.dead').retry()).toEqual({ settled: 5, skipped: 0 });
});

test('drops tasks', async () => {
  const { client, engine } = await withDead('a', 'b', 'c');
  const dropped = await client.deadLetters('g#q.dead').drop({ where: ({ pid }) => pidText(pid) !== 'b' });
  expect(dropped).toEqual({ settled: 2, skipped: 0 });
  expect(await engine.pids('g#q.dead')).toEqual(['b']);
  expect(await engine.pids('g#q')).toEqual([]);
});
