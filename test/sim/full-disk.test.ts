import { engineHarness, pidsOf, SeededRandom } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { expectSoundDisk, observe } from './observe.ts';

const FULL = { reason: 'DISK_FULL', retryDelayMs: 1000 };
const latency = { writeMs: 1, syncMs: 1 };

describe('a disk with little space', () => {
  test('accepts no new tasks, but all calls that end work or keep leases', async () => {
    await using h = await engineHarness(latency);
    await h.clock.run(h.enqueue('mail', ['a', 'b', 'c', 'd']));
    const [a, b, c] = await h.clock.run(h.lease('mail', { max: 3 }));
    h.disk.space = 'short';

    await expect(h.clock.run(h.enqueue('mail', ['e']))).rejects.toMatchObject(FULL);
    const move = {
      dequeue: [{ queue: 'mail', pid: 'a', token: a?.token }],
      enqueue: [{ queue: 'sent', pid: 'a' }],
    };
    await expect(h.clock.run(h.update(move))).rejects.toMatchObject(FULL);
    const checkpoint = { renew: [{ queue: 'mail', pid: 'b', token: b?.token, for: 60_000, checkpoint: 'page 3' }] };
    await expect(h.clock.run(h.update(checkpoint))).rejects.toMatchObject(FULL);
    expect(h.engine.health).toEqual({ kind: 'full' });

    const goesOn = await h.clock.run(
      Promise.all([
        h.update({ dequeue: [{ queue: 'mail', pid: 'a', token: a?.token }] }),
        h.update({ renew: [{ queue: 'mail', pid: 'b', token: b?.token, for: 60_000 }] }),
        h.update({ release: [{ queue: 'mail', pid: 'c', token: c?.token }] }),
      ]),
    );
    expect(goesOn).toHaveLength(3);
    expect(pidsOf(await h.clock.run(h.lease('mail', { max: 10 })))).toEqual(['c', 'd']);
    expect(await h.clock.run(h.counts('mail'))).toEqual({ available: 0, leased: 3, delayed: 0 });

    h.disk.space = 'plenty';
    expect(h.engine.health).toEqual({ kind: 'serving' });
    await h.clock.run(h.enqueue('mail', ['e']));
    await expectSoundDisk(h);
  });
});

describe('a disk without any space', () => {
  test('keeps the engine equal to the disk: refused changes never appear, not even after a crash', async () => {
    const random = new SeededRandom(5);
    for (let seed = 1; seed <= 40; seed++) {
      const h = await engineHarness({ ...latency, seed });
      await h.clock.run(h.enqueue('mail', ['a', 'b', 'c', 'd']));
      await h.clock.run(h.lease('mail', { max: 2, for: 100_000 }));
      const before = await h.clock.run(observe(h));

      // Some writes have reached the disk when it is full, others follow.
      const acknowledged: string[] = [];
      const refused: string[] = [];
      const ask = (pid: string) =>
        h.enqueue('other', [pid]).then(
          () => acknowledged.push(pid),
          () => refused.push(pid),
        );
      for (let i = 0; i < 6; i++) {
        ask(`${i}`);
        if (i === seed % 6) h.disk.space = 'none';
        await h.clock.advance(random.int(2));
      }
      await h.clock.advance(20);
      expect(acknowledged.length + refused.length, 'every call is answered').toBe(6);
      expect(refused).not.toEqual([]);

      h.disk.space = 'plenty';
      await h.clock.advance(20);
      const seen = await h.clock.run(observe(h));
      expect(seen.filter(({ queue }) => queue === 'mail')).toEqual(before);
      expect(pidsOf(await h.clock.run(h.lease('other', { max: 10, for: 100_000 })))).toEqual(acknowledged);
      const after = await h.clock.run(observe(h));
      await h.crash();
      expect(await h.clock.run(observe(h))).toEqual(after);
      await expectSoundDisk(h);
      await h[Symbol.asyncDispose]();
    }
  });

  test('serves reads, and refuses writes', async () => {
    await using h = await engineHarness(latency);
    await h.clock.run(h.enqueue('mail', ['a']));
    const [a] = await h.clock.run(h.lease('mail'));
    h.disk.space = 'none';
    const complete = { dequeue: [{ queue: 'mail', pid: 'a', token: a?.token }] };
    await expect(h.clock.run(h.update(complete))).rejects.toMatchObject(FULL);
    await h.clock.advance(10);
    expect(await h.clock.run(h.counts('mail'))).toEqual({ available: 0, leased: 1, delayed: 0 });
    h.disk.space = 'short';
    await h.clock.run(h.update(complete));
  });

  test('keeps long polls waiting, and serves them in order when there is space', async () => {
    await using h = await engineHarness(latency);
    const served: string[] = [];
    const poll = (name: string, queue: string) =>
      h.lease(queue, { wait: 60_000 }).then((tasks) => served.push(`${name} ${pidsOf(tasks)}`));
    const polls = [poll('first', 'mail'), poll('second', 'mail'), poll('third', 'other')];
    h.disk.space = 'none';
    await expect(h.clock.run(h.enqueue('mail', ['lost']))).rejects.toMatchObject(FULL);
    // The disk is full for a long time: ticks, checkpoints and rebuilds are repeated without success.
    await h.clock.advance(5000);
    h.disk.space = 'plenty';
    await h.clock.advance(10_000);
    expect(h.engine.health.kind).toBe('serving');
    expect(h.engine.figures().waiters + served.length).toBe(3);
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.clock.run(h.enqueue('other', ['c']));
    await h.clock.run(Promise.all(polls));
    expect(served).toEqual(['first a', 'second b', 'third c']);
    await expectSoundDisk(h);
  });

  test('recovers by itself within 10 s of free space, repeatedly', async () => {
    await using h = await engineHarness(latency);
    for (let round = 0; round < 20; round++) {
      await h.clock.run(h.enqueue('mail', [`${100 + round}`]));
      h.disk.space = 'none';
      await expect(h.clock.run(h.enqueue('mail', ['z']))).rejects.toMatchObject(FULL);
      await h.clock.advance(h.random.int(3000));
      h.disk.space = 'plenty';
      await h.clock.advance(10_000);
    }
    expect(await h.clock.run(h.counts('mail'))).toEqual({ available: 20, leased: 0, delayed: 0 });
  });
});
