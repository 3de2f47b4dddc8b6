import {
  ChildFailure,
  type Enqueue,
  WaitTimeout,
  type TaskInfo as WireInfo,
  type TaskParent as WireParent,
} from '@taskmaster/proto';
import { type Duration, durationMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { pidBytes } from '../values/pid.ts';
import { someText } from '../values/some-text.ts';
import { nameFields, type TaskName } from '../values/task-name.ts';

/** For which signals a task waits. */
export interface SignalWait {
  /** How many, 1 to 10,000. A child that ends signals its parent; so does `queue.signal`. */
  readonly signals: number;
  /** How long it waits, 1 ms to ten years. Default: for as long as it takes. */
  readonly timeout?: Duration | undefined;
  /**
   * What happens then: it goes to its dead-letter queue (default), runs without the missing signals, or ends as cancelled. Only
   * with `timeout`.
   */
  readonly onTimeout?: 'dead-letter' | 'run' | 'cancel' | undefined;
  /** Whether the node keeps how its children end, with their results, for `task.signals()`. Default false. */
  readonly collect?: boolean | undefined;
}

/** A task that waits for this one. */
export interface ParentTask {
  /** Its queue, in the group of this task. */
  readonly queue: string | { readonly name: string };
  /** Its PID, or `{ key }`. */
  readonly task: TaskName;
  /**
   * What happens if this task is not completed. `fail` (default): the parent goes to its dead-letter queue. `continue`: it counts
   * as a signal. `retry`: the parent waits until the dead letter is put back and completed, and fails if that is not possible.
   */
  readonly onFailure?: 'fail' | 'continue' | 'retry' | undefined;
}

/** How a task is connected with others. */
export interface LinkOptions {
  /** The signals for which the task waits, or how many. Until they have come, nobody gets it. Default: none. */
  readonly waitsFor?: number | SignalWait | undefined;
  /** The task that waits for this one, or several, at most 100. Default: none. */
  readonly parent?: ParentTask | readonly ParentTask[] | undefined;
  /**
   * Tasks of the queue with the same order key run one after the other, in the order of their enqueues. 1 to 256 bytes of
   * UTF-8. Default: none.
   */
  readonly orderKey?: string | undefined;
}

export const linkNames: OptionNames<LinkOptions> = { waitsFor: true, parent: true, orderKey: true };
const waitNames: OptionNames<SignalWait> = { signals: true, timeout: true, onTimeout: true, collect: true };
const parentNames: OptionNames<ParentTask> = { queue: true, task: true, onFailure: true };

const onTimeout = {
  'dead-letter': WaitTimeout.WAIT_TIMEOUT_DEAD_LETTER,
  run: WaitTimeout.WAIT_TIMEOUT_RUN,
  cancel: WaitTimeout.WAIT_TIMEOUT_CANCEL,
} as const;

const onFailure = {
  fail: ChildFailure.CHILD_FAILURE_FAIL,
  continue: ChildFailure.CHILD_FAILURE_CONTINUE,
  retry: ChildFailure.CHILD_FAILURE_RETRY,
} as const;

type LinksMessage = NonNullable<Enqueue['links']>;
/** The full name of a queue. */
type NameOf = (queue: ParentTask['queue']) => string;

/** The options, for the protocol. Undefined: none is given. @throws TypeError */
export function linksMessage({ waitsFor, parent, orderKey }: LinkOptions, nameOf: NameOf): Enqueue['links'] {
  const parents = parent === undefined ? [] : [parent].flat();
  if (waitsFor === undefined && parents.length === 0 && orderKey === undefined) return undefined;
  return {
    waitFor: waitsFor === undefined ? undefined : waitMessage(waitsFor),
    parents: parents.map((one) => parentMessage(one, nameOf)),
    orderKey: someText('orderKey', orderKey),
  };
}

/** The wait, for the protocol. @throws TypeError */
function waitMessage(given: number | SignalWait): LinksMessage['waitFor'] {
  const wait: SignalWait = typeof given === 'number' ? { signals: given } : given;
  assertKnown('waitsFor', wait, waitNames);
  const { signals, timeout, onTimeout: then, collect = false } = wait;
  if (!Number.isInteger(signals) || signals < 1)
    throw new TypeError(`waitsFor: ${signals} is not a whole number from 1`);
  if (then !== undefined && timeout === undefined) throw new TypeError('waitsFor.onTimeout goes with timeout');
  const ms = timeout === undefined ? 0 : durationMs(timeout, 'waitsFor.timeout');
  if (timeout !== undefined && ms < 1) throw new TypeError('waitsFor.timeout: it is at least 1ms');
  return { signals, timeoutMs: ms, onTimeout: timeoutAction(then), collect };
}

function timeoutAction(then: SignalWait['onTimeout']): WaitTimeout {
  if (then === undefined) return WaitTimeout.WAIT_TIMEOUT_UNSPECIFIED;
  if (Object.hasOwn(onTimeout, then)) return onTimeout[then];
  throw new TypeError(`waitsFor.onTimeout: '${String(then)}' is not 'dead-letter', 'run' or 'cancel'`);
}

/** The parent, for the protocol. @throws TypeError */
function parentMessage(parent: ParentTask, nameOf: NameOf): LinksMessage['parents'][number] {
  assertKnown('parent', parent, parentNames);
  const { queue, task, onFailure: then = 'fail' } = parent;
  const { pid, key = '' } = nameFields(task);
  return { queue: nameOf(queue), pid, key, onFailure: failurePolicy(then, 'parent.onFailure') };
}

/** The policy, for the protocol. `what`: its name in the message of the error. @throws TypeError */
export function failurePolicy(then: NonNullable<ParentTask['onFailure']>, what: string): ChildFailure {
  const policy = Object.hasOwn(onFailure, then) ? onFailure[then] : undefined;
  if (policy !== undefined) return policy;
  throw new TypeError(`${what}: '${String(then)}' is not 'fail', 'continue' or 'retry'`);
}

/** What a task waits for, and who waits for it. */
export interface LinkFields {
  /** What it waits for beside its time. Undefined: nothing. */
  readonly waits:
    | {
        /** Signals that must still come. */
        readonly signals: number;
        /** Whether a task with its order key is before it. */
        readonly order: boolean;
        /** What happens at `hiddenUntil`. Undefined: it waits for as long as it takes. */
        readonly onTimeout: SignalWait['onTimeout'];
      }
    | undefined;
  /** The tasks that wait for it. */
  readonly parents: readonly {
    readonly queue: string;
    readonly task: TaskName;
    readonly onFailure: NonNullable<ParentTask['onFailure']>;
  }[];
  readonly orderKey: string | undefined;
}

export function linkFields({ waits, parents, orderKey }: WireInfo): LinkFields {
  return {
    waits: waits && {
      signals: waits.signals,
      order: waits.order,
      onTimeout: named(onTimeout, waits.onTimeout),
    },
    parents: parents.map(parentFields),
    orderKey: orderKey === '' ? undefined : orderKey,
  };
}

export const parentFields = (parent: WireParent): LinkFields['parents'][number] => ({
  queue: parent.queue,
  task: parent.key === '' ? pidBytes(parent.pid) : { key: parent.key },
  onFailure: named(onFailure, parent.onFailure) ?? 'fail',
});

function named<K extends string>(values: Readonly<Record<K, number>>, value: number): K | undefined {
  for (const name of Object.keys(values) as K[]) if (values[name] === value) return name;
  return undefined;
}
