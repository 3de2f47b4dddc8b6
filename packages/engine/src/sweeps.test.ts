import { expect, test } from 'vitest';
import type { Instant } from './domain/ids.ts';
import { NEVER } from './domain/task.ts';
import type { EngineState } from './engine-state.ts';
import { VirtualClock } from './ports/virtual-clock.ts';
import { Sweeps } from './sweeps.ts';

/** Sweeps whose work the test sets. `looks`: when each sweep looked, in ms since the start. */
function setUp() {
  const clock = new VirtualClock();
  const start = clock.now();
  const errors: unknown[] = [];
  const engineState = {} as EngineState;
  const sweeps = new Sweeps({ clock, engineState: () => engineState, failed: (error) => errors.push(error) });
  const add = (everyMs: number, work: () => Promise<void> | undefined = () => undefined) => {
    const sweep = { looks: [] as number[], next: 0 };
    sweeps.add<object>({
      everyMs,
      next: () => (sweep.next === NEVER ? NEVER : ((start + sweep.next) as Instant)),
      due() {
        sweep.looks.push(clock.now() - start);
        const working = work();
        return working === undefined ? [] : [{ working }];
      },
      sweep: (_state, due) => (due as { readonly working: Promise<void> }).working,
    });
    return sweep;
  };
  return { clock, sweeps, errors, add };
}

test('each sweep looks at its pace, from one timer', async () => {
  const { clock, sweeps, add } = setUp();
  const [seldom, often] = [add(250), add(100)];
  sweeps.wake();
  expect(clock.time.pending).toBe(1);
  await clock.advance(500);
  expect(often.looks).toEqual([100, 200, 300, 400, 500]);
  expect(seldom.looks).toEqual([250, 500]);
  expect(clock.time.pending).toBe(1);
});

test('no timer is set while nothing can be due, until the state changes', async () => {
  const { clock, sweeps, add } = setUp();
  const [a, b] = [add(100), add(100)];
  a.next = NEVER;
  b.next = NEVER;
  sweeps.wake();
  await clock.advance(1_000);
  expect([a.looks, b.looks, clock.time.pending]).toEqual([[], [], 0]);
  await clock.advance(30);
  a.next = 0;
  sweeps.wake();
  await clock.advance(300);
  expect([a.looks, b.looks]).toEqual([[1_100, 1_200, 1_300], []]);
});

test('the timer sleeps until the next instant at which something is due, and a change wakes it', async () => {
  const { clock, sweeps, add } = setUp();
  const a = add(100);
  a.next = 5_050;
  sweeps.wake();
  await clock.advance(5_300);
  expect(a.looks).toEqual([5_050, 5_100, 5_200, 5_300]);
  a.next = 9_000;
  await clock.advance(700);
  a.next = 6_100;
  sweeps.wake();
  await clock.advance(150);
  expect(a.looks.slice(4)).toEqual([6_100]);
});

test('a sweep looks again when its work has ended, and others look meanwhile', async () => {
  const { clock, sweeps, errors, add } = setUp();
  const first = Promise.withResolvers<void>();
  const work = [first.promise];
  const [slow, other] = [add(100, () => work.shift()), add(100)];
  sweeps.wake();
  await clock.advance(350);
  expect([slow.looks, other.looks]).toEqual([[100], [100, 200, 300]]);
  first.reject(new TypeError('a mistake'));
  await clock.advance(200);
  expect([slow.looks, other.looks]).toEqual([
    [100, 450, 500],
    [100, 200, 300, 400, 500],
  ]);
  expect(errors).toMatchObject([{ message: 'a mistake' }]);
});

test('nothing begins after a cancel', async () => {
  const { clock, sweeps, add } = setUp();
  const a = add(100);
  sweeps.wake();
  await clock.advance(100);
  sweeps.cancel();
  sweeps.wake();
  await clock.advance(1_000);
  await sweeps.ended();
  expect([a.looks, clock.time.pending]).toEqual([[100], 0]);
});
