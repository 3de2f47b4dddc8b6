import { beforeEach, describe, expect, test } from 'vitest';
import { type Waiting, WaitLines } from './wait-lines.ts';

interface NamedWaiter extends Waiting {
  readonly name: string;
}

const waiter = (name: string, lines: readonly string[], impatient = false): NamedWaiter => ({ name, lines, impatient });

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
});
