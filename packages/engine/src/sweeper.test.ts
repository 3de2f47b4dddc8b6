import { expect, test } from 'vitest';
import { Refusal } from './domain/refusal.ts';
import type { EngineState } from './engine-state.ts';
import { Sweeper } from './sweeper.ts';

const engineState = {} as EngineState;
const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name }));

/** A sweeper whose clock and whose memory the test sets. `swept`: what it has swept, in order. */
function sweeper(work: (name: string) => void, atOnce = 1) {
  const state = {
    now: 0,
    engineState: engineState as EngineState | undefined,
    due: [a, b, c].filter((one) => one !== undefined),
  };
  const swept: string[] = [];
  const one = new Sweeper<{ readonly name: string }>(
    { engineState: () => state.engineState, clock: { now: () => state.now as never } },
    {
      everyMs: 100,
      atOnce,
      due: () => state.due,
      async sweep(_memory, { name }) {
        swept.push(name);
        work(name);
      },
    },
  );
  return { state, swept, look: () => one.look() };
}

test('what the store refuses is left alone for a second, and the rest is swept', async () => {
  const { state, swept, look } = sweeper((name) => {
    if (name === 'b') throw new Refusal('DISK_FULL', 'the disk is full');
  });
  await look();
  state.now = 999;
  await look();
  state.now = 1_000;
  await look();
  expect(swept).toEqual(['a', 'b', 'c', 'a', 'c', 'a', 'b', 'c']);
});

test('an error that nobody expects is reported after the rest is swept', async () => {
  const { swept, look } = sweeper((name) => {
    if (name === 'a') throw new TypeError('a mistake');
  }, 2);
  await expect(look()).rejects.toThrow('a mistake');
  expect(swept).toEqual(['a', 'b', 'c']);
});

test('nothing is swept once nothing can be written', async () => {
  const { state, swept, look } = sweeper(() => {
    state.engineState = undefined;
  });
  await look();
  await look();
  expect(swept).toEqual(['a']);
});
