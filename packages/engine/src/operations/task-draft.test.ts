import { expect, test } from 'vitest';
import type { Pid } from '../domain/ids.ts';
import { NO_HISTORY, NO_LINKS, type TaskState } from '../domain/task.ts';
import type { Queue } from '../queues/queue.ts';
import { TaskDraft } from './task-draft.ts';

const state = { dataBytes: 0, history: undefined } as unknown as TaskState;
const NO_DATA = new Uint8Array(0);

/** A queue that counts how often a draft asks it for its largest PID, and a draft on an empty store. */
function setUp() {
  const counts = { asked: 0 };
  const queueNamed = (name: string): Queue =>
    ({
      fullName: `g#${name}`,
      ledger: {
        name: { group: 'g', name },
        queueId: 1,
        get largestPid() {
          counts.asked++;
          return undefined;
        },
      },
    }) as unknown as Queue;
  const draft = new TaskDraft({
    queue: () => undefined,
    draftQueue: ({ name }) => queueNamed(name),
    known: () => ({ kind: 'absent' }),
    lastInOrder: () => ({ last: undefined }),
    payload: () => undefined,
  });
  return { draft, counts, queue: queueNamed('q'), other: queueNamed('other') };
}

test('a roll-back costs what it drops, however much came before', () => {
  const { draft, counts, queue, other } = setUp();
  for (let at = 0; at < 1_000; at++)
    draft.add(at % 2 === 0 ? queue : other, String(at).padStart(4, '0') as Pid, state, NO_DATA);
  counts.asked = 0;
  for (let time = 0; time < 100; time++) {
    const { mark } = draft;
    draft.add(queue, '9999' as Pid, state, NO_DATA);
    expect(draft.known(queue, '9999' as Pid).kind).toBe('task');
    draft.rollBack(mark);
    expect(draft.known(queue, '9999' as Pid).kind).toBe('absent');
  }
  expect(counts.asked).toBe(0);
});

test('a roll-back leaves tasks, order and queues as they were before', () => {
  const { draft, queue, other } = setUp();
  draft.add(queue, 'a' as Pid, state, NO_DATA);
  draft.add(other, 'm' as Pid, state, NO_DATA);
  const [before] = [draft.known(queue, 'a' as Pid)];
  const created = draft.queueFor({ group: 'g', name: 'first' });
  const { mark } = draft;
  if (before.kind === 'task') draft.remove(queue, 'a' as Pid, before.task, 'completed');
  draft.add(queue, 'a' as Pid, { ...state, dataBytes: 7 }, NO_DATA);
  draft.add(queue, 'z' as Pid, state, NO_DATA);
  draft.add(other, 'z' as Pid, state, NO_DATA);
  draft.add(queue, 'zz' as Pid, state, NO_DATA);
  draft.queueFor({ group: 'g', name: 'second' });
  expect(draft.known(queue, 'z' as Pid).kind).toBe('task');
  draft.rollBack(mark);
  expect(draft.known(queue, 'a' as Pid)).toEqual(before);
  expect(draft.known(queue, 'z' as Pid).kind).toBe('absent');
  expect([draft.largestPid(queue), draft.largestPid(other)]).toEqual(['a', 'm']);
  expect(draft.queue({ group: 'g', name: 'first' })).toBe(created);
  expect(draft.queue({ group: 'g', name: 'second' })).toBeUndefined();
  expect(draft.changes).toHaveLength(2);
});

test('a roll-back gives an order key its last task back', () => {
  const { draft, queue } = setUp();
  const ordered = (after?: string): TaskState => {
    const links = { ...NO_LINKS, orderKey: 'k', after: after as Pid | undefined };
    return { ...state, history: { ...NO_HISTORY, links } };
  };
  const empty = draft.mark;
  draft.add(queue, '1' as Pid, ordered(), NO_DATA);
  const { mark } = draft;
  const first = draft.find(queue, '1' as Pid);
  if (first === undefined) throw new Error('it was added');
  draft.change(queue, '1' as Pid, first, ordered('2'));
  draft.add(queue, '2' as Pid, ordered(), NO_DATA);
  expect(draft.lastInOrder(queue, 'k')).toBe('2');
  draft.rollBack(mark);
  expect(draft.lastInOrder(queue, 'k')).toBe('1');
  draft.rollBack(empty);
  expect(draft.lastInOrder(queue, 'k')).toBeUndefined();
  expect(draft.needs).toEqual([]);
});
