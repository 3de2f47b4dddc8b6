import { describe, expect, test } from 'vitest';
import { type EnqueueCall, History, type LeasedReply, type Outcome, type UpdateCall } from './history.ts';
import { type FinalTask, violationsOf } from './history-checker.ts';

/* A checker is worth what it finds: each rule is broken once, in a history that is right but for that. */

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

  update(change: Partial<UpdateCall>, outcome?: Outcome): this {
    const call = update(change);
    return this.#record(call, outcome ?? done(call));
  }

  lease(data: string, token: number, until: number, pid = data): this {
    const task: LeasedReply = { queue: 'q', pid, data, token, until, attempt: 1, enqueuedAt: 1_000 };
    const call = { kind: 'lease', queues: ['q'], maxTasks: 1, leaseMs: 1, maxPid: undefined, maxBytes: 0, waitMs: 0 };
    return this.#record({ ...call, kind: 'lease' }, { kind: 'leased', tasks: [task], dismissed: false });
  }

  until(now: number): this {
    this.#now = now;
    return this;
  }

  violations(...data: string[]): string[] {
    const found = data.map((one): FinalTask => ({ queue: 'q', pid: one, data: one }));
    return violationsOf(this.#history.events, found, { clockSlackMs: 0 });
  }

  #record(call: Parameters<History['begin']>[0], outcome: Outcome): this {
    this.#history.begin(call, this.#now).end(outcome, this.#now + 2);
    this.#now += 2;
    return this;
  }
}

const task = (data: string, token: number) => ({ queue: 'q', pid: data, token });

describe('a history that keeps the contract', () => {
  test('is fine: leased, renewed, moved on, leased again after the end of the lease', () => {
    const script = new Script()
      .update({ enqueue: [enqueue('a'), enqueue('b')] })
      .lease('a', 1, 1_500)
      .lease('b', 2, 1_500)
      .update(
        { renew: [{ ...task('a', 1), leaseMs: 1_000 }] },
        done(update({ renew: [{ ...task('a', 1), leaseMs: 1_000 }] }), 'created', 2_000),
      )
      .update({ dequeue: [task('a', 1)], enqueue: [enqueue('a2')] })
      .until(1_500)
      .lease('b', 3, 9_000)
      .update({ release: [{ ...task('b', 3), delayMs: undefined, refund: false }] })
      .lease('b', 4, 9_000)
      .update({ enqueue: [enqueue('never')], dequeue: [task('b', 3)] }, REFUSED);
    expect(script.violations('a2', 'b')).toEqual([]);
  });

  test('may give a task away early when a renewal, also one of unknown outcome, has made its lease shorter', () => {
    const renewal = update({ renew: [{ ...task('a', 1), leaseMs: 50 }] });
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

  test('may have lost whatever nobody knows of, entirely', () => {
    const begun = () =>
      new Script()
        .update({ enqueue: [enqueue('a')] })
        .lease('a', 1, 9_000)
        .update({ dequeue: [task('a', 1)], enqueue: [enqueue('b'), enqueue('c')] }, UNKNOWN);
    expect(begun().violations('a')).toEqual([]);
    expect(begun().violations('b', 'c')).toEqual([]);
  });
});

describe('found out is', () => {
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
    expect(completed().violations('a')).toEqual([expect.stringMatching(/^\(b\) dequeued by .*, but there/)]);
    expect(completed().lease('a', 2, 9_000).violations()).toEqual([
      expect.stringMatching(/^\(b\) dequeued by .*, but leased/),
    ]);
    expect(
      completed()
        .update({ dequeue: [task('a', 1)] })
        .violations(),
    ).toEqual([expect.stringMatching(/^\(b\) dequeued twice/)]);
  });

  test('(b) a task that a refused update, or a collapsed enqueue, made all the same', () => {
    const refused = new Script().update({ enqueue: [enqueue('a')] }, REFUSED);
    expect(refused.violations('a')).toEqual([expect.stringMatching(/^\(b\) refused or collapsed/)]);
    const change = { enqueue: [enqueue('a', 'p')] };
    const collapsed = new Script().update(change, done(update(change), 'collapsed'));
    expect(collapsed.violations('a')).toEqual([expect.stringMatching(/^\(b\) refused or collapsed/)]);
  });

  test('(c) a task leased while it was leased, or while its lease was renewed', () => {
    const leased = () => new Script().update({ enqueue: [enqueue('a')] }).lease('a', 1, 1_100);
    const renewal = update({ renew: [{ ...task('a', 1), leaseMs: 1_000 }] });
    expect(leased().lease('a', 2, 9_000).violations('a')).toEqual([
      expect.stringMatching(/^\(c\) leased while it was leased/),
    ]);
    const renewed = leased()
      .update(renewal, done(renewal, 'created', 2_000))
      .until(1_200)
      .lease('a', 2, 9_000);
    expect(renewed.violations('a')).toEqual([expect.stringMatching(/^\(c\) leased while it was leased/)]);
  });

  test('(c) a token that went back, or was given twice', () => {
    const leased = () => new Script().update({ enqueue: [enqueue('a')] }).lease('a', 5, 1_004);
    expect(leased().until(2_000).lease('a', 4, 2_001).violations('a')).toEqual([
      expect.stringMatching(/^\(c\) the token went back/),
    ]);
    expect(leased().until(2_000).lease('a', 5, 9_000).violations('a')).toEqual([
      expect.stringMatching(/^\(c\) one token for two leases/),
    ]);
  });

  test('(d) an update of which one half happened', () => {
    const moved = () =>
      new Script()
        .update({ enqueue: [enqueue('a')] })
        .lease('a', 1, 9_000)
        .update({ dequeue: [task('a', 1)], enqueue: [enqueue('b'), enqueue('c')] }, UNKNOWN);
    expect(moved().violations('a', 'b', 'c')).toEqual([expect.stringMatching(/^\(d\) torn: .* did not dequeue a/)]);
    expect(moved().violations('b')).toEqual([expect.stringMatching(/^\(d\) torn: .* but c is gone/)]);
    expect(moved().violations()).toEqual([expect.stringMatching(/^\(d\) torn: .* but b is gone/)]);
  });

  test('a task that nobody enqueued, and one that is there twice', () => {
    expect(new Script().violations('ghost')).toEqual([expect.stringMatching(/never enqueued: ghost/)]);
    const script = new Script().update({ enqueue: [enqueue('a')] });
    expect(script.violations('a', 'a')).toEqual([expect.stringMatching(/twice at the end: a/)]);
  });
});
