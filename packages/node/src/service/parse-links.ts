import {
  type EnqueueItem,
  givenIn,
  NO_LINKS,
  type Pid,
  type TaskLinks,
  type TaskParent,
} from '@taskmaster/engine/domain';
import {
  ChildFailure,
  type Enqueue,
  EnqueueMode,
  limits,
  NO_ENTRIES,
  type QueueName,
  WaitTimeout,
} from '@taskmaster/proto';
import {
  countAtMost,
  duration,
  type Place,
  pid,
  refuse,
  taskKey,
  textAtMost,
  wholeNumber,
} from '@taskmaster/server/requests';
import type { OneGroup } from './one-group.ts';

type WaitFor = NonNullable<EnqueueItem['waitFor']>;

const TIMEOUTS: ReadonlyMap<number, WaitFor['action']> = new Map([
  [WaitTimeout.WAIT_TIMEOUT_UNSPECIFIED, 'dead-letter'],
  [WaitTimeout.WAIT_TIMEOUT_DEAD_LETTER, 'dead-letter'],
  [WaitTimeout.WAIT_TIMEOUT_RUN, 'run'],
  [WaitTimeout.WAIT_TIMEOUT_CANCEL, 'cancel'],
]);

const FAILURES: ReadonlyMap<number, TaskParent['onFailure']> = new Map([
  [ChildFailure.CHILD_FAILURE_UNSPECIFIED, 'fail'],
  [ChildFailure.CHILD_FAILURE_FAIL, 'fail'],
  [ChildFailure.CHILD_FAILURE_CONTINUE, 'continue'],
  [ChildFailure.CHILD_FAILURE_RETRY, 'retry'],
]);

/** Whether `parseLinks` finds anything in the enqueue. */
export const isLinkedOrSignal = ({ links, signalId = '', mode }: Enqueue): boolean =>
  links !== undefined || signalId !== '' || mode === EnqueueMode.ENQUEUE_MODE_SIGNAL;

/** How an enqueue connects its task with others, or which signal it is. Undefined: neither. */
export function parseLinks(
  item: Enqueue,
  index: number,
  queue: QueueName,
  group: OneGroup,
): Pick<EnqueueItem, 'waitFor' | 'links' | 'signalId'> | undefined {
  const at: At = (field) => ({ list: 'enqueue', index, field });
  const { links, signalId = '', mode, topic } = item;
  if (mode === EnqueueMode.ENQUEUE_MODE_SIGNAL) return { signalId: parseSignal(item, at) };
  if (signalId !== '') refuse('INVALID_ARGUMENT', at('signal_id'), 'is given for a task that is no signal');
  if (links === undefined) return undefined;
  const { waitFor, parents, orderKey } = links;
  if (topic !== '' && (waitFor !== undefined || parents.length > 0)) {
    refuse('INVALID_ARGUMENT', at('links'), 'has a wait or parents of a task that is published');
  }
  if (waitFor === undefined && parents.length === 0 && orderKey === '') {
    refuse('INVALID_ARGUMENT', at('links'), 'is empty');
  }
  const hasLinks = parents.length > 0 || orderKey !== '';
  return {
    waitFor: waitFor && parseWaitFor(waitFor, at),
    links: hasLinks ? linksOf(item, links, index, queue, group, at) : undefined,
  };
}

function linksOf(
  item: Enqueue,
  { parents: given, orderKey: key }: NonNullable<Enqueue['links']>,
  index: number,
  queue: QueueName,
  group: OneGroup,
  at: At,
): TaskLinks {
  const orderKey = key === '' ? undefined : orderKeyOf(key, at('links.order_key'));
  if (given.length === 0) return { ...NO_LINKS, orderKey };
  countAtMost(given.length, at('links.parents'), limits.parents);
  let bytes = 0;
  const parents = given.map((parent, n): TaskParent => {
    const { pid: itsPid, key: itsKey } = parent;
    const field = `links.parents[${n}]`;
    const { name } = group.queue(parent.queue, 'enqueue', index, `${field}.queue`);
    const isByKey = itsKey !== '';
    if (isByKey === itsPid.length > 0) {
      refuse('INVALID_ARGUMENT', at(field), 'has a PID and a key, or neither: one of them names the parent');
    }
    const isItself = isByKey ? itsKey === item.key : Buffer.compare(itsPid, item.pid) === 0;
    if (isItself && name === queue.name) refuse('INVALID_ARGUMENT', at(field), 'is the task itself');
    const onFailure = FAILURES.get(parent.onFailure);
    if (onFailure === undefined) {
      return refuse('INVALID_ARGUMENT', at(`${field}.on_failure`), `is ${parent.onFailure}: no such value`);
    }
    bytes += Buffer.byteLength(name) + itsPid.length + Buffer.byteLength(itsKey);
    return {
      queue: name,
      pid: isByKey ? NO_PID : pid(itsPid, at(`${field}.pid`)),
      key: isByKey ? taskKey(itsKey, at(`${field}.key`)) : undefined,
      onFailure,
    };
  });
  const names = new Set(parents.map((parent) => `${parent.queue}\0${parent.key ?? ''}\0${parent.pid}`));
  if (names.size < parents.length) refuse('INVALID_ARGUMENT', at('links.parents'), 'name one task twice');
  if (bytes > limits.parentsBytes) {
    refuse('INVALID_ARGUMENT', at('links.parents'), `have ${bytes} bytes of names: at most ${limits.parentsBytes}`, {
      value: bytes,
      limit: limits.parentsBytes,
    });
  }
  return { ...NO_LINKS, parents, orderKey };
}

type At = (field: string) => Place;

function parseWaitFor(
  { signals, timeoutMs, onTimeout, collect }: NonNullable<NonNullable<Enqueue['links']>['waitFor']>,
  at: At,
): WaitFor {
  wholeNumber(signals, at('links.wait_for.signals'), 1, limits.signals);
  duration(timeoutMs, at('links.wait_for.timeout_ms'), 0, limits.delayMs);
  const action = TIMEOUTS.get(onTimeout);
  if (action === undefined) {
    return refuse('INVALID_ARGUMENT', at('links.wait_for.on_timeout'), `is ${onTimeout}: no such value`);
  }
  if (timeoutMs === 0 && onTimeout !== WaitTimeout.WAIT_TIMEOUT_UNSPECIFIED) {
    refuse('INVALID_ARGUMENT', at('links.wait_for.on_timeout'), 'is given without `timeout_ms`');
  }
  return { signals, timeoutMs: timeoutMs === 0 ? undefined : timeoutMs, action, collect };
}

/** The id of a signal, which has nothing that only a task has. */
function parseSignal(item: Enqueue, at: At): string {
  const { pid: named, key, data } = item;
  if ((named.length === 0) === (key === '')) {
    refuse(
      'INVALID_ARGUMENT',
      at('pid'),
      'and `key` are both given or both empty: one of them names the task to signal',
    );
  }
  if (givenIn(item) !== undefined)
    refuse('INVALID_ARGUMENT', at('mode'), 'is SIGNAL, beside what only a task is given');
  for (const [field, isGiven] of Object.entries({
    topic: item.topic !== '',
    delay_ms: item.delayMs !== 0,
    run_at_unix_ms: item.runAtUnixMs !== 0,
    retry: item.retry !== undefined,
    start_within_ms: (item.startWithinMs ?? 0) !== 0,
    start_by_unix_ms: (item.startByUnixMs ?? 0) !== 0,
    headers: item.headers !== NO_ENTRIES && Object.keys(item.headers).length > 0,
    links: item.links !== undefined,
  })) {
    if (isGiven) refuse('INVALID_ARGUMENT', at(field), 'is given for a signal');
  }
  if (data.length > limits.signalBytes) {
    refuse('DATA_TOO_LARGE', at('data'), `has ${data.length} bytes: a signal has at most ${limits.signalBytes}`, {
      value: data.length,
      limit: limits.signalBytes,
    });
  }
  return textAtMost(item.signalId ?? '', at('signal_id'), limits.signalIdBytes);
}

function orderKeyOf(key: string, place: Place): string {
  if (key.includes('\uFFFD') || !key.isWellFormed()) {
    refuse('INVALID_ARGUMENT', place, 'is not valid UTF-8 or contains U+FFFD');
  }
  return textAtMost(key, place, limits.orderKeyBytes);
}

const NO_PID = '' as Pid;
