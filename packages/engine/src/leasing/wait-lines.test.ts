import { beforeEach, describe, expect, test } from 'vitest';
import { type Waiting, WaitLines } from './wait-lines.ts';

interface NamedWaiter extends Waiting {
  readonly name: string;
}

let arrivals = 0;
const waiter = (name: string, lines: readonly string[], impatient = false, accepts?: string): NamedWaiter => ({
  name,
  lines,
  impatient,
  accepts,
  arrival: ++arrivals,
});

describe('wait lines', () => {
  let lines: WaitLines<NamedWaiter>;
  const inLine = (name: string): string[] => [...lines.line(name)].map((each) => each.name);
  const ann = waiter('ann', ['mail', 'fax']);
  const bob = waiter('bob', ['mail']);
  const cid = waiter('cid', ['fax', 'mail'], true);

  beforeEach(() => {
    lines = new WaitLines();
    for (const each of [ann, bob, cid]) lines.join(each);
  });

  test('are first come, first served, independent of each other', () => {
    expect(inLine('mail')).toEqual(['ann', 'bob', 'cid']);
    expect(inLine('fax')).toEqual(['ann', 'cid']);
    expect(inLine('letters')).toEqual([]);
  });

  test('count a waiter in several lines once', () => {
    expect(lines.size).toBe(3);
    expect([...lines.all()]).toHaveLength(3);
    lines.leave(ann);
    lines.leave(ann);
    expect(lines.size).toBe(2);
  });

  test('remove a waiter from all lines when it leaves, and put it last when it returns', () => {
    lines.leave(ann);
    expect([lines.isWaiting(ann), inLine('mail'), inLine('fax')]).toEqual([false, ['bob', 'cid'], ['cid']]);
    lines.join(ann);
    expect([lines.isWaiting(ann), inLine('mail')]).toEqual([true, ['bob', 'cid', 'ann']]);
  });

  test('know whether a waiter is impatient', () => {
    expect([lines.hasImpatient('mail'), lines.hasImpatient('fax')]).toEqual([true, true]);
    lines.leave(cid);
    expect([lines.hasImpatient('mail'), lines.hasImpatient('fax')]).toEqual([false, false]);
  });

  test('use no memory for an empty line', () => {
    for (const each of [ann, bob, cid]) lines.leave(each);
    expect([lines.has('mail'), lines.has('fax'), lines.size]).toEqual([false, false, 0]);
  });

  test('skip a waiter that leaves during the iteration', () => {
    const visited: string[] = [];
    for (const each of lines.line('mail')) {
      visited.push(each.name);
      lines.leave(bob);
    }
    expect(visited).toEqual(['ann', 'cid']);
  });

  test('merge those that accept different tasks in order of arrival, and pass those that accept the same', () => {
    const others = [waiter('dan', ['mail'], false, 'a'), waiter('eve', ['mail'], false, 'b')];
    others.push(waiter('fay', ['mail'], false, 'a'), waiter('gil', ['mail']));
    for (const each of others) lines.join(each);
    expect(inLine('mail')).toEqual(['ann', 'bob', 'cid', 'dan', 'eve', 'fay', 'gil']);
    const walk = lines.walk(['mail']);
    const visited: string[] = [];
    for (const each of walk) {
      visited.push(each.name);
      if (each.name === 'dan') walk.skipGroup();
      if (each.name === 'eve') lines.leave(each);
    }
    expect(visited).toEqual(['ann', 'bob', 'cid', 'dan', 'eve', 'gil']);
    for (const each of [ann, bob, cid, ...others]) lines.leave(each);
    expect([lines.has('mail'), lines.size]).toEqual([false, 0]);
  });
});
