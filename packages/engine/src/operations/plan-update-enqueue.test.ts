import { EnqueueMode, EnqueueResult } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { of, plan, told } from '../testing/plan-view.ts';

describe('an enqueue', () => {
  const { ENQUEUE_MODE_COLLAPSE, ENQUEUE_MODE_FAIL, ENQUEUE_MODE_REPLACE } = EnqueueMode;

  test.each([
    ['new', { delay: 0 }, 'enqueue mail/new available'],
    ['new', { delay: 30 }, 'enqueue mail/new hidden for 30'],
    ['new', { mode: ENQUEUE_MODE_FAIL }, 'enqueue mail/new available'],
    ['leased', { mode: ENQUEUE_MODE_REPLACE }, 'change mail/leased leased for 10'],
    ['leased', { mode: ENQUEUE_MODE_FAIL }, '0 TASK_EXISTS'],
    ['died', { mode: ENQUEUE_MODE_COLLAPSE }, 'due mail'],
    ['died', { mode: ENQUEUE_MODE_REPLACE }, 'due mail'],
    ['died', { mode: ENQUEUE_MODE_FAIL }, 'due mail'],
    ['unread', {}, 'needs unread'],
  ])('of the PID %s with %o: %s', (pid, how, expected) => {
    expect(told({ enqueue: [{ ...of(pid), ...how }] })).toEqual([expected]);
  });

  test('collapses into the existing task without changing it', () => {
    const made = plan({ enqueue: [{ ...of('leased'), mode: ENQUEUE_MODE_COLLAPSE, data: 'other' }] });
    expect(made).toMatchObject({
      changes: [],
      outcome: { enqueued: [{ pid: 'leased', result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED }] },
    });
  });

  test.each([
    ['leased', true],
    ['overdue', false],
    ['expired', false],
    ['delayed', false],
    ['fresh', false],
    ['new', false],
  ])('tells whether the task it meets is leased: %s, %s', (pid, leased) => {
    for (const mode of [ENQUEUE_MODE_COLLAPSE, ENQUEUE_MODE_REPLACE]) {
      expect(plan({ enqueue: [{ ...of(pid), mode }] })).toMatchObject({ outcome: { enqueued: [{ pid, leased }] } });
    }
  });

  test('without a PID gets one behind all others, including those of the same update', () => {
    const made = plan({ enqueue: [{ queue: 'mail' }, of('zebra'), { queue: 'mail' }] });
    const pids = made.kind === 'planned' ? made.outcome.enqueued.map(({ pid }) => pid) : [];
    expect(pids).toEqual(['overdue0000000000000001', 'zebra', 'zebra0000000000000001']);
  });

  test('without a PID is refused if its reply would have too many bytes, because the queue has held a long PID', () => {
    const behindLong = (count: number) => [
      of('z'.repeat(4096)),
      ...Array.from({ length: count }, () => ({ queue: 'mail' })),
    ];
    expect(plan({ enqueue: behindLong(700) }).kind).toBe('planned');
    expect(told({ enqueue: behindLong(1000) })).toEqual([expect.stringMatching(/^7\d\d REQUEST_TOO_LARGE$/)]);
  });

  test('creates each queue once', () => {
    const made = plan({ enqueue: ['new', 'other', 'new'].map((queue) => ({ queue })) });
    const created =
      made.kind === 'planned' ? made.created.map(({ fullName, ledger }) => [fullName, ledger.queueId]) : [];
    expect(created).toEqual([
      ['new', 100],
      ['other', 101],
    ]);
  });

  test('sees the dequeues of its update: a dequeued PID is free', () => {
    const both = { dequeue: [of('leased', 7)], enqueue: [{ ...of('leased'), mode: ENQUEUE_MODE_FAIL }] };
    expect(told(both)).toEqual(['dequeue mail/leased', 'enqueue mail/leased available']);
  });
});
