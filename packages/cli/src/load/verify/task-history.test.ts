import { describe, expect, test } from 'vitest';
import type { LeaseCall, Outcome, UpdateCall } from './history.ts';
import { TaskHistory } from './task-history.ts';

/** Calls of 2 ms each about tasks of one queue. Their PIDs are their data. */
class Script {
  readonly history = new TaskHistory(0);
  #now = 0;
  #token = 0;

  enqueue(outcome: 'acknowledged' | 'refused' | 'unknown' = 'acknowledged'): string {
    const data = String(this.history.nextTask());
    const item = { queue: 'q', pid: undefined, data, mode: 'collapse', delayMs: 0, retry: undefined } as const;
    this.#end({ enqueue: [item] }, outcome, { enqueued: [{ pid: data, result: 'created' }] });
    return data;
  }

  /** Returns the token. */
  lease(data: string, token = ++this.#token): number {
    this.beginLease()(data, token);
    return token;
  }

  /** Begins a lease whose answer comes later. */
  beginLease(): (data: string, token: number) => void {
    const request = { queues: ['q'], maxTasks: 1, leaseDurationMs: 10, maxPid: undefined, maxBytes: 0, waitMs: 0 };
    const call: LeaseCall = { kind: 'lease', ...request };
    const until = this.#now + request.leaseDurationMs;
    const end = this.history.begin(call, this.#now);
    return (data, token) => {
      const task = { queue: 'q', pid: data, data, token, until, attempt: 1, enqueuedAt: 0 };
      this.#now += 2;
      end({ kind: 'leased', tasks: [task], dismissed: false }, this.#now);
    };
  }

  complete(data: string, token: number, outcome: 'acknowledged' | 'refused' | 'unknown' = 'acknowledged'): void {
    this.#end({ dequeue: [{ queue: 'q', pid: data, token }] }, outcome, {});
  }

  wait(ms: number): void {
    this.#now += ms;
  }

  #end(
    change: Partial<UpdateCall>,
    outcome: 'acknowledged' | 'refused' | 'unknown',
    told: Partial<Extract<Outcome, { readonly kind: 'updated' }>>,
  ): void {
    const call: UpdateCall = {
      kind: 'update',
      enqueue: [],
      dequeue: [],
      renew: [],
      release: [],
      requestId: undefined,
      ...change,
    };
    const end = this.history.begin(call, this.#now);
    this.#now += 2;
    if (outcome === 'acknowledged')
      end({ kind: 'updated', enqueued: [], renewed: [], released: [], ...told }, this.#now);
    else if (outcome === 'refused') end({ kind: 'refused', reason: 'OVERLOADED', items: [] }, this.#now);
    else end({ kind: 'unknown' }, this.#now);
  }
}

describe('a history that is checked while it grows', () => {
  test('holds only tasks that are open, those about to be checked, and those of unknown outcomes', () => {
    const script = new Script();
    for (let at = 0; at < 5_000; at++) {
      const data = script.enqueue();
      script.complete(data, script.lease(data));
    }
    const [open, lost] = [script.enqueue(), script.enqueue('unknown')];
    expect(script.history.held).toBeLessThan(300);
    script.history.foundAtEnd({ queue: 'q', pid: open, data: open });
    script.history.foundAtEnd({ queue: 'q', pid: lost, data: lost });
    const verdict = script.history.finish();
    expect(verdict).toMatchObject({ tasks: 5_002, violations: 0, tasksLeft: 2, calls: { unknown: 1 } });
    expect(verdict.mostTasksHeld).toBeLessThan(300);
  });

  test('keeps a task while a call is open that may tell of an earlier lease of it', () => {
    const script = new Script();
    const data = script.enqueue();
    const late = script.beginLease();
    script.wait(20);
    for (let at = 0; at < 600; at++) {
      const other = script.enqueue();
      script.complete(other, script.lease(other, 1_000 + at));
    }
    script.complete(data, script.lease(data, 2_000));
    late(data, 1);
    expect(script.history.finish()).toMatchObject({ violations: 0 });
  });

  test('finds what is wrong with a task that it has forgotten', () => {
    const script = new Script();
    const data = script.enqueue();
    script.complete(data, script.lease(data));
    for (let at = 0; at < 600; at++) {
      const other = script.enqueue();
      script.complete(other, script.lease(other));
    }
    script.lease(data);
    script.complete(data, 1);
    script.history.foundAtEnd({ queue: 'q', pid: data, data });
    script.history.foundAtEnd({ queue: 'q', pid: '9999', data: '9999' });
    const { shown, violations } = script.history.finish();
    expect(violations).toBe(4);
    expect(shown.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^\(b\) completed or refused before, but leased by #\d+: 1$/),
      expect.stringMatching(/^\(b\) changed by #\d+ after it was completed: 1 of q, token 1$/),
      '(b) completed or refused before, but it is in q at the end: 1',
      'never enqueued, but it is in q at the end: 9999',
    ]);
  });

  test('forgets refused tasks, and finds them in a queue', () => {
    const script = new Script();
    const data = script.enqueue('refused');
    expect(script.history.held).toBe(0);
    script.history.foundAtEnd({ queue: 'q', pid: data, data });
    expect(script.history.finish().violations).toBe(1);
  });

  test('shows the calls behind a violation, and counts those that it does not show', () => {
    const script = new Script();
    for (let at = 0; at < 30; at++) script.enqueue();
    const { shown, violations } = script.history.finish();
    expect(violations).toBe(30);
    expect(shown).toHaveLength(20);
    expect(shown[0]).toMatchObject({ message: expect.stringMatching(/^\(a\) lost: 1,/) });
    expect(shown[0]?.history).toMatch(/^#0 \+0\.\.\+2 .*update .*"data":"1".* → updated/);
  });
});
