import { expect, test } from 'vitest';
import type { Instant, Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import type { PlannedAtom, PlannedChange } from '../planned-atom.ts';
import type { Queue } from '../queues/queue.ts';
import { AtomEnds } from './ends-in.ts';

const queueNamed = (name: string): Queue => ({ ledger: { name: { group: 'g', name } } }) as Queue;

test('an atom is read once, however many of its ends are asked for', () => {
  const queue = queueNamed('q');
  const dead = queueNamed('q.dead');
  const state = { attempts: 1, history: undefined } as TaskState;
  const changes: PlannedChange[] = [];
  for (let at = 0; at < 1_000; at++) {
    const pid = String(at) as Pid;
    const after = { ...state, history: { failures: [], origin: { queue: 'q' } } } as unknown as TaskState;
    changes.push({ queue, change: { kind: 'dequeue', pid, before: state, completed: false } } as PlannedChange);
    if (at % 2 === 0) changes.push({ queue: dead, change: { kind: 'enqueue', pid, after } } as PlannedChange);
  }
  let reads = 0;
  const counted = new Proxy(changes, {
    get(target, key) {
      if (typeof key === 'string' && /^\d+$/.test(key)) reads++;
      return Reflect.get(target, key);
    },
  });
  const plan = { at: 5 as Instant, changes: counted } as unknown as PlannedAtom;
  const ends = new AtomEnds(plan);
  const outcomes = changes.flatMap((planned) =>
    planned.change.kind === 'dequeue' ? [ends.of(planned.change, planned).outcome] : [],
  );
  expect(outcomes).toEqual(Array.from({ length: 1_000 }, (_, at) => (at % 2 === 0 ? 'dead-lettered' : 'removed')));
  expect(reads).toBe(changes.length);
});
