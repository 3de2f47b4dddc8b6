import { messagesOfLatestError } from '@taskmaster/cli/testing';
import { only } from '@taskmaster/client/testing';
import { expect, test } from 'vitest';
import { clientSetUp } from '../client/support/client-set-up.ts';

test('the messages of an error are its own and those of its causes, without the frames of stacks', async () => {
  const { client } = clientSetUp();
  const queue = client.queue<string>('q');
  await queue.enqueue('a', { pid: 'a' });
  const task = only(await queue.lease());
  const cause = new Error('connect ECONNREFUSED 127.0.0.1:5432', { cause: 'a cable' });
  await task.release({ error: new Error('no order\nwas stored', { cause }) });
  const messages = messagesOfLatestError(only(await queue.get(['a'], { data: false })));
  const lines = ['Error: no order', 'was stored', 'caused by Error: connect ECONNREFUSED 127.0.0.1:5432'];
  expect(messages).toEqual(['Error: no order\nwas stored', ...lines, 'caused by a cable']);
});
