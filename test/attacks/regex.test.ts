import { connect } from '@taskmaster/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';

/** Linear in the length of a name, as all of RE2, but 2 to 6 ms for one of these names. */
const SLOW = '[ab]*a[ab]{20}$';
const NAMES = 400;

let node: RunningNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node?.[Symbol.asyncDispose]());

/** A name of a and b without a pattern, different for each number. The longest that is allowed. */
function nameOf(number: number): string {
  let state = number + 1;
  return Array.from({ length: 512 }, () => {
    state = (state * 48_271) % 0x7fffffff;
    return state % 2 === 0 ? 'a' : 'b';
  }).join('');
}

const percentile = (times: readonly number[], share: number): number =>
  times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN;

test('slow regular expressions are refused, and hardly delay the calls of others', async () => {
  await using attacker = await connect(node.endpoint);
  await using client = await connect(node.endpoint);
  const queues = Array.from({ length: NAMES }, (_, number) =>
    attacker.queue(`${nameOf(number)}#${nameOf(number + NAMES)}`),
  );
  await Promise.all(queues.map((queue) => queue.enqueue(1)));

  const queue = client.queue('mail');
  await queue.enqueue(1);
  const timesUntil = async (isOver: () => boolean): Promise<number[]> => {
    const times: number[] = [];
    while (!isOver()) {
      const began = performance.now();
      await queue.stats();
      times.push(performance.now() - began);
    }
    return times;
  };
  let left = 200;
  const before = await timesUntil(() => left-- === 0);

  let over = false;
  const attack = Promise.allSettled(
    Array.from({ length: 3 }, () => attacker.stats({ filter: { regex: SLOW } })),
  ).finally(() => {
    over = true;
  });
  const during = await timesUntil(() => over);
  const results = await attack;
  const figures = [before, during].map((times) => [0.5, 0.99, 1].map((share) => percentile(times, share).toFixed(1)));
  console.log(`p50, p99, most of a call, in ms: alone ${figures[0]}, beside slow expressions ${figures[1]}`);
  for (const result of results) {
    expect(result).toMatchObject({ status: 'rejected', reason: { reason: 'INVALID_REGEX' } });
  }
  expect(percentile(during, 1)).toBeLessThan(500);
  expect((await attacker.stats({ filter: { regex: '^a' } })).totals.queues).toBeGreaterThan(0);
});
