import { expect, test } from 'vitest';
import { InFlight } from './in-flight.ts';

/** Work that ends when it is told to. */
function controlled() {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let begun = false;
  const work = (): Promise<void> => {
    begun = true;
    return promise;
  };
  return { work, end: resolve, fail: reject, hasBegun: () => begun };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('at most this number of items is in flight', async () => {
  const inFlight = new InFlight(2);
  const [a, b, c] = [controlled(), controlled(), controlled()];
  await inFlight.add(a.work);
  await inFlight.add(b.work);
  const third = inFlight.add(c.work);
  await turn();
  expect(c.hasBegun()).toBe(false);
  b.end();
  await third;
  expect(c.hasBegun()).toBe(true);
  a.end();
  c.end();
  await inFlight.drain();
});

test('after the first failure no item begins, and the failure is reported when all have ended', async () => {
  const inFlight = new InFlight(2);
  const [a, b, c] = [controlled(), controlled(), controlled()];
  await inFlight.add(a.work);
  await inFlight.add(b.work);
  a.fail(new Error('first'));
  await expect(inFlight.add(c.work)).rejects.toThrow('first');
  expect(c.hasBegun()).toBe(false);
  let drained = false;
  const draining = inFlight.drain().finally(() => {
    drained = true;
  });
  await turn();
  expect(drained).toBe(false);
  b.fail(new Error('second'));
  await expect(draining).rejects.toThrow('first');
});
