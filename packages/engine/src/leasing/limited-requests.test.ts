import { describe, expect, test, vi } from 'vitest';
import { Family } from '../ports/store.ts';
import { Queue } from '../queues/queue.ts';
import { engineHarness, type LeaseSpec, pidsOf } from '../testing/engine-harness.ts';
import { limitQueues } from '../testing/limit-queues.ts';

const A = 'shop#a';
const B = 'shop#b';

describe('requests for queues of a limit', () => {
  test.each([0, 5000])(
    'are answered while an expired lease of another queue cannot be read, with a wait of %i ms',
    async (wait) => {
      await using h = await engineHarness({ readMs: 10 });
      await h.clock.run(h.enqueue(A, ['a']));
      await h.clock.run(h.enqueue(B, ['b']));
      await h.clock.run(limitQueues(h.engine, 'shop#*', { maxLeased: 1 }));
      await h.clock.run(h.lease(A, { for: 20_000 }));
      await h.clock.run(h.close());
      await h.open();
      for (const { key } of h.disk.rowsOf(Family.due)) h.disk.corrupt(Family.due, key);
      await h.clock.advance(20_100);
      let got: readonly string[] | undefined;
      void h.lease(B, { wait }).then((tasks) => {
        got = pidsOf(tasks);
      });
      await h.clock.advance(wait + 1500);
      expect(got).toEqual([]);
    },
  );

  test.each([10, 100])('for %i queues are served in their order of arrival, each by a completion', async (queues) => {
    await using h = await engineHarness();
    const names = Array.from({ length: queues }, (_, at) => `shop#q${at}`);
    await h.update({
      enqueue: names.flatMap((queue) => [
        { queue, pid: 'a' },
        { queue, pid: 'b' },
      ]),
    });
    await h.enqueue('shop#open', ['o']);
    await limitQueues(h.engine, 'shop#q*', { maxLeased: 1 });
    let [last] = await h.lease('shop#q0');
    const got: string[] = [];
    const wait = (name: string, on: string | string[], spec: LeaseSpec = {}): void =>
      void h.lease(on, { wait: 600_000, for: 600_000, ...spec }).then((tasks) => {
        [last] = tasks;
        got.push(name);
      });
    wait('none of them', 'shop#empty');
    wait('too large', 'shop#q3', { maxPid: 'A' });
    wait('second', 'shop#q9');
    wait('third', ['shop#empty', 'shop#q3', 'shop#q4']);
    wait('fourth', [], { patterns: [{ group: 'shop', regex: '#q' }] });
    wait('fifth', 'shop#q9');
    wait('sixth', 'shop#q1');
    for (let at = 0; at < 5; at++) {
      const { queue, pid, token } = last ?? {};
      await h.update({ dequeue: [{ queue: `shop#${queue?.name}`, pid: `${pid}`, token }] });
      await h.clock.advance(1);
      expect(got).toHaveLength(at + 1);
    }
    expect(got).toEqual(['second', 'third', 'fourth', 'fifth', 'sixth']);
    expect(await h.engine.limits.list('shop')).toMatchObject([{ leased: 1 }]);
  });

  test('find the queues of patterns behind many others, in the turns of the limit, and look at few', async () => {
    await using h = await engineHarness();
    const names = Array.from({ length: 1000 }, (_, at) => `shop#q${at}`);
    await h.update({
      enqueue: names.flatMap((queue) => [
        { queue, pid: 'a' },
        { queue, pid: 'b' },
      ]),
    });
    await limitQueues(h.engine, 'shop#*', { maxLeased: 1 });
    const lease = (regex: string, wait = 0) =>
      h.lease([], { patterns: [{ group: 'shop', regex }], wait, for: 600_000 });
    const queueOf = async (leasing: ReturnType<typeof lease>): Promise<string | undefined> => {
      [last] = await h.clock.run(leasing);
      return last?.queue.name;
    };
    const complete = () =>
      h.clock.run(
        h.update({ dequeue: [{ queue: `shop#${last?.queue.name}`, pid: `${last?.pid}`, token: last?.token }] }),
      );
    let [last] = await h.clock.run(lease('#q'));
    expect(await h.clock.run(lease('#q999$'))).toEqual([]);
    await complete();
    // No request has waited.
    expect(await queueOf(lease('#q999$'))).toBe('q999');
    for (const expected of ['q1', 'q2', 'q3']) {
      await complete();
      expect(await queueOf(lease('#q'))).toBe(expected);
    }
    const first = lease('#q998$', 60_000);
    const second = lease('#q', 60_000);
    await h.clock.advance(1);
    await complete();
    expect(await queueOf(first)).toBe('q998');
    await complete();
    expect(await queueOf(second)).toBe('q4');
    const third = lease('#q', 60_000);
    await h.clock.advance(1);
    const looks = vi.spyOn(Queue.prototype, 'isOffering', 'get');
    await complete();
    expect(await queueOf(third)).toBe('q5');
    expect(looks.mock.calls.length).toBeLessThan(400);
    looks.mockRestore();
  });
});
