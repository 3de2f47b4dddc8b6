import { describe, expect, test } from 'vitest';
import { Admission, weightOf } from './admission.ts';
import { updateCommand } from './testing/engine-harness.ts';

/** Work that ends when the test calls `end` or `fail`. */
function work() {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  return { run: () => promise, end: () => resolve('done'), fail: () => reject(new Error('broken')) };
}

const OVERLOADED = { reason: 'OVERLOADED', retryDelayMs: 100 };
const never = () => Promise.reject(new Error('must not run'));

describe('admission', () => {
  test('admits new work up to four fifths of the requests, and requests that end work up to all', async () => {
    const admission = new Admission({ maxInFlightRequests: 10, maxInFlightBytes: 1000 });
    const running = work();
    const all = Array.from({ length: 8 }, () => admission.run('new', 0, running.run));
    await expect(admission.run('new', 0, never)).rejects.toMatchObject(OVERLOADED);
    for (let i = 0; i < 2; i++) all.push(admission.run('ending', 0, running.run));
    await expect(admission.run('ending', 0, never)).rejects.toMatchObject(OVERLOADED);
    running.end();
    await Promise.all(all);
    await expect(admission.run('new', 0, async () => 'again')).resolves.toBe('again');
  });

  test('admits new work up to four fifths of the bytes, and requests that end work up to all', async () => {
    const admission = new Admission({ maxInFlightRequests: 10, maxInFlightBytes: 1000 });
    const running = work();
    const all = [admission.run('new', 800, running.run)];
    await expect(admission.run('new', 1, never)).rejects.toMatchObject(OVERLOADED);
    await expect(admission.run('ending', 201, never)).rejects.toMatchObject(OVERLOADED);
    all.push(admission.run('ending', 200, running.run));
    expect([admission.requests, admission.bytes]).toEqual([2, 1000]);
    running.end();
    await Promise.all(all);
    expect([admission.requests, admission.bytes]).toEqual([0, 0]);
  });

  test('admits a request larger than the bound when it is alone', async () => {
    const admission = new Admission({ maxInFlightRequests: 10, maxInFlightBytes: 1000 });
    await expect(admission.run('new', 5000, async () => 'done')).resolves.toBe('done');
    const running = work();
    const small = admission.run('new', 1, running.run);
    await expect(admission.run('new', 5000, never)).rejects.toMatchObject(OVERLOADED);
    running.end();
    await small;
  });

  test('releases the room of work that fails, even synchronously', async () => {
    const admission = new Admission({ maxInFlightRequests: 2, maxInFlightBytes: 1000 });
    const thrown = () => {
      throw new Error('at once');
    };
    await expect(admission.run('new', 1000, thrown)).rejects.toThrow('at once');
    const running = work();
    const failing = admission.run('new', 1000, running.run);
    running.fail();
    await expect(failing).rejects.toThrow('broken');
    expect([admission.requests, admission.bytes]).toEqual([0, 0]);
  });

  test('is idle when the last work has ended, and at once without any', async () => {
    const admission = new Admission({ maxInFlightRequests: 10, maxInFlightBytes: 1000 });
    await admission.idle();
    const [first, last] = [work(), work()];
    const both = [admission.run('new', 0, first.run), admission.run('new', 0, last.run)];
    let idle = false;
    const whenIdle = admission.idle().then(() => {
      idle = true;
    });
    first.end();
    await both[0];
    expect(idle).toBe(false);
    last.end();
    await Promise.all([...both, whenIdle]);
    expect(idle).toBe(true);
  });
});

describe('room for answers', () => {
  const bounds = { maxInFlightRequests: 10, maxInFlightBytes: 1000 };
  const free = (room: Disposable | undefined) => room?.[Symbol.dispose]();

  test('ends at two fifths of the bytes, and at nine tenths with requests', async () => {
    const admission = new Admission(bounds);
    const [first, second] = [admission.tryAnswer(200), admission.tryAnswer(200)];
    expect(admission.tryAnswer(1)).toBeUndefined();
    free(first);
    free(second);
    free(second);
    expect(admission.bytes).toBe(0);
    const running = work();
    const request = admission.run('new', 800, running.run);
    const third = admission.tryAnswer(100);
    expect(admission.tryAnswer(1)).toBeUndefined();
    await admission.run('ending', 100, async () => 'done');
    running.end();
    await request;
    free(third);
  });

  test('is given to a single answer of any size', async () => {
    const admission = new Admission(bounds);
    const running = work();
    const request = admission.run('ending', 1000, running.run);
    const alone = admission.tryAnswer(5000);
    expect(admission.bytes).toBe(6000);
    expect(admission.tryAnswer(0)).toBeUndefined();
    free(alone);
    running.end();
    await request;
  });

  test('is given in order of arrival: a small answer does not overtake a large one', async () => {
    const admission = new Admission(bounds);
    const held = [admission.tryAnswer(200), admission.tryAnswer(200)];
    const got: string[] = [];
    const answer = async (name: string, bytes: number): Promise<Disposable> => {
      const room = await admission.answer(bytes);
      got.push(name);
      return room;
    };
    const [large, small] = [answer('large', 300), answer('small', 1)];
    free(held[0]);
    expect(admission.tryAnswer(1)).toBeUndefined();
    expect(admission.bytes).toBe(200);
    free(held[1]);
    free(await large);
    free(await small);
    expect(got).toEqual(['large', 'small']);
    expect(admission.bytes).toBe(0);
  });

  test('is offered again to a waiter that released some during its own call', () => {
    const admission = new Admission(bounds);
    const held = admission.tryAnswer(400);
    const got: (Disposable | undefined)[] = [];
    admission.standInLine(() => {
      if (got.length === 0) {
        const taken = admission.tryAnswer(300);
        got.push(admission.tryAnswer(300));
        free(taken);
        return false;
      }
      got.push(admission.tryAnswer(300));
      return true;
    });
    free(held);
    expect(got.map((room) => room !== undefined)).toEqual([false, true]);
  });
});

test('the weight of a request includes its payloads and something for every item', () => {
  const item = { queue: 'mail', pid: 'a' };
  const enqueue = [{ ...item, data: 'x'.repeat(1000) }];
  expect(weightOf(updateCommand({ enqueue }))).toBeGreaterThan(1000);
  const settling = updateCommand({ dequeue: [item], renew: [{ ...item, for: 1 }], release: [item] });
  expect(weightOf(settling)).toBe(3 * weightOf(updateCommand({ dequeue: [item] })));
  const long = 'x'.repeat(500);
  const texts = [
    { enqueue: [{ ...item, key: long }] },
    { dequeue: [{ queue: 'mail', key: long }] },
    { dequeue: [{ ...item, cancel: long }] },
    { renew: [{ ...item, for: 1, progress: long }] },
    { release: [{ ...item, error: long }] },
  ];
  for (const update of texts) expect(weightOf(updateCommand(update)), JSON.stringify(update)).toBeGreaterThan(500);
});
