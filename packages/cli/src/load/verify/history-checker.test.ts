import { describe, expect, test } from 'vitest';
import {
  type EnqueueCall,
  History,
  type HistoryEvent,
  type LeasedReply,
  type Outcome,
  type UpdateCall,
} from './history.ts';
import { type FinalTask, violationsOf } from './history-checker.ts';

/* Each test breaks one rule in a history that is otherwise correct: the checker must find exactly that. */

const enqueue = (data: string, pid?: string): EnqueueCall => ({
  queue: 'q',
  pid,
  data,
  mode: 'collapse',
  delayMs: 0,
  retry: undefined,
});

const update = (change: Partial<UpdateCall>): UpdateCall => ({
  kind: 'update',
  enqueue: [],
  dequeue: [],
  renew: [],
  release: [],
  requestId: undefined,
  ...change,
});

const done = (call: UpdateCall, result: 'created' | 'collapsed' = 'created', until = 0): Outcome => ({
  kind: 'updated',
  enqueued: call.enqueue.map(({ data, pid }) => ({ pid: pid ?? data, result })),
  renewed: call.renew.map(() => ({ until })),
  released: call.release.map(() => ({ until: undefined, deadLetterQueue: undefined })),
});

const UNKNOWN: Outcome = { kind: 'unknown' };
const REFUSED: Outcome = { kind: 'refused', reason: 'LEASE_LOST', items: [] };

/** Calls that take 2 ms each, one after the other. */
class Script {
  readonly #history = new History();
  #now = 1_000;
  #backedUpAt = Number.POSITIVE_INFINITY;

  update(change: Partial<UpdateCall>, outcome?: Outcome): this {
    const call = update(change);
    return this.#record(call, outcome ?? done(call));
  }

  lease(data: string, token: number, until: number, pid = data): this {
    const task: LeasedReply = { queue: 'q', pid, data, token, until, attempt: 1, enqueuedAt: 1_000 };
    const call = {
      kind: 'lease',
      queues: ['q'],
      maxTasks: 1,
      leaseDurationMs: 1,
      maxPid: undefined,
      maxBytes: 0,
      waitMs: 0,
    };
    return this.#record({ ...call, kind: 'lease' }, { kind: 'leased', tasks: [task], dismissed: false });
  }

  until(now: number): this {
    this.#now = now;
    return this;
  }

  /** The backup was made after the call before this one: later leases prove nothing about it. */
  backUp(): this {
    this.#backedUpAt = this.#now;
    return this;
  }

  violations(...data: string[]): string[] {
    const found = data.map((one): FinalTask => ({ queue: 'q', pid: one, data: one }));
    const isLater = ({ calledAt }: HistoryEvent): boolean => calledAt >= this.#backedUpAt;
    return violationsOf(this.#history.events, found, { clockSlackMs: 0, isLater });
  }

  #record(call: Parameters<History['begin']>[0], outcome: Outcome): this {
    this.#history.begin(call, this.#now).end(outcome, this.#now + 2);
    this.#now += 2;
    return this;
  }
}

const task = (data: string, token: number) => ({ queue: 'q', pid: data, token });

describe('a history that keeps the contract', () => {
  test('has no violation: a task is leased, renewed, moved on, and another one leased again after its lease', () => {
    const script = new Script()
      .update({ enqueue: [enqueue('a'), enqueue('b')] })
      .lease('a', 1, 1_500)
      .lease('b', 2, 1_500)
      .update(
        { renew: [{ ...task('a', 1), leaseDurationMs: 1_000 }] },
        done(update({ renew: [{ ...task('a', 1), leaseDurationMs: 1_000 }] }), 'created', 2_000),
      )
      .update({ dequeue: [task('a', 1)], enqueue: [enqueue('a2')] })
      .until(1_500)
      .lease('b', 3, 9_000)
      .update({ release: [{ ...task('b', 3), delayMs: undefined, refund: false }] })
      .lease('b', 4, 9_000)
      .update({ enqueue: [enqueue('never')], dequeue: [task('b', 3)] }, REFUSED);
    expect(script.violations('a2', 'b')).toEqual([]);
  });

  test('may lease a task early after a renewal, even one with an unknown outcome, has shortened its lease', () => {
    const renewal = update({ renew: [{ ...task('a', 1), leaseDurationMs: 50 }] });
    const renewed = (outcome: Outcome) =>
      new Script()
        .update({ enqueue: [enqueue('a')] })
        .lease('a', 1, 5_000)
        .update(renewal, outcome)
        .until(1_060)
        .lease('a', 2, 9_000);
    expect(renewed(done(renewal, 'created', 1_055)).violations('a')).toEqual([]);
    expect(renewed(UNKNOWN).violations('a')).toEqual([]);
  });

  test('may lack the effects of an update with an unknown outcome, if it lacks all of them', () => {
    const begun = () =>
      new Script()
        .update({ enqueue: [enqueue('a')] })
        .lease('a', 1, 9_000)
        .update({ dequeue: [task('a', 1)], enqueue: [enqueue('b'), enqueue('c')] }, UNKNOWN);
    expect(begun().violations('a')).toEqual([]);
    expect(begun().violations('b', 'c')).toEqual([]);
  });
});

describe('a restored backup', () => {
  /** `b` and `c` come from an update that the backup may have. */
  const moved = () =>
    new Script()
      .update({ enqueue: [enqueue('a')] })
      .backUp()
      .lease('a', 1, 1_500)
      .update({ dequeue: [task('a', 1)], enqueue: [enqueue('b'), enqueue('c')] }, UNKNOWN)
      .lease('b', 2, 9_000);

  test('may lack a later update, although a lease has shown its effect', () => {
    expect(moved().violations('a')).toEqual([]);
    expect(moved().violations('b', 'c')).toEqual([]);
  });

  test('has an earlier update, and each later one completely or not at all', () => {
    const lost = new Script().update({ enqueue: [enqueue('a')] }).backUp();
    expect(lost.violations()).toEqual([expect.stringMatching(/^\(a\) lost: a/)]);
    expect(moved().violations('a', 'b', 'c')).toEqual([expect.stringMatching(/^\(d\) torn: .* did not dequeue a/)]);
    expect(moved().violations('b')).toEqual([expect.stringMatching(/^\(d\) torn: .* but c is gone/)]);
    expect(moved().violations()).toEqual([expect.stringMatching(/^\(d\) torn: .* but b is gone/)]);
  });
});

describe('the checker reports', () => {
  test('(a) an enqueue that was lost', () => {
    expect(new Script().update({ enqueue: [enqueue('a')] }).violations()).toEqual([
      expect.stringMatching(/^\(a\) lost: a/),
    ]);
  });

  test('(b) a completed task that is there again, is leased again, or is completed again', () => {
    const completed = () =>
      new Script()
        .update({ enqueue: [enqueue('a')] })
        .lease('a', 1, 1_004)
        .update({ dequeue: [task('a', 1)] });
    expect(completed().violations('a')).toEqual([expect.stringMatching(/^\(b\) dequeued by .*, but it exists/)]);
    expect(completed().lease('a', 2, 9_000).violations()).toEqual([
      expect.stringMatching(/^\(b\) dequeued by .*, but leased/),
    ]);
    expect(
      completed()
        .update({ dequeue: [task('a', 1)] })
        .violations(),
    ).toEqual([expect.stringMatching(/^\(b\) dequeued twice/)]);
  });

  test('(b) a task that a refused update or a collapsed enqueue has created', () => {
    const refused = new Script().update({ enqueue: [enqueue('a')] }, REFUSED);
    expect(refused.violations('a')).toEqual([expect.stringMatching(/^\(b\) refused or collapsed/)]);
    const change = { enqueue: [enqueue('a', 'p')] };
    const collapsed = new Script().update(change, done(update(change), 'collapsed'));
    expect(collapsed.violations('a')).toEqual([expect.stringMatching(/^\(b\) refused or collapsed/)]);
  });

  test('(c) a task leased while it was leased, or while its lease was renewed', () => {
    const leased = () => new Script().update({ enqueue: [enqueue('a')] }).lease('a', 1, 1_100);
    const renewal = update({ renew: [{ ...task('a', 1), leaseDurationMs: 1_000 }] });
    expect(leased().lease('a', 2, 9_000).violations('a')).toEqual([
      expect.stringMatching(/^\(c\) leased while it was leased/),
    ]);
    const renewed = leased()
      .update(renewal, done(renewal, 'created', 2_000))
      .until(1_200)
      .lease('a', 2, 9_000);
    expect(renewed.violations('a')).toEqual([expect.stringMatching(/^\(c\) leased while it was leased/)]);
  });

  test('(c) a token that became smaller or was used twice', () => {
    const leased = () => new Script().update({ enqueue: [enqueue('a')] }).lease('a', 5, 1_004);
    expect(leased().until(2_000).lease('a', 4, 2_001).violations('a')).toEqual([
      expect.stringMatching(/^\(c\) the token became smaller/),
    ]);
    expect(leased().until(2_000).lease('a', 5, 9_000).violations('a')).toEqual([
      expect.stringMatching(/^\(c\) one token for two leases/),
    ]);
  });

  test('(d) an update of which only a part took effect', () => {
    const moved = () =>
      new Script()
        .update({ enqueue: [enqueue('a')] })
        .lease('a', 1, 9_000)
        .update({ dequeue: [task('a', 1)], enqueue: [enqueue('b'), enqueue('c')] }, UNKNOWN);
    expect(moved().violations('a', 'b', 'c')).toEqual([expect.stringMatching(/^\(d\) torn: .* did not dequeue a/)]);
    expect(moved().violations('b')).toEqual([expect.stringMatching(/^\(d\) torn: .* but c is gone/)]);
    expect(moved().violations()).toEqual([expect.stringMatching(/^\(d\) torn: .* but b is gone/)]);
  });

  test('a task that was never enqueued, and one that exists twice', () => {
    expect(new Script().violations('ghost')).toEqual([expect.stringMatching(/never enqueued: ghost/)]);
    const script = new Script().update({ enqueue: [enqueue('a')] });
    expect(script.violations('a', 'a')).toEqual([expect.stringMatching(/twice at the end: a/)]);
  });
});
