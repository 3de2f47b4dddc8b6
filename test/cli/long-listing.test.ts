import { expect, test } from 'vitest';
import { openNodeUser } from './shell.ts';

test('a long listing names its columns again where they change', async () => {
  await using user = await openNodeUser();
  const { client, shell } = user;
  const update = client.update();
  for (let number = 0; number < 2_001; number++) update.enqueue(client.queue(`g#q${10_000 + number}`).task(number));
  await update.commit();
  await client.queue('g#q11999').pause({ reason: 'repairs' });
  const { stdout } = await shell.run('taskmaster queues');
  const lines = stdout.trimEnd().split('\n');
  const headers = lines.flatMap((line, at) => (line.startsWith('QUEUE') ? [[at, line.includes('PAUSED')]] : []));
  expect(headers).toEqual([
    [0, false],
    [1_001, true],
    [2_002, false],
  ]);
  expect(lines).toHaveLength(2_004);
});
