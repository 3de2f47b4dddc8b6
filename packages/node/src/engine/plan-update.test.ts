import { EnqueueMode, EnqueueResult, formatQueueName, type QueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Instant, LeaseToken, PartitionId, Pid, QueueId } from '../domain/ids.ts';
import { AVAILABLE, type RetryPolicy, type TaskState, type Visibility } from '../domain/task.ts';
import { QueueLedger } from '../log/queue-ledger.ts';
import { type UpdateSpec, updateCommand } from '../testing/engine-harness.ts';
import { planUpdate, type UpdateView } from './plan-update.ts';
import { Queue } from './queue.ts';

const NOW = 1_000_000 as Instant;
const MAIL = { group: '', name: 'mail' };
const DATA = Buffer.from('data');

const newQueue = (name: QueueName, id: number): Queue =>
  new Queue(1 as PartitionId, new QueueLedger(id as QueueId, name), formatQueueName(name));

const lease = (until: number): Visibility => {
  const holder = { worker: 'w', workerAddress: '127.0.0.1:1', since: 0 as Instant };
  return { kind: 'hidden', until: until as Instant, lease: holder };
};
const retry: RetryPolicy = { maxAttempts: 2, backoffInitialMs: 100, backoffMaxMs: 1000, deadLetterQueue: '' };

const state = (token: number, visibility: Visibility, more: Partial<TaskState> = {}): TaskState => {
  const attempts = token === 0 ? 0 : 1;
  const never = { enqueuedAt: 5 as Instant, dataBytes: DATA.length, retry: undefined };
  return { ...never, attempts, token: token as LeaseToken, visibility, ...more };
};

/** One queue with a task in every condition that a rule tells apart. */
const conditions: Readonly<Record<string, TaskState>> = {
  fresh: state(0, AVAILABLE),
  delayed: state(0, { kind: 'hidden', until: (NOW + 10) as Instant, lease: undefined }),
  leased: state(7, lease(NOW + 10)),
  /** Its lease is over but nobody has looked. */
  overdue: state(7, lease(NOW)),
  /** Its lease is over and it is available again. */
  expired: state(7, AVAILABLE),
  first: state(7, lease(NOW + 10), { retry }),
  last: state(7, lease(NOW + 10), { retry, attempts: 2 }),
};

function viewOf({ payloads = true }: { readonly payloads?: boolean } = {}): UpdateView {
  const mail = newQueue(MAIL, 1);
  mail.ledger.largestPid = 'overdue' as Pid;
  return {
    now: NOW,
    random: { next: () => 0.5 },
    queue: ({ name }) => (name === 'mail' ? mail : undefined),
    draftQueue: (name, drafts) => newQueue(name, 100 + drafts),
    known: (queue, pid) => {
      if (pid === 'unread') return { kind: 'unknown' };
      const known = queue === mail ? conditions[pid] : undefined;
      return known ? { kind: 'task', task: { state: known, data: undefined } } : { kind: 'absent' };
    },
    payload: () => (payloads ? DATA : undefined),
  };
}

const plan = (spec: UpdateSpec, view = viewOf()) => planUpdate(updateCommand(spec), view);

/** What comes of a plan, in one line for each item or change. */
function told(spec: UpdateSpec): string[] {
  const made = plan(spec);
  if (made.kind === 'needs') return made.needs.map(({ pid }) => `needs ${pid}`);
  if (made.kind === 'refused') return made.items.map(({ index, reason }) => `${index} ${reason}`);
  return made.changes.map(({ queue, change }) => {
    const what = `${change.kind} ${queue.fullName}/${change.pid}`;
    if (change.kind === 'dequeue') return change.completed ? what : `${what} as dead`;
    const { visibility } = change.after;
    if (visibility.kind === 'available') return `${what} available`;
    return `${what} ${visibility.lease ? 'leased' : 'hidden'} for ${visibility.until - NOW}`;
  });
}

const of = (pid: string, token?: number) => ({ queue: 'mail', pid, token });

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
    ['expired', 7, '0 LEASE_EXPIRED'],
    ['expired', undefined, '0 NOT_LEASED'],
    ['delayed', undefined, '0 NOT_LEASED'],
    ['absent', 7, '0 TASK_NOT_FOUND'],
  ])('of a task that is %s, with token %s: %s', (pid, token, expected) => {
    expect(told({ renew: [{ ...of(pid, token), for: 50 }] })).toEqual([expected]);
  });
});

describe('a release', () => {
  test.each([
    ['leased', {}, 'change mail/leased available'],
    ['leased', { delay: 30 }, 'change mail/leased hidden for 30'],
    ['first', {}, 'change mail/first hidden for 50'],
    ['first', { delay: 0 }, 'change mail/first available'],
    ['first', { refund: true }, 'change mail/first available'],
    ['last', { refund: true, delay: 30 }, 'change mail/last hidden for 30'],
    ['expired', {}, '0 LEASE_EXPIRED'],
  ])('of a task that is %s with %o: %s', (pid, how, expected) => {
    expect(told({ release: [{ ...of(pid, 7), ...how }] })).toEqual([expected]);
  });

  test('after the last attempt moves the task, with its payload, to the dead-letter queue', () => {
    expect(told({ release: [of('last', 7)] })).toEqual([
      'dequeue mail/last as dead',
      'enqueue mail.dead/last available',
    ]);
    const made = plan({ release: [of('last', 7)] });
    expect(made).toMatchObject({ deadLettered: 1, outcome: { released: [{ deadLetterQueue: 'mail.dead' }] } });
    expect(made.kind === 'planned' && made.changes[1]?.change).toMatchObject({
      data: DATA,
      after: { retry: undefined },
    });
  });

  test('after the last attempt asks for the payload first', () => {
    const made = plan({ release: [of('last', 7)] }, viewOf({ payloads: false }));
    expect(made).toMatchObject({ kind: 'needs', needs: [{ pid: 'last', payload: true }] });
  });

  test('that refunds takes the attempt back', () => {
    const made = plan({ release: [{ ...of('leased', 7), refund: true }] });
    expect(made).toMatchObject({ changes: [{ change: { after: { attempts: 0, token: 7 } } }] });
  });
});

describe('an enqueue', () => {
  const { ENQUEUE_MODE_COLLAPSE, ENQUEUE_MODE_FAIL, ENQUEUE_MODE_REPLACE } = EnqueueMode;

  test.each([
    ['new', { delay: 0 }, 'enqueue mail/new available'],
    ['new', { delay: 30 }, 'enqueue mail/new hidden for 30'],
    ['new', { mode: ENQUEUE_MODE_FAIL }, 'enqueue mail/new available'],
    ['leased', { mode: ENQUEUE_MODE_REPLACE }, 'change mail/leased leased for 10'],
    ['leased', { mode: ENQUEUE_MODE_FAIL }, '0 TASK_EXISTS'],
    ['unread', {}, 'needs unread'],
  ])('of the PID %s with %o: %s', (pid, how, expected) => {
    expect(told({ enqueue: [{ ...of(pid), ...how }] })).toEqual([expected]);
  });

  test('collapses into the task that is there and changes nothing of it', () => {
    const made = plan({ enqueue: [{ ...of('leased'), mode: ENQUEUE_MODE_COLLAPSE, data: 'other' }] });
    expect(made).toMatchObject({
      changes: [],
      outcome: { enqueued: [{ pid: 'leased', result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED }] },
    });
  });

  test('without a PID gets one behind all, those of the same update too', () => {
    const made = plan({ enqueue: [{ queue: 'mail' }, of('zebra'), { queue: 'mail' }] });
    const pids = made.kind === 'planned' ? made.outcome.enqueued.map(({ pid }) => pid) : [];
    expect(pids).toEqual(['overdue0000000000000001', 'zebra', 'zebra0000000000000001']);
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

  test('sees what the rest of its update did: the same PID is free once it is dequeued', () => {
    const both = { dequeue: [of('leased', 7)], enqueue: [{ ...of('leased'), mode: ENQUEUE_MODE_FAIL }] };
    expect(told(both)).toEqual(['dequeue mail/leased', 'enqueue mail/leased available']);
  });
});

test('one bad item refuses all of the update, and every bad item is named', () => {
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
