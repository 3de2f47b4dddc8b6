import { bytesCodec } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

const setUp = () => {
  const made = clientSetUp();
  const { client } = made;
  return {
    ...made,
    cuts: client.queue<string>('film#cuts'),
    steps: client.queue('film#steps', { codec: bytesCodec }),
    boxes: client.queue<string>('shop#boxes'),
  };
};

type Made = ReturnType<typeof setUp>;

/** A flow whose step sends two tasks and two signals when its cut has ended. */
async function commit({ client, cuts, boxes }: Made) {
  await boxes.enqueue('order', { pid: 'order', waitsFor: 4 });
  const send = [
    boxes.task('one'),
    boxes.task('two', { key: 'k' }),
    boxes.signalFor('order'),
    boxes.signalFor('order', { id: 'x' }),
  ];
  const flow = client
    .flow()
    .add('cut', cuts, 'x')
    .step('ship', 'film#steps', send, { after: 'cut' })
    .add('last', cuts, 'last', { after: 'ship' });
  return flow.commit();
}

const sent = async ({ boxes }: Made) => {
  const [order] = await boxes.get(['order'], { data: false });
  const { available } = await boxes.stats();
  return { available, left: order?.waits?.signals };
};

describe('a step of a flow into another group', () => {
  test('sends when the tasks before it have ended, and then those behind it begin', async () => {
    const made = setUp();
    const { client, cuts, steps, timing } = made;
    await commit(made);
    const worker = client.worker(steps, client.stepHandler());
    worker.start();
    await timing.settled();
    expect(await sent(made)).toEqual({ available: 0, left: 4 });
    await (await cuts.lease())[0]?.complete();
    await timing.settled();
    await timing.advance(1_000);
    expect(await sent(made)).toEqual({ available: 2, left: 2 });
    expect((await cuts.lease()).map(({ data }) => data)).toEqual(['last']);
    await worker.stop();
  });

  test.each([
    ['before it sends', 0],
    ['after it has sent', 1],
    ['after it has sent, three times', 3],
  ])('sends once if its worker dies %s', async (_when, runs) => {
    const made = setUp();
    const { client, cuts, steps, boxes, timing } = made;
    await commit(made);
    await (await cuts.lease())[0]?.complete();
    const handle = client.stepHandler();
    let attempts = 0;
    // A worker that dies neither completes nor renews.
    for (let run = 0; run < Math.max(1, runs); run++) {
      const [step] = await steps.lease({ leaseDuration: '1s' });
      attempts = step?.attempt ?? 0;
      if (step !== undefined && runs > 0) await handle(step);
      // What was sent may be done before the step runs again.
      if (run === 0) for (const box of await boxes.lease({ max: 9 })) await box.complete();
      await timing.advance(5_000);
    }
    expect(attempts).toBe(Math.max(1, runs));
    const [again] = await steps.lease();
    expect(again?.attempt).toBe(attempts + 1);
    if (again !== undefined) await handle(again);
    await again?.complete();
    expect(await sent(made)).toEqual({ available: runs === 0 ? 2 : 0, left: 2 });
    expect((await cuts.lease()).map(({ data }) => data)).toEqual(['last']);
  });

  test('sends nothing twice that is there, also when the node has forgotten its request', async () => {
    const made = setUp();
    const { client, cuts, steps, timing } = made;
    await commit(made);
    await (await cuts.lease())[0]?.complete();
    const [step] = await steps.lease({ leaseDuration: '2h' });
    const handle = client.stepHandler();
    if (step !== undefined) await handle(step);
    expect(await sent(made)).toEqual({ available: 2, left: 2 });
    await timing.advance(3_600_000);
    if (step !== undefined) await handle(step);
    expect(await sent(made)).toEqual({ available: 2, left: 2 });
  });

  test('sends to one group, and at least something; another task is no step', async () => {
    const { client, steps, boxes, timing } = setUp();
    const other = client.queue('else#q');
    await expect(client.flow().step('s', 'film#steps', []).commit()).rejects.toThrow('at least one');
    const two = client.flow().step('s', 'film#steps', [boxes.task('x'), other.task('x')]);
    await expect(two.commit()).rejects.toMatchObject({ reason: 'MIXED_GROUPS' });
    await steps.enqueue(Buffer.from('hostile'), { pid: 'hostile' });
    const worker = client.worker(steps, client.stepHandler());
    worker.start();
    await timing.settled();
    await worker.stop();
    expect((await client.queue('film#steps.dead').stats()).available).toBe(1);
  });
});
