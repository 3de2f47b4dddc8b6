import { beforeEach, describe, expect, test } from 'vitest';
import { type Waiting, WaitLines } from './wait-lines.ts';

interface Caller extends Waiting {
  readonly name: string;
}

const caller = (name: string, lines: readonly string[], impatient = false): Caller => ({ name, lines, impatient });

describe('wait lines', () => {
  let lines: WaitLines<Caller>;
  const inLine = (name: string): string[] => [...lines.line(name)].map((each) => each.name);
  const ann = caller('ann', ['mail', 'fax']);
  const bob = caller('bob', ['mail']);
  const cid = caller('cid', ['fax', 'mail'], true);

  beforeEach(() => {
    lines = new WaitLines();
    for (const each of [ann, bob, cid]) lines.join(each);
  });

  test('serve first come, first served, each line for itself', () => {
    expect(inLine('mail')).toEqual(['ann', 'bob', 'cid']);
    expect(inLine('fax')).toEqual(['ann', 'cid']);
    expect(inLine('letters')).toEqual([]);
  });

  test('count everybody once', () => {
    expect(lines.size).toBe(3);
    expect([...lines.all()]).toHaveLength(3);
    lines.leave(ann);
    lines.leave(ann);
    expect(lines.size).toBe(2);
  });

  test('who leaves is in no line any more, and who comes back is last', () => {
    lines.leave(ann);
    expect([lines.isWaiting(ann), inLine('mail'), inLine('fax')]).toEqual([false, ['bob', 'cid'], ['cid']]);
    lines.join(ann);
    expect([lines.isWaiting(ann), inLine('mail')]).toEqual([true, ['bob', 'cid', 'ann']]);
  });

  test('know whether somebody has no time', () => {
    expect([lines.hasImpatient('mail'), lines.hasImpatient('fax')]).toEqual([true, true]);
    lines.leave(cid);
    expect([lines.hasImpatient('mail'), lines.hasImpatient('fax')]).toEqual([false, false]);
  });

  test('keep nothing of a line that emptied: users name as many queues as they like', () => {
    for (const each of [ann, bob, cid]) lines.leave(each);
    expect([lines.has('mail'), lines.has('fax'), lines.size]).toEqual([false, false, 0]);
  });

  test('do not visit who leaves during a visit', () => {
    const visited: string[] = [];
    for (const each of lines.line('mail')) {
      visited.push(each.name);
      lines.leave(bob);
    }
    expect(visited).toEqual(['ann', 'cid']);
  });
});
