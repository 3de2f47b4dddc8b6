import type { Call, LeaseCall, TaskCall, UpdateCall } from '@taskmaster/cli/testing/history';
import type { Asked } from './engine-caller.ts';
import { publicationOf } from './records/topics.ts';
import { type Action, type Item, KEYS, PATTERNS, PIDS, QUEUES, type TaskRef } from './scenario.ts';

const RETRIES: readonly UpdateCall['enqueue'][number]['retry'][] = [
  undefined,
  undefined,
  { maxAttempts: 1, backoffInitialMs: 0, backoffMaxMs: 1000, deadLetterQueue: '' },
  { maxAttempts: 2, backoffInitialMs: 10, backoffMaxMs: 200, deadLetterQueue: 'r' },
  { maxAttempts: 0, backoffInitialMs: 40, backoffMaxMs: 100, deadLetterQueue: '' },
];

/** What renewals report; see `Item`. */
const PROGRESS: { readonly [how: string]: string | undefined } = { error: 'half', requeue: '' };

const CALLS = [
  'update',
  'repeat',
  'lease',
  'hangUp',
  'get',
  'peek',
  'ends',
  'stats',
  'list',
  'delete',
  'reset',
  'pause',
  'limit',
] as const;
type CallAction = Extract<Action, { do: (typeof CALLS)[number] }>;

/** True if the action is a call; false if it is an event of the node. */
export const isCall = (action: Action): action is CallAction => (CALLS as readonly string[]).includes(action.do);

/** The callers of the engine in a run. They remember their leases and their requests. */
export class Callers {
  readonly #send: (call: Call) => Asked;
  readonly #leases: { readonly queue: string; readonly pid: string; readonly token: number }[] = [];
  readonly #updatesWithId: UpdateCall[] = [];
  readonly #waiting: Asked[] = [];
  readonly #pids = new Map<string, Set<string>>(QUEUES.map((queue) => [queue, new Set<string>(PIDS)]));
  #named = 0;

  constructor(send: (call: Call) => Asked) {
    this.#send = send;
  }

  play(action: CallAction): void {
    switch (action.do) {
      case 'update':
        this.#update(action.items, action.withId);
        break;
      case 'repeat': {
        const call = at(this.#updatesWithId, action.which);
        if (call) this.#ask(call);
        break;
      }
      case 'lease': {
        const { queues, max, leaseDurationMs, waitMs, maxPid, maxBytes, starts, kinds } = action;
        this.#lease({
          kind: 'lease',
          queues: [...new Set(queues)].map(queueName),
          maxTasks: max,
          leaseDurationMs,
          waitMs,
          maxPid: maxPid === undefined ? undefined : PIDS[maxPid],
          maxBytes,
          starts,
          kinds,
        });
        break;
      }
      case 'hangUp':
        at(this.#waiting, action.which)?.hangUp();
        break;
      case 'get':
        this.#ask(this.lookAt(queueName(action.queue)));
        break;
      case 'peek':
        this.#ask({ kind: 'peek', queue: queueName(action.queue), what: action.what, limit: action.limit });
        break;
      case 'ends':
        this.#ask({ kind: 'ends', queue: queueName(action.queue), pids: this.pidsOf(queueName(action.queue)) });
        break;
      case 'stats':
        this.#ask({ kind: 'stats', queues: QUEUES });
        break;
      case 'list':
        this.#ask({ kind: 'list' });
        break;
      case 'delete':
        this.#ask({ kind: 'delete', queue: queueName(action.queue) });
        break;
      case 'reset':
        this.#ask({ kind: 'reset', queue: queueName(action.queue) });
        break;
      case 'pause':
        this.#ask({ kind: 'pause', queues: PATTERNS[action.queues] ?? PATTERNS[0], isResume: action.isResume });
        break;
      case 'limit': {
        const { queues, keys, maxLeased } = action;
        this.#ask({ kind: 'limit', queues: PATTERNS[queues] ?? PATTERNS[0], keys, maxLeased });
        break;
      }
      default:
        action satisfies never;
    }
  }

  /** Call this when the node stops: from now on empty answers say nothing about the queues. */
  dismiss(): void {
    for (const asked of this.#waiting) asked.dismiss();
  }

  /** A look at all tasks that the queue may have. */
  lookAt(queue: string): Call {
    return { kind: 'get', queue, pids: this.pidsOf(queue), keys: KEYS };
  }

  /** Every PID that a task of the queue may have had. */
  pidsOf(queue: string): string[] {
    return [...(this.#pids.get(queue) ?? [])];
  }

  #update(items: readonly Item[], withId: boolean): void {
    const enqueue: UpdateCall['enqueue'][number][] = [];
    const dequeue: UpdateCall['dequeue'][number][] = [];
    const renew: UpdateCall['renew'][number][] = [];
    const release: UpdateCall['release'][number][] = [];
    const named = new Set<string>();
    for (const item of items) {
      if (item.do === 'enqueue') {
        const one = this.#enqueueItem(item);
        const publishes = item.isPublished === true && item.pid !== undefined && item.mode !== 'fail';
        enqueue.push(...(publishes ? publicationOf(one) : [one]));
        continue;
      }
      const task = this.#taskOf(item.task);
      // An update that names a task twice is refused before it reaches the engine.
      const name = `${task?.queue} ${task?.pid} ${task?.key}`;
      if (!task || named.has(name)) continue;
      named.add(name);
      const isByKey = task.key !== undefined;
      if (item.do === 'dequeue' && item.how === 'cancel') dequeue.push({ ...task, token: undefined, cancel: true });
      else if (item.do === 'dequeue')
        dequeue.push({ ...task, requeue: item.how === 'requeue' && !isByKey, result: this.#resultOf(item) });
      else if (item.do === 'renew' && !isByKey) {
        const begun = item.refund ? (item.leaves ? 1 : 3) : undefined;
        renew.push({ ...task, leaseDurationMs: item.ms ?? 1000, progress: PROGRESS[item.how ?? 'plain'], begun });
      } else if (item.how !== 'waiting' && !isByKey) release.push({ ...task, ...endOf(item) });
      else release.push({ ...task, token: undefined, delayMs: item.ms, refund: false, waiting: true });
    }
    const [first] = [...enqueue, ...dequeue, ...renew, ...release];
    if (!first) return;
    const inGroup = ({ queue }: { readonly queue: string }): boolean => isOther(queue) === isOther(first.queue);
    const call: UpdateCall = {
      kind: 'update',
      enqueue: enqueue.filter(inGroup),
      dequeue: dequeue.filter(inGroup),
      renew: renew.filter(inGroup),
      release: release.filter(inGroup),
      requestId: withId ? `id-${this.#named++}` : undefined,
    };
    if (withId) this.#updatesWithId.push(call);
    this.#ask(call);
  }

  #resultOf({ how, leaves, task }: Extract<Item, { do: 'dequeue' | 'renew' | 'release' }>): string | undefined {
    return leaves && (how !== 'requeue' || task.by === 'key') ? `r${this.#named++}` : undefined;
  }

  #enqueueItem(item: Extract<Item, { do: 'enqueue' }>): UpdateCall['enqueue'][number] {
    return {
      queue: queueName(item.queue),
      pid: item.pid === undefined ? undefined : PIDS[item.pid],
      key: item.key,
      data: `d${this.#named++}`.padEnd(item.bytes, '.'),
      mode: item.mode,
      delayMs: item.delayMs,
      retry: RETRIES[item.retry],
      timeLimitMs: item.timeLimitMs,
      orderKey: item.orderKey,
      limitKey: item.limitKey,
      kind: item.kind,
      // A task that is hidden until it is too late is refused before it reaches the engine.
      startWithinMs: item.delayMs < (item.startWithinMs ?? 0) ? item.startWithinMs : undefined,
    };
  }

  #taskOf(ref: TaskRef): UpdateCall['dequeue'][number] | undefined {
    if (ref.by === 'pid') return { queue: queueName(ref.queue), pid: PIDS[ref.pid] ?? 'a', token: undefined };
    if (ref.by === 'key') return { queue: queueName(ref.queue), pid: '', key: ref.key, token: undefined };
    const lease = at(this.#leases, ref.which);
    return lease && { ...lease, token: ref.withToken ? lease.token : undefined };
  }

  #lease(call: LeaseCall): void {
    this.#waiting.unshift(this.#ask(call));
  }

  #ask(call: Call): Asked {
    const asked = this.#send(call);
    asked.ended.then((outcome) => {
      if (outcome.kind === 'leased') for (const task of outcome.tasks) this.#leases.unshift(task);
      if (outcome.kind !== 'updated' || call.kind !== 'update') return;
      for (const [i, { pid }] of outcome.enqueued.entries()) this.#pids.get(call.enqueue[i]?.queue ?? '')?.add(pid);
    });
    return asked;
  }
}

/** How a release ends its lease. A dead letter has no delay, and a refunded attempt no error. */
function endOf({
  ms,
  refund,
  leaves = false,
  how = 'plain',
}: Extract<Item, { do: 'dequeue' | 'renew' | 'release' }>): ReleaseEnd {
  const deadLetter = how === 'dead-letter';
  const error = how === 'plain' ? undefined : `error ${how}`;
  const isRefund = refund && how === 'plain';
  return { delayMs: deadLetter ? undefined : ms, refund: isRefund, interrupted: isRefund && leaves, error, deadLetter };
}

type ReleaseEnd = Omit<UpdateCall['release'][number], keyof TaskCall>;

const isOther = (queue: string): boolean => queue === 'other';
const queueName = (number: number): string => QUEUES[number] ?? QUEUES[0];

function at<T>(items: readonly T[], which: number): T | undefined {
  return items.length === 0 ? undefined : items[which % items.length];
}
