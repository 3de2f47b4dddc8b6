import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../../domain/ids.ts';
import { Place, Places } from './places.ts';
import { availableState } from './test-support.ts';

/** More than `FEW`, so that the places change from few to many and back. */
const pids = fc.constantFrom(...(Array.from('acegikmoqsuwy') as Pid[]));
const steps = fc.array(fc.record({ kind: fc.constantFrom('insert', 'insert', 'remove'), pid: pids }), {
  size: 'max',
  maxLength: 200,
});

describe('places', () => {
  test('are in order after any insertions and removals, few or many', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const places = new Places();
        const there = new Map<Pid, Place>();
        for (const { kind, pid } of all) {
          if (kind === 'remove') {
            expect(places.remove(pid)).toBe(there.get(pid));
            there.delete(pid);
          } else {
            const place = new Place(pid, availableState);
            expect(places.insert(place)).toBe(there.get(pid) ?? place);
            if (!there.has(pid)) there.set(pid, place);
          }
          const expected = [...there.values()].toSorted((a, b) => (a.pid < b.pid ? -1 : 1));
          expect([...places]).toEqual(expected);
          expect(places.size).toBe(expected.length);
          expect(places.first).toBe(expected[0]);
          expect(places.last).toBe(expected.at(-1));
          expect(places.find(pid)).toBe(there.get(pid));
        }
      }),
    );
  });

  test('go back to the form for few after the last one is removed', () => {
    const places = new Places();
    const all = Array.from('abcdefghijkl') as Pid[];
    for (const pid of all) places.insert(new Place(pid, availableState));
    for (const pid of all) places.remove(pid);
    expect([places.size, places.first, places.last, [...places]]).toEqual([0, undefined, undefined, []]);
    places.insert(new Place('b' as Pid, availableState));
    places.insert(new Place('a' as Pid, availableState));
    expect(Array.from(places, ({ pid }) => pid)).toEqual(['a', 'b']);
  });
});
