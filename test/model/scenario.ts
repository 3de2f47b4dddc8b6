import fc from 'fast-check';
import type { Caps } from './caps.ts';

/*
 * The actions of one run as plain data, so that a failed run can be kept in `regressions.json`. Actions name queues, PIDs and
 * leases by number. The run decides what a number means at the time of the action.
 */

export interface Scenario {
  /** Decides what the disk loses in a crash. */
  readonly seed: number;
  readonly disk: {
    readonly atomicBatches: boolean;
    readonly writeMs: number;
    readonly syncMs: number;
    readonly readMs: number;
  };
  readonly cacheBytes: number;
  readonly refillTasks: number;
  readonly requestIdCacheBytes: number;
  /** The value of all random numbers of the engine. */
  readonly jitter: number;
  /** True if the run reads everything after each restart. Otherwise the cache stays cold. */
  readonly looksAfterRestart: boolean;
  /** True if the events of all groups are read. */
  readonly readsEvents?: boolean;
  /** Undefined: any number of tasks may wait. */
  readonly caps?: Caps | undefined;
  readonly actions: readonly Action[];
}

export type Action =
  | { readonly do: 'update'; readonly items: readonly Item[]; readonly withId: boolean }
  /** Repeats an earlier update that has a request id. */
  | { readonly do: 'repeat'; readonly which: number }
  | {
      readonly do: 'lease';
      readonly queues: readonly number[];
      readonly max: number;
      readonly leaseDurationMs: number;
      readonly waitMs: number;
      readonly maxPid: number | undefined;
      readonly maxBytes: number;
      /** Undefined: all tasks begin when they are leased. */
      readonly starts?: { readonly now: number; readonly together: number } | undefined;
      /** Undefined: all tasks. */
      readonly kinds?: readonly string[] | undefined;
    }
  /** The caller of a lease in progress disconnects. */
  | { readonly do: 'hangUp'; readonly which: number }
  | { readonly do: 'get'; readonly queue: number }
  | {
      readonly do: 'peek';
      readonly queue: number;
      readonly what: 'head' | 'leased' | 'delayed';
      readonly limit: number;
    }
  | { readonly do: 'ends'; readonly queue: number }
  | { readonly do: 'stats' }
  | { readonly do: 'list' }
  | { readonly do: 'delete'; readonly queue: number }
  | { readonly do: 'reset'; readonly queue: number }
  | { readonly do: 'pause'; readonly queues: number; readonly isResume: boolean }
  /** 0: the limit ends. */
  | { readonly do: 'limit'; readonly queues: number; readonly keys?: string | undefined; readonly maxLeased: number }
  /** Lets time pass. Without this, the next action happens in the same turn. */
  | { readonly do: 'pass'; readonly ms: number }
  /** Power loss after this number of further durable steps of the disk; 0: now. */
  | { readonly do: 'crash'; readonly steps: number; readonly reboot: boolean }
  | { readonly do: 'restart' }
  | { readonly do: 'setClock'; readonly byMs: number }
  | { readonly do: 'space'; readonly space: 'plenty' | 'short' | 'none' }
  | { readonly do: 'stall'; readonly ms: number };

export type Item =
  | {
      readonly do: 'enqueue';
      readonly queue: number;
      /** Undefined: the node assigns the next FIFO PID. */
      readonly pid: number | undefined;
      readonly key?: string | undefined;
      readonly mode: 'collapse' | 'fail' | 'replace' | 'rerun' | 'rerun-first';
      readonly delayMs: number;
      readonly bytes: number;
      readonly retry: number;
      readonly timeLimitMs?: number | undefined;
      readonly startWithinMs?: number | undefined;
      readonly orderKey?: string | undefined;
      readonly limitKey?: string | undefined;
      readonly kind?: string | undefined;
      /** True: with a PID, and unless the mode is to fail, it is published to all queues that are subscribed. */
      readonly isPublished?: boolean;
    }
  | {
      readonly do: 'dequeue' | 'renew' | 'release';
      readonly task: TaskRef;
      readonly ms: number | undefined;
      readonly refund: boolean;
      /**
       * Undefined: plain. Only dequeues requeue or cancel, and only releases have an error or go to the dead letters. By key,
       * tasks are only dequeued, cancelled or rescheduled.
       */
      readonly how?: 'plain' | 'error' | 'dead-letter' | 'requeue' | 'cancel' | 'waiting';
      /** True: a dequeue leaves a result. Undefined: it does not. */
      readonly leaves?: boolean;
    };

/** A task by queue and PID or key, or by a granted lease. */
export type TaskRef =
  | { readonly by: 'key'; readonly queue: number; readonly key: string }
  | { readonly by: 'pid'; readonly queue: number; readonly pid: number }
  | { readonly by: 'lease'; readonly which: number; readonly withToken: boolean };

/** All but the last are in one group. The second is the default dead-letter queue of the first. */
export const QUEUES = ['g#q', 'g#q.dead', 'g#r', 'other'] as const;
export const PIDS = ['a', 'b', 'b\0', 'c', '\xff'] as const;

/** What is paused, resumed and limited. */
export const PATTERNS = ['g#q', 'g#*', 'other'] as const;

export const KEYS = ['k', 'l'] as const;
const ORDER_KEYS = ['o', 'p'] as const;
const LIMIT_KEYS = ['x', 'y'] as const;
/** By `retry` of an item, and by the duration of a lease: choices of their own would make other histories of the known seeds. */
const KIND_OF = [undefined, 'm@1', undefined, 'm@2', undefined];
const ACCEPTED_BY: Readonly<Record<number, readonly string[]>> = { 30: ['', 'm@2'], 400: ['n', 'm@*'] };
/** The keys of a limit that counts each key by itself. */
export const EACH_KEY = '*';

const queue = fc.nat({ max: QUEUES.length - 1 });
const pid = fc.nat({ max: PIDS.length - 1 });
const which = fc.nat({ max: 9 });
const often = <T>(usual: T, ...rest: fc.Arbitrary<T>[]) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, ...rest);
const rarely = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const oneOf = <T>(...values: T[]) => fc.constantFrom(...values);
const action = <Name extends Action['do'], Model extends object>(
  name: Name,
  model: { [K in keyof Model]: fc.Arbitrary<Model[K]> },
) => fc.record({ do: fc.constant(name), ...model }) as unknown as fc.Arbitrary<Extract<Action, { do: Name }>>;

const enqueue: fc.Arbitrary<Item> = fc
  .record({
    do: fc.constant('enqueue' as const),
    queue,
    pid: fc.oneof({ weight: 4, arbitrary: pid as fc.Arbitrary<number | undefined> }, fc.constant(undefined)),
    key: often<string | undefined>(undefined, oneOf<string | undefined>(...KEYS)),
    mode: oneOf(...(['collapse', 'collapse', 'fail', 'replace', 'rerun', 'rerun-first'] as const)),
    delayMs: often(0, oneOf(5, 50, 700)),
    bytes: often(8, oneOf(100, 900)),
    retry: fc.nat({ max: 4 }),
    timeLimitMs: often<number | undefined>(undefined, oneOf(25, 350)),
    startWithinMs: often<number | undefined>(undefined, oneOf(3, 60, 900)),
    isPublished: often(false, fc.constant(true)),
    orderKey: rarely(oneOf(...ORDER_KEYS)),
    limitKey: rarely(oneOf(...LIMIT_KEYS)),
  })
  .map((item) => ({ ...item, kind: KIND_OF[item.retry] }));

const taskRef: fc.Arbitrary<TaskRef> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ by: fc.constant('lease' as const), which, withToken: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ by: fc.constant('pid' as const), queue, pid }) },
  { weight: 1, arbitrary: fc.record({ by: fc.constant('key' as const), queue, key: oneOf(...KEYS) }) },
);

const ofTask: fc.Arbitrary<Item> = fc.record({
  do: oneOf('dequeue' as const, 'dequeue' as const, 'renew' as const, 'release' as const),
  task: taskRef,
  ms: maybe(oneOf(1, 20, 300, 5000)),
  refund: fc.boolean(),
  leaves: fc.boolean(),
  how: often('plain' as const, oneOf(...(['error', 'dead-letter', 'requeue', 'cancel', 'cancel', 'waiting'] as const))),
});

const update = action('update', {
  items: fc.oneof(
    { weight: 3, arbitrary: fc.array(enqueue, { minLength: 1, maxLength: 3 }) },
    { weight: 3, arbitrary: fc.array(ofTask, { minLength: 1, maxLength: 2 }) },
    { weight: 2, arbitrary: fc.array(fc.oneof(enqueue, ofTask), { minLength: 2, maxLength: 5 }) },
  ),
  withId: fc.boolean(),
});

const lease = action('lease', {
  queues: fc.oneof(
    { weight: 3, arbitrary: fc.array(queue, { minLength: 1, maxLength: 1 }) },
    { weight: 1, arbitrary: fc.array(queue, { minLength: 2, maxLength: 3 }) },
  ),
  max: oneOf(1, 1, 2, 10),
  leaseDurationMs: oneOf(1, 30, 400, 10_000),
  waitMs: often(0, oneOf(10, 500, 3000)),
  maxPid: maybe(pid),
  maxBytes: often(1e6, oneOf(0, 300)),
  starts: fc.option(fc.record({ now: fc.nat({ max: 2 }), together: oneOf(1, 2, 4) }), { nil: undefined }),
}).map((one) => ({ ...one, kinds: ACCEPTED_BY[one.leaseDurationMs] }));

const patterns = fc.nat({ max: PATTERNS.length - 1 });
const limit = action('limit', {
  queues: patterns,
  keys: oneOf<string | undefined>(undefined, EACH_KEY),
  maxLeased: oneOf(0, 1, 1, 2),
});

const anyAction: fc.Arbitrary<Action> = fc.oneof(
  { weight: 22, arbitrary: update },
  { weight: 14, arbitrary: lease },
  { weight: 14, arbitrary: action('pass', { ms: fc.oneof(oneOf(0, 0, 1, 3, 10), oneOf(30, 100, 600, 4000)) }) },
  { weight: 3, arbitrary: action('repeat', { which }) },
  { weight: 2, arbitrary: action('hangUp', { which }) },
  { weight: 2, arbitrary: action('get', { queue }) },
  {
    weight: 2,
    arbitrary: action('peek', {
      queue,
      what: oneOf('head' as const, 'leased' as const, 'delayed' as const),
      limit: oneOf(1, 2, 20),
    }),
  },
  { weight: 3, arbitrary: action('ends', { queue }) },
  { weight: 2, arbitrary: action('stats', {}) },
  { weight: 1, arbitrary: action('list', {}) },
  { weight: 1, arbitrary: action('delete', { queue }) },
  { weight: 1, arbitrary: action('reset', { queue }) },
  { weight: 1, arbitrary: action('pause', { queues: patterns, isResume: fc.boolean() }) },
  { weight: 1, arbitrary: limit },
  { weight: 2, arbitrary: action('crash', { steps: oneOf(0, 1, 2, 3, 5, 9), reboot: fc.boolean() }) },
  { weight: 1, arbitrary: action('restart', {}) },
  { weight: 1, arbitrary: action('setClock', { byMs: oneOf(-3_600_000, 3_600_000, 500) }) },
  { weight: 1, arbitrary: action('space', { space: oneOf('plenty' as const, 'short' as const, 'none' as const) }) },
  { weight: 1, arbitrary: action('stall', { ms: oneOf(50, 2000) }) },
);

const ofLatest = (item: Omit<Exclude<Item, { do: 'enqueue' }>, 'task' | 'refund'>): Item => ({
  ...item,
  refund: false,
  task: { by: 'lease', which: 0, withToken: true },
});
const change = (...items: Item[]): Action => ({ do: 'update', items, withId: false });
const pass = (ms: number): Action => ({ do: 'pass', ms });

/** A worker that leases a task, renews the lease, and perhaps completes the task. Actions without a plan do so too rarely. */
const attempt: fc.Arbitrary<Action[]> = fc
  .record({
    item: enqueue.map((item) => ({ ...item, delayMs: 0 })) as fc.Arbitrary<Extract<Item, { do: 'enqueue' }>>,
    leaseDurationMs: oneOf(30, 400, 10_000),
    renewals: fc.array(
      fc.record({
        afterMs: oneOf(3, 10, 100, 300),
        ms: oneOf(20, 300, 5000),
        how: oneOf('plain' as const, 'error' as const, 'requeue' as const),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    isAgain: fc.boolean(),
    isCompleted: fc.boolean(),
    restMs: oneOf(0, 10, 30, 600),
  })
  .map(({ item, leaseDurationMs, renewals, isAgain, isCompleted, restMs }) => [
    change(item),
    pass(30),
    {
      do: 'lease',
      queues: [item.queue],
      max: 1,
      leaseDurationMs,
      waitMs: 0,
      maxPid: undefined,
      maxBytes: 1e6,
    },
    ...renewals.flatMap(({ afterMs, ms, how }) => [pass(afterMs), change(ofLatest({ do: 'renew', ms, how }))]),
    ...(isAgain ? [change({ ...item, mode: 'rerun' })] : []),
    pass(restMs),
    ...(isCompleted ? [change(ofLatest({ do: 'dequeue', ms: undefined })), pass(30)] : []),
  ]);

/** Requests that wait for paused queues, which are resumed, perhaps after a crash. */
const paused: fc.Arbitrary<Action[]> = fc
  .record({
    queues: patterns,
    before: fc.array(enqueue, { maxLength: 2 }),
    during: fc.array(enqueue, { minLength: 1, maxLength: 3 }),
    leases: fc.array(lease, { minLength: 1, maxLength: 3 }),
    waitMs: oneOf(0, 500, 3000),
    isCrashed: often(false, fc.constant(true)),
    restMs: oneOf(0, 3, 300),
  })
  .map(({ queues, before, during, leases, waitMs, isCrashed, restMs }) => [
    ...(before.length > 0 ? [change(...before)] : []),
    { do: 'pause', queues, isResume: false },
    pass(restMs),
    ...(isCrashed ? [{ do: 'crash', steps: 0, reboot: false } as const] : []),
    ...leases.map((one) => ({ ...one, waitMs })),
    change(...during),
    pass(restMs),
    { do: 'pause', queues, isResume: true },
    pass(30),
  ]);

/** Requests that wait for limited queues, whose leases end in one way or another. */
const limited: fc.Arbitrary<Action[]> = fc
  .record({
    queues: patterns,
    isByKeys: fc.boolean(),
    maxLeased: oneOf(1, 2),
    tasks: fc.array(enqueue, { minLength: 2, maxLength: 4 }),
    limitKeys: fc.array(oneOf<string | undefined>(undefined, ...LIMIT_KEYS), { minLength: 4, maxLength: 4 }),
    leases: fc.array(lease, { minLength: 2, maxLength: 4 }),
    leaseDurationMs: oneOf(30, 400),
    waitMs: oneOf(500, 3000),
    ending: oneOf('dequeue' as const, 'release' as const, undefined),
    isCrashed: often(false, fc.constant(true)),
    isEnded: fc.boolean(),
    restMs: oneOf(3, 50, 600),
  })
  .map(({ queues, isByKeys, maxLeased, tasks, limitKeys, leases, leaseDurationMs, waitMs, ending, ...rest }) => ({
    ...rest,
    waitMs,
    limit: { do: 'limit' as const, queues, keys: isByKeys ? EACH_KEY : undefined, maxLeased },
    tasks: isByKeys ? tasks.map((task, at) => ({ ...task, limitKey: limitKeys[at] })) : tasks,
    leases: leases.map((one, index) => ({ ...one, leaseDurationMs, waitMs: index === 0 ? 0 : waitMs })),
    ending,
  }))
  .map(({ limit: given, tasks, leases, ending, isCrashed, isEnded, restMs }) => [
    given,
    change(...tasks.map((task) => ({ ...task, delayMs: 0 }) as Item)),
    pass(30),
    ...leases,
    pass(restMs),
    ...(isCrashed ? [{ do: 'crash', steps: 0, reboot: false } as const] : []),
    ...(ending === undefined ? [] : [change(ofLatest({ do: ending, ms: undefined }))]),
    pass(restMs),
    ...(isEnded ? [{ ...given, maxLeased: 0 }] : []),
  ]);

/** Tasks in the order of a key, of which each ends in one way or another before the next one. */
const ordered: fc.Arbitrary<Action[]> = fc
  .record({
    queue,
    tasks: fc.array(enqueue, { minLength: 2, maxLength: 4 }),
    leases: fc.array(lease, { minLength: 2, maxLength: 3 }),
    leaseDurationMs: oneOf(30, 400, 10_000),
    waitMs: oneOf(0, 500),
    ending: oneOf('dequeue' as const, 'release' as const, undefined),
    how: oneOf('plain' as const, 'dead-letter' as const, 'cancel' as const, 'error' as const),
    removed: fc.option(pid, { nil: undefined }),
    isCrashed: often(false, fc.constant(true)),
    restMs: oneOf(0, 3, 50, 600),
  })
  .map(({ queue: of, tasks, leases, leaseDurationMs, waitMs, ending, how, removed, isCrashed, restMs }) => [
    change(...tasks.map((task) => ({ ...task, queue: of, orderKey: ORDER_KEYS[0] }) as Item)),
    pass(30),
    ...(removed === undefined
      ? []
      : [change({ do: 'dequeue', task: { by: 'pid', queue: of, pid: removed }, ms: undefined, refund: false })]),
    ...leases.flatMap((one): Action[] => [
      { ...one, queues: [of], leaseDurationMs, waitMs },
      pass(10),
      ...(isCrashed ? [{ do: 'crash', steps: 0, reboot: false } as const] : []),
      ...(ending === undefined ? [] : [change(ofLatest({ do: ending, ms: undefined, how }))]),
      pass(restMs),
    ]),
  ]);

/** A queue whose tasks are leased soon. So the rows of further tasks are written with the checkpoint. */
const flow: fc.Arbitrary<Action[]> = fc
  .record({
    queue,
    further: fc.array(enqueue, { minLength: 1, maxLength: 3 }),
    leased: oneOf(0, 1, 10),
    leaseDurationMs: oneOf(30, 10_000),
    isCompleted: fc.boolean(),
    restMs: oneOf(0, 3, 300),
  })
  .map(({ queue, further, leased, leaseDurationMs, isCompleted, restMs }) => {
    const lease = (max: number): Action => {
      const limits = { waitMs: 0, maxPid: undefined, maxBytes: 1e6 };
      return { do: 'lease', queues: [queue], max, leaseDurationMs, ...limits };
    };
    return [
      change({ do: 'enqueue', queue, pid: undefined, mode: 'collapse', delayMs: 0, bytes: 8, retry: 0 }),
      pass(30),
      lease(1),
      pass(30),
      change(...further.map((item) => ({ ...item, queue }) as Item)),
      ...(leased > 0 ? [pass(10), lease(leased)] : []),
      ...(isCompleted ? [pass(30), change(ofLatest({ do: 'dequeue', ms: undefined }))] : []),
      pass(restMs),
    ];
  });

const actions: fc.Arbitrary<Action[]> = fc
  .array(
    fc.oneof(
      { weight: 20, arbitrary: anyAction.map((one) => [one]) },
      { weight: 1, arbitrary: attempt },
      { weight: 1, arbitrary: flow },
      { weight: 1, arbitrary: paused },
      { weight: 1, arbitrary: limited },
      { weight: 1, arbitrary: ordered },
    ),
    { minLength: 3, maxLength: 45, size: 'max' },
  )
  .map((parts) => parts.flat());

const WHEN_FULL = ['refuse', 'drop-oldest', 'drop-newest'] as const;

/** The caps of a quarter of all runs. A random value of their own would change all other ones of known runs. */
function capsOf(seed: number): Caps | undefined {
  if (seed % 4 !== 2) return undefined;
  const chosen = Math.floor(seed / 4);
  const whenFull = WHEN_FULL[chosen % 3] ?? 'refuse';
  return {
    maxBacklog: [1, 2, 4, 0][Math.floor(chosen / 3) % 4] ?? 0,
    maxKeyBacklog: Math.floor(chosen / 12) % 3,
    whenFull,
  };
}

const uncapped: fc.Arbitrary<Scenario> = fc.record({
  seed: fc.nat(),
  disk: fc.record({
    atomicBatches: oneOf(true, true, false),
    writeMs: oneOf(0, 1, 2),
    syncMs: oneOf(0, 3, 7),
    readMs: oneOf(0, 1, 5, 25),
  }),
  cacheBytes: oneOf(2048, 2048, 500, 1_000_000),
  refillTasks: oneOf(1, 2, 3, 100),
  requestIdCacheBytes: oneOf(1, 600, 1_000_000),
  jitter: oneOf(0.999, 0.5),
  looksAfterRestart: fc.boolean(),
  actions,
  readsEvents: fc.boolean(),
});

export const scenarios: fc.Arbitrary<Scenario> = uncapped.map((scenario) => ({
  ...scenario,
  caps: capsOf(scenario.seed),
}));
