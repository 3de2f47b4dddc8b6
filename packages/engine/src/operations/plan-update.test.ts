import { describe, expect, test } from 'vitest';
import { DATA, of, plan, planView, told } from '../testing/plan-view.ts';

describe('a dequeue', () => {
  test.each([
    ['fresh', undefined, 'dequeue mail/fresh'],
    ['leased', undefined, 'dequeue mail/leased'],
    ['leased', 7, 'dequeue mail/leased'],
    ['overdue', 7, 'dequeue mail/overdue'],
    ['expired', 7, 'dequeue mail/expired'],
    ['leased', 6, '0 LEASE_LOST'],
    ['fresh', 7, '0 LEASE_LOST'],
    ['absent', undefined, '0 TASK_NOT_FOUND'],
    ['died', 7, 'due mail'],
    ['died', undefined, 'due mail'],
    ['unread', 7, 'needs unread'],
  ])('of a task that is %s, with token %s: %s', (pid, token, expected) => {
    expect(told({ dequeue: [of(pid, token)] })).toEqual([expected]);
  });

  test('in a queue that does not exist finds no task', () => {
    expect(told({ dequeue: [{ queue: 'nowhere', pid: 'a' }] })).toEqual(['0 TASK_NOT_FOUND']);
  });
});

describe('a renewal', () => {
  test.each([
    ['leased', 7, 'change mail/leased leased for 50'],
    ['leased', undefined, 'change mail/leased leased for 50'],
    ['leased', 6, '0 LEASE_LOST'],
    ['overdue', 7, '0 LEASE_EXPIRED'],
    ['overdue', undefined, '0 NOT_LEASED'],
    ['expired', 7, '0 LEASE_EXPIRED'],
    ['expired', undefined, '0 NOT_LEASED'],
    ['died', 7, 'due mail'],
    ['delayed', undefined, '0 NOT_LEASED'],
    ['absent', 7, '0 TASK_NOT_FOUND'],
  ])('of a task that is %s, with token %s: %s', (pid, token, expected) => {
    expect(told({ renew: [{ ...of(pid, token), for: 50 }] })).toEqual([expected]);
  });
});

describe('a release', () => {
  test.each([
    ['leased', {}, 'change mail/leased hidden for 500'],
    ['leased', { delay: 30 }, 'change mail/leased hidden for 30'],
    ['first', {}, 'change mail/first hidden for 50'],
    ['first', { delay: 0 }, 'change mail/first available'],
    ['first', { refund: true }, 'change mail/first available'],
    ['last', { refund: true, delay: 30 }, 'change mail/last hidden for 30'],
    ['expired', {}, '0 LEASE_EXPIRED'],
    ['overdue', {}, '0 LEASE_EXPIRED'],
    ['overdue', { refund: true }, '0 LEASE_EXPIRED'],
    ['overdue', { token: undefined }, '0 NOT_LEASED'],
    ['died', { refund: true }, 'due mail'],
  ])('of a task that is %s with %o: %s', (pid, how, expected) => {
    expect(told({ release: [{ ...of(pid, 7), ...how }] })).toEqual([expected]);
  });

  test('after the last attempt moves the task, with its payload, to the dead-letter queue', () => {
    expect(told({ release: [of('last', 7)] })).toEqual([
      'dequeue mail/last as dead',
      'enqueue mail.dead/last available',
      'enqueue $taskmaster/results/\0\x04maillast hidden for 3600000',
    ]);
    const made = plan({ release: [of('last', 7)] });
    expect(made).toMatchObject({ outcome: { released: [{ deadLetterQueue: 'mail.dead' }] } });
    expect(made.kind === 'planned' && made.changes[0]).toMatchObject({ failure: 'dead' });
    expect(made.kind === 'planned' && made.changes[1]?.change).toMatchObject({
      data: DATA,
      after: { retry: undefined },
    });
  });

  test('after the last attempt asks for the payload first', () => {
    const made = plan({ release: [of('last', 7)] }, planView({ payloads: false }));
    expect(made).toMatchObject({ kind: 'needs', needs: [{ pid: 'last', payloadBytes: expect.any(Number) }] });
  });

  test('with a refund takes the attempt back', () => {
    const made = plan({ release: [{ ...of('leased', 7), refund: true }] });
    expect(made).toMatchObject({ changes: [{ change: { after: { attempts: 0, token: 7 } } }] });
  });
});

test('a task whose last attempt is over stays in its queue if it cannot be moved', () => {
  const view = planView({ canShowDue: false });
  expect(told({ dequeue: [of('died', 7)] }, view)).toEqual(['dequeue mail/died']);
  expect(told({ release: [{ ...of('died', 7), refund: true }] }, view)).toEqual(['0 LEASE_EXPIRED']);
});

test('one bad item refuses the whole update, and the refusal names every bad item', () => {
  const made = plan({
    enqueue: [of('new')],
    dequeue: [of('fresh'), of('leased', 6)],
    renew: [{ ...of('absent'), for: 50 }],
  });
  expect(made).toMatchObject({
    kind: 'refused',
    items: [
      { index: 1, pid: 'leased', reason: 'LEASE_LOST' },
      { index: 0, pid: 'absent', reason: 'TASK_NOT_FOUND' },
    ],
  });
});
