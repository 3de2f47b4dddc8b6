import { describe, expect, test } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { VirtualTime } from '../ports/virtual-clock.ts';
import { Deadlines, type Due } from './deadlines.ts';

interface Named extends Due {
  readonly name: string;
}

function setUp() {
  const time = new VirtualTime();
  const begun = time.now();
  const due: string[] = [];
  const deadlines = new Deadlines<Named>(time, ({ name }) => due.push(`${name} at ${time.now() - begun}`));
  const waiter = (name: string, ms: number): Named => ({ name, deadline: (time.now() + ms) as Instant, order: 0 });
  return { time, due, deadlines, waiter };
}

describe('deadlines', () => {
  test('fire in order of time, equal ones in order of arrival', async () => {
    const { time, due, deadlines, waiter } = setUp();
    for (const [name, ms] of [
      ['last', 30],
      ['first', 10],
      ['second', 20],
      ['third', 20],
    ] as const) {
      deadlines.add(waiter(name, ms));
    }
    await time.advance(100);
    expect(due).toEqual(['first at 10', 'second at 20', 'third at 20', 'last at 30']);
    expect(time.pending).toBe(0);
  });

  test('share one timer', () => {
    const { time, deadlines, waiter } = setUp();
    for (let ms = 100; ms > 0; ms--) deadlines.add(waiter(`${ms}`, ms));
    expect(time.pending).toBe(1);
  });

  test('do not fire for a waiter that left, and drop the timer when the last waiter leaves', async () => {
    const { time, due, deadlines, waiter } = setUp();
    const [leaves, stays] = [waiter('leaves', 10), waiter('stays', 20)];
    deadlines.add(leaves);
    deadlines.add(stays);
    deadlines.remove(leaves);
    await time.advance(20);
    expect(due).toEqual(['stays at 20']);
    deadlines.add(waiter('late', 5));
    const only = waiter('only', 1);
    deadlines.add(only);
    await time.advance(10);
    deadlines.remove(only);
    expect(due).toEqual(['stays at 20', 'only at 21', 'late at 25']);
    const alone = waiter('alone', 10);
    deadlines.add(alone);
    deadlines.remove(alone);
    expect(time.pending).toBe(0);
  });

  test('accept a waiter that is added by a callback', async () => {
    const time = new VirtualTime();
    let calls = 0;
    const deadlines: Deadlines<Due> = new Deadlines<Due>(time, () => {
      if (++calls < 3) deadlines.add({ deadline: (time.now() + 10) as Instant, order: 0 });
    });
    deadlines.add({ deadline: (time.now() + 10) as Instant, order: 0 });
    await time.advance(100);
    expect(calls).toBe(3);
  });
});
