import { type ChildFailure, type Enqueue, EnqueueMode, limits, WaitTimeout } from '@taskmaster/proto';
import { type BadRequest, bad } from './bad-request.ts';
import { anEnqueue, anUpdate, bytes } from './requests.ts';

type Links = NonNullable<Enqueue['links']>;
type Wait = NonNullable<Links['waitFor']>;
type Parent = Links['parents'][number];

const update = (...enqueue: Partial<Enqueue>[]): BadRequest['call'] => {
  return (node) => node.updateTasks(anUpdate({ enqueue: enqueue.map(anEnqueue) }));
};
const links = (change: Partial<Links>, task: Partial<Enqueue> = {}): BadRequest['call'] =>
  update({ links: { waitFor: undefined, parents: [], orderKey: '', ...change }, ...task });
const wait = (change: Partial<Wait>): BadRequest['call'] =>
  links({ waitFor: { signals: 1, timeoutMs: 0, onTimeout: 0, collect: false, ...change } });
const aParent = (change: Partial<Parent> = {}): Parent => ({
  queue: 'shop#mail',
  pid: bytes('parent'),
  key: '',
  onFailure: 0,
  ...change,
});
const parent = (change: Partial<Parent>, task: Partial<Enqueue> = {}): BadRequest['call'] =>
  links({ parents: [aParent(change)] }, task);
const signal = (change: Partial<Enqueue>): BadRequest['call'] =>
  update({ pid: bytes('p'), mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, ...change });

const WAIT = 'enqueue[0].links.wait_for';
const PARENT = 'enqueue[0].links.parents[0]';

/** Bad requests about tasks that wait for others. */
export const badLinks: readonly BadRequest[] = [
  bad('links that say nothing', 'INVALID_ARGUMENT', 'enqueue[0].links', links({})),
  bad('a wait for no signals', 'INVALID_ARGUMENT', `${WAIT}.signals`, wait({ signals: 0 })),
  bad('a wait for a negative number of signals', 'INVALID_ARGUMENT', `${WAIT}.signals`, wait({ signals: -1 })),
  bad('a wait for too many signals', 'INVALID_ARGUMENT', `${WAIT}.signals`, wait({ signals: limits.signals + 1 })),
  bad('a wait of a negative time', 'INVALID_ARGUMENT', `${WAIT}.timeout_ms`, wait({ timeoutMs: -1 })),
  bad('a wait of 20 years', 'INVALID_ARGUMENT', `${WAIT}.timeout_ms`, wait({ timeoutMs: 2 * limits.delayMs })),
  bad(
    'an action after no timeout',
    'INVALID_ARGUMENT',
    `${WAIT}.on_timeout`,
    wait({ onTimeout: WaitTimeout.WAIT_TIMEOUT_RUN }),
  ),
  bad(
    'an action that does not exist',
    'INVALID_ARGUMENT',
    `${WAIT}.on_timeout`,
    wait({ timeoutMs: 5, onTimeout: 99 as WaitTimeout }),
  ),
  bad('a parent in another group', 'MIXED_GROUPS', `${PARENT}.queue`, parent({ queue: 'other#mail' })),
  bad('a parent in no queue', 'INVALID_QUEUE', `${PARENT}.queue`, parent({ queue: '' })),
  bad('a parent without a name', 'INVALID_ARGUMENT', PARENT, parent({ pid: bytes('') })),
  bad('a parent with a PID and a key', 'INVALID_ARGUMENT', PARENT, parent({ key: 'k' })),
  bad('a task that is its own parent', 'INVALID_ARGUMENT', PARENT, parent({ pid: bytes('p') }, { pid: bytes('p') })),
  bad(
    'a task that is its own parent by its key',
    'INVALID_ARGUMENT',
    PARENT,
    parent({ pid: bytes(''), key: 'k' }, { key: 'k' }),
  ),
  bad(
    'a parent with a key that is too long',
    'INVALID_ARGUMENT',
    `${PARENT}.key`,
    parent({ pid: bytes(''), key: 'x'.repeat(257) }),
  ),
  bad('a parent with a PID that is too long', 'INVALID_PID', `${PARENT}.pid`, parent({ pid: bytes('x'.repeat(4097)) })),
  bad(
    'a policy that does not exist',
    'INVALID_ARGUMENT',
    `${PARENT}.on_failure`,
    parent({ onFailure: 99 as ChildFailure }),
  ),
  bad('one parent twice', 'INVALID_ARGUMENT', 'enqueue[0].links.parents', links({ parents: [aParent(), aParent()] })),
  bad(
    'too many parents',
    'TOO_MANY_ITEMS',
    'enqueue[0].links.parents',
    links({ parents: Array.from({ length: limits.parents + 1 }, (_, i) => aParent({ pid: bytes(`${i}`) })) }),
  ),
  bad(
    'parents with long names',
    'INVALID_ARGUMENT',
    'enqueue[0].links.parents',
    links({ parents: ['a', 'b', 'c'].map((letter) => aParent({ pid: bytes(letter.repeat(4000)) })) }),
  ),
  bad(
    'a wait of a published task',
    'INVALID_ARGUMENT',
    'enqueue[0].links',
    links({ parents: [aParent()] }, { queue: '', topic: 'shop#t' }),
  ),
  bad(
    'an order key that is too long',
    'INVALID_ARGUMENT',
    'enqueue[0].links.order_key',
    links({ orderKey: '€'.repeat(86) }),
  ),
  bad('an order key with U+FFFD', 'INVALID_ARGUMENT', 'enqueue[0].links.order_key', links({ orderKey: '\uFFFD' })),
  bad('the id of a signal with a task', 'INVALID_ARGUMENT', 'enqueue[0].signal_id', update({ signalId: 'x' })),
  bad('a signal to no task', 'INVALID_ARGUMENT', 'enqueue[0].pid', signal({ pid: bytes('') })),
  bad('a signal to a PID and a key', 'INVALID_ARGUMENT', 'enqueue[0].pid', signal({ key: 'k' })),
  bad('a signal with a delay', 'INVALID_ARGUMENT', 'enqueue[0].delay_ms', signal({ delayMs: 1 })),
  bad('a signal with headers', 'INVALID_ARGUMENT', 'enqueue[0].headers', signal({ headers: { a: 'b' } })),
  bad('a signal to a topic', 'INVALID_ARGUMENT', 'enqueue[0].topic', signal({ queue: '', topic: 'shop#t' })),
  bad(
    'a signal that waits',
    'INVALID_ARGUMENT',
    'enqueue[0].links',
    signal({ links: { waitFor: undefined, parents: [], orderKey: 'k' } }),
  ),
  bad(
    'a signal with too much data',
    'DATA_TOO_LARGE',
    'enqueue[0].data',
    signal({ data: bytes('x'.repeat(limits.signalBytes + 1)) }),
  ),
  bad('a signal with a long id', 'INVALID_ARGUMENT', 'enqueue[0].signal_id', signal({ signalId: 'x'.repeat(257) })),
];
