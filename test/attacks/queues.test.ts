import { connect, OverloadedError } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const LIMIT = 500;

test('a caller cannot create queues without bound, also after a restart with a lower limit', async () => {
  await using directory = await temporaryDirectory();
  const dir = `${directory.path}/data`;
  {
    await using node = await startNode({ dir, flags: [`--engine-max-queues=${LIMIT}`] });
    await using client = await connect({ endpoints: node.endpoint, timeout: '2s' });
    const name = 'q'.repeat(400);
    await Promise.all(Array.from({ length: LIMIT }, (_, number) => client.queue(`${name}${number}`).enqueue(1)));
    const refused = await client
      .queue('one-more')
      .enqueue(1)
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OverloadedError);
    expect(refused).toMatchObject({ reason: 'TOO_MANY_QUEUES', metadata: { limit: String(LIMIT) } });
    await client.queue(`${name}0`).enqueue(2);
    await node.stop();
  }
  await using node = await startNode({ dir, flags: ['--engine-max-queues=10'] });
  await using client = await connect({ endpoints: node.endpoint, timeout: '2s' });
  const queue = client.queue<number>(`${'q'.repeat(400)}0`);
  await queue.enqueue(3);
  const [task] = await queue.lease();
  await task?.complete();
  await expect(client.queue('one-more').enqueue(1)).rejects.toMatchObject({ reason: 'TOO_MANY_QUEUES' });
});
