import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TaskChange } from '../domain/atom.ts';
import type { Instant, LeaseToken, Pid, QueueId, Ticket } from '../domain/ids.ts';
import { AVAILABLE, dueSince, isLeased, type TaskState, type Visibility } from '../domain/task.ts';
import { FIRST_PID, QueueLedger } from './queue-ledger.ts';

const QUEUE = 3 as QueueId;
const MAIL = { group: 'shop', name: 'mail' };

const newLedger = (): QueueLedger => new QueueLedger(QUEUE, MAIL);
const reload = (ledger: QueueLedger): QueueLedger => QueueLedger.decode(Buffer.from(ledger.encode()));

const hidden = (until: number, leased: boolean): Visibility => {
  const lease = { since: 0 as Instant, worker: 'w', workerAddress: '127.0.0.1:1', suspects: 0 };
  return { kind: 'hidden', until: until as Instant, lease: leased ? lease : undefined };
};

const stateOf = (visibility: Visibility, enqueuedAt = 0, dueAt = enqueuedAt, dataBytes = 0): TaskState => ({
  enqueuedAt: enqueuedAt as Instant,
  dueAt: dueAt as Instant,
  dataBytes,
  headerBytes: 0,
  attempts: 0,
  token: 0 as LeaseToken,
  retry: undefined,
  visibility,
  history: undefined,
});

const enqueue = (pid: string, after: TaskState): TaskChange => {
  return { kind: 'enqueue', queueId: QUEUE, pid: pid as Pid, after, data: undefined };
};

/** The next state of a task, or its removal. */
interface Step {
  readonly pid: string;
  readonly becomes: Visibility | 'completed' | 'dead';
}

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    pid: fc.constantFrom('a', 'b', 'c', 'd', '\xff'),
    becomes: fc.oneof(
      fc.constantFrom<Step['becomes']>(AVAILABLE, 'completed', 'dead'),
      fc.tuple(fc.nat(1000), fc.boolean()).map(([until, leased]) => hidden(until, leased)),
    ),
  }),
  { maxLength: 40 },
);

/** The steps as changes of existing tasks, and the tasks after all steps. */
function play(all: readonly Step[]): { changes: TaskChange[]; tasks: Map<Pid, TaskState>; completed: number } {
  const tasks = new Map<Pid, TaskState>();
  const changes: TaskChange[] = [];
  for (const [i, { pid: text, becomes }] of all.entries()) {
    const pid = text as Pid;
    const before = tasks.get(pid);
    if (becomes === 'completed' || becomes === 'dead') {
      if (!before) continue;
      changes.push({ kind: 'dequeue', queueId: QUEUE, pid, before, completed: becomes === 'completed' });
      tasks.delete(pid);
      continue;
    }
    const enqueuedAt = before?.enqueuedAt ?? i * 1000;
    const isDelayed = becomes.kind === 'hidden' && becomes.lease === undefined;
    const after = stateOf(becomes, enqueuedAt, isDelayed ? becomes.until : (before?.dueAt ?? enqueuedAt), i % 5);
    changes.push(
      before ? { kind: 'change', queueId: QUEUE, pid, before, after, data: undefined } : enqueue(pid, after),
    );
    tasks.set(pid, after);
  }
  const completed = changes.filter((change) => change.kind === 'dequeue' && change.completed).length;
  return { changes, tasks, completed };
}

/** Applies every change as a separate atom. */
function applyFrom(ledger: QueueLedger, changes: readonly TaskChange[], from = 0): QueueLedger {
  for (const [i, change] of changes.entries()) if (i >= from) ledger.apply((i + 1) as Ticket, change);
  return ledger;
}

describe('a ledger', () => {
  test('counts exactly, and its bounds hold for every task', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { changes, tasks, completed } = play(all);
        const ledger = applyFrom(newLedger(), changes);
        const states = [...tasks.values()];
        const leased = states.filter(isLeased).length;
        const available = states.filter(({ visibility }) => visibility.kind === 'available').length;
        expect(ledger).toMatchObject({ available, leased, delayed: states.length - leased - available, completed });
        expect(ledger.size).toBe(states.length);
        expect(ledger.bytes).toBe(states.reduce((sum, { dataBytes }) => sum + dataBytes, 0));
        const due = states.flatMap((state) => dueSince(state) ?? []);
        const { oldest } = ledger;
        expect(oldest === undefined).toBe(due.length === 0);
        // Exact up to the width of a bucket.
        if (oldest !== undefined) expect(Math.abs(Math.min(...due) - oldest)).toBeLessThanOrEqual(1500);
        for (const [pid, { visibility }] of tasks) {
          if (visibility.kind === 'available') expect(pid >= ledger.readyFloor).toBe(true);
          else expect(visibility.until).toBeGreaterThanOrEqual(ledger.dueFloor);
          expect(pid <= (ledger.largestPid ?? '')).toBe(true);
        }
      }),
    );
  });

  test('loaded from any checkpoint, is the same for any earlier start of the replay', () => {
    fc.assert(
      fc.property(steps, fc.nat(), fc.nat(), (all, checkpointed, replayed) => {
        const { changes } = play(all);
        const upTo = checkpointed % (changes.length + 1);
        const loaded = reload(applyFrom(newLedger(), changes.slice(0, upTo)));
        applyFrom(loaded, changes, replayed % (upTo + 1));
        const once = applyFrom(newLedger(), changes);
        expect(Buffer.from(loaded.encode()).equals(Buffer.from(once.encode()))).toBe(true);
      }),
    );
  });

  test('applies all changes of one atom, and none of them twice after a reload', () => {
    const atom = [enqueue('a', stateOf(AVAILABLE)), enqueue('b', stateOf(AVAILABLE))];
    const ledger = newLedger();
    for (const change of atom) ledger.apply(1 as Ticket, change);
    const loaded = reload(ledger);
    for (const change of atom) loaded.apply(1 as Ticket, change);
    expect([ledger.available, loaded.available]).toEqual([2, 2]);
  });

  test('keeps the largest PID of an empty queue: FIFO continues behind it', () => {
    const { changes } = play([
      { pid: 'z', becomes: AVAILABLE },
      { pid: 'z', becomes: 'completed' },
    ]);
    expect(reload(applyFrom(newLedger(), changes))).toMatchObject({ size: 0, largestPid: 'z', completed: 1 });
  });
});

describe('raised floors', () => {
  test('are kept on disk, and are lowered by tasks before them', () => {
    const ledger = newLedger();
    ledger.apply(1 as Ticket, enqueue('m', stateOf(AVAILABLE)));
    expect(ledger.readyFloor).toBe(FIRST_PID);
    ledger.readyFloor = 'm' as Pid;
    ledger.dueFloor = 500 as Instant;

    const loaded = reload(ledger);
    loaded.apply(2 as Ticket, enqueue('x', stateOf(AVAILABLE)));
    loaded.apply(3 as Ticket, enqueue('y', stateOf(hidden(600, true))));
    expect(loaded).toMatchObject({ readyFloor: 'm', dueFloor: 500 });
    loaded.apply(4 as Ticket, enqueue('c', stateOf(AVAILABLE)));
    loaded.apply(5 as Ticket, enqueue('d', stateOf(hidden(400, false))));
    expect(loaded).toMatchObject({ readyFloor: 'c', dueFloor: 400 });
  });
});

test('a row of an earlier release has no bytes, and their sum does not fall below zero', () => {
  const ledger = newLedger();
  const before = stateOf(AVAILABLE, 0, 0, 100);
  ledger.apply(1 as Ticket, enqueue('a', before));
  const row = Buffer.from(ledger.encode());
  const loaded = QueueLedger.decode(row.subarray(0, -6));
  expect([ledger.bytes, loaded.bytes]).toEqual([100, 0]);
  loaded.apply(2 as Ticket, { kind: 'dequeue', queueId: QUEUE, pid: 'a' as Pid, before, completed: true });
  expect([loaded.size, loaded.bytes]).toEqual([0, 0]);
});

test('a row of a newer version is refused', () => {
  const row = Buffer.from(newLedger().encode());
  row[0] = 3;
  expect(() => QueueLedger.decode(row)).toThrow('queue row has version 3; this release reads 2');
});
