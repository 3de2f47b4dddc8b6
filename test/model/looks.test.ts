import {
  deadLetterPid,
  type GroupLimits,
  type LeasedTask,
  type Pid,
  Refusal,
  UpdateRefusal,
} from '@taskmaster/engine/domain';
import {
  type EngineHarness,
  type EnqueueSpec,
  engineHarness,
  limitQueues,
  pauseQueues,
  putSettings,
  resumeQueues,
  unlimitQueues,
} from '@taskmaster/engine/testing';
import { EnqueueMode, MissedRuns, parseQueueName, type QueueSettings } from '@taskmaster/proto';
import fc from 'fast-check';
import { expect, test } from 'vitest';

/*
 * Reads have no effect on other calls: the same history has the same outcomes with and without reads in between. A lease may
 * see a due task up to a second late. So every queue that tasks are leased from has only one PID, which a lease gets or not,
 * except the queues of tasks with keys, those of dead letters and that of schedules: their due tasks are shown before each lease.
 */

const numRuns = Number(process.env.LOOKS_RUNS ?? 250);

/**
 * The queues of tasks with keys come last, each before its dead-letter queue. Of the others the last three are dead-letter
 * queues: the default one, a named one, and one whose FIFO PIDs depend on the dead letters.
 */
const QUEUES = ['g#q', 'g#r', 'g#q.dead', 'g#d', 'g#fifo', 'g#s', 'g#s.dead', 'g#k', 'g#k.dead'] as const;
type QueueName = (typeof QUEUES)[number];
const FIFO = 'g#fifo';
const SCHEDULES = ['g#s', 'g#d', 'g#s.dead'] as const;
const TOPICS = ['g#news', 'g#more'] as const;
const PIDS = ['p', 'o'] as const;
const hasKeys = (queue: string): boolean => queue.startsWith('g#k');
const hasMany = (queue: string): boolean => /^g#(k|s|d)|dead$/.test(queue);
const RETRIES: Readonly<Record<QueueName, readonly EnqueueSpec['retry'][]>> = {
  'g#q': [
    undefined,
    { maxAttempts: 1 },
    { maxAttempts: 1, deadLetterQueue: 'fifo' },
    { backoffInitialMs: 300 },
    { maxAttempts: 1, deadLetterQueue: 'd' },
  ],
  'g#r': [
    { maxAttempts: 1, deadLetterQueue: 'd' },
    { maxAttempts: 2, backoffInitialMs: 40, deadLetterQueue: 'd' },
  ],
  'g#q.dead': [undefined, { backoffInitialMs: 40 }],
  'g#d': [undefined],
  'g#fifo': [undefined],
  'g#s': [undefined, { maxAttempts: 1 }],
  'g#s.dead': [undefined],
  'g#k': [{ maxAttempts: 1 }, 'by settings', { backoffInitialMs: 40 }],
  'g#k.dead': [undefined],
};
const MODES = [
  EnqueueMode.ENQUEUE_MODE_COLLAPSE,
  EnqueueMode.ENQUEUE_MODE_FAIL,
  EnqueueMode.ENQUEUE_MODE_REPLACE,
  EnqueueMode.ENQUEUE_MODE_RERUN,
  EnqueueMode.ENQUEUE_MODE_RERUN_FIRST,
] as const;
const SETTINGS: readonly Partial<QueueSettings>[] = [
  { retry: { maxAttempts: 2, backoffInitialMs: 40, backoffMaxMs: 1000, deadLetterQueue: '' } },
  { retry: { maxAttempts: 1, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' }, timeLimitMs: 10 },
  { timeLimitMs: 50, keepOutMs: 1000 },
];

/** The queues of one history: tasks meet often in a few of them. */
const GROUPS: readonly (readonly [QueueName, ...QueueName[]])[] = [
  ['g#q', 'g#q.dead', 'g#fifo'],
  ['g#r', 'g#d'],
  // One dead-letter queue of two queues, whose tasks have the same PID.
  ['g#q', 'g#r', 'g#d'],
  ['g#k', 'g#k.dead'],
  ['g#s', 'g#s.dead'],
  ['g#q', 'g#s', 'g#d'],
];
const LIMITS: readonly (GroupLimits | undefined)[] = [
  undefined,
  undefined,
  undefined,
  { tasks: 2 },
  { tasks: 4, queues: 3 },
  { queues: 1 },
  { queues: 2 },
  { bytes: 14 },
];
/** Of the node; the group's queues and their number are smaller. */
const MAX_QUEUES = [2, 100, 100, 100, 100] as const;

const pid = fc.constantFrom(...PIDS);
const ms = fc.constantFrom(1, 20, 100, 1000);
/** Index of a granted lease, the latest first. */
const which = fc.nat({ max: 3 });
const withToken = fc.boolean();
const byKey = fc.boolean();
const schedule = fc.constantFrom('early', 'late');
const topic = fc.constantFrom(...TOPICS);
const maybe = <T>(value: T): fc.Arbitrary<T | undefined> => fc.constantFrom(value, undefined);

interface World {
  readonly queues: readonly [QueueName, ...QueueName[]];
  readonly hasSchedules: boolean;
  readonly hasTopics: boolean;
}

const stepIn = ({ queues, hasSchedules, hasTopics }: World) => {
  const queue = fc.constantFrom(...queues);
  const targets = SCHEDULES.filter((name) => queues.includes(name));
  const ofSchedules = hasSchedules && targets.length > 0 ? 3 : 0;
  const ofTopics = hasTopics ? 3 : 0;
  return fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('enqueue' as const),
        queue,
        pid,
        key: maybe('k'),
        mode: fc.constantFrom(...MODES),
        retry: fc.nat({ max: 4 }),
        delay: fc.constantFrom(0, 0, 50),
        timeLimit: fc.constantFrom(undefined, undefined, 30),
        startWithin: fc.constantFrom(undefined, undefined, 20, 100),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('lease' as const), queue, ms, starts: maybe({ now: 0, together: 2 }) }),
    },
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 19, 20, 100, 1100) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('dequeue' as const),
        which,
        withToken,
        result: maybe('done'),
        keep: fc.constantFrom(50, 60_000),
        cancel: maybe('because'),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('renew' as const),
        which,
        withToken,
        ms,
        progress: maybe('half'),
        begun: fc.constantFrom(undefined, 1, 2),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('release' as const),
        which,
        withToken,
        how: fc.constantFrom('plain', 'refund', 'error', 'last'),
        delay: fc.constantFrom(undefined, 0, 30),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('fifo' as const) }) },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constantFrom('remove' as const, 'cancel' as const, 'requeue' as const, 'reschedule' as const),
        queue,
        pid,
        byKey,
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('delete' as const, 'reset' as const), queue }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('ends' as const), queue }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('settings' as const),
        queue: fc.constantFrom('g#k', 'g#q', 'g#*'),
        settings: fc.constantFrom(...SETTINGS),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constantFrom('pause queues' as const, 'resume queues' as const),
        queue: fc.constantFrom(...queues, 'g#*'),
        durationMs: fc.constantFrom(undefined, 20, 150, 1000),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constantFrom('limit queues' as const, 'limit queues' as const, 'unlimit queues' as const),
        queue: fc.constantFrom(...queues, 'g#*', 'g#*', 'g#*'),
        maxLeased: fc.constantFrom(1, 1, 2, 3),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const), downMs: fc.constantFrom(0, 0, 200) }) },
    {
      weight: ofSchedules,
      arbitrary: fc.record({
        do: fc.constant('put' as const),
        schedule,
        target: targets.length > 0 ? fc.constantFrom(...targets) : queue,
        intervalMs: fc.constantFrom(50, 70, 1000),
        missedRuns: fc.constantFrom(
          MissedRuns.MISSED_RUNS_ALL,
          MissedRuns.MISSED_RUNS_ONCE,
          MissedRuns.MISSED_RUNS_SKIP,
        ),
        skipWhileRunning: fc.boolean(),
        isLast: fc.boolean(),
      }),
    },
    {
      weight: ofSchedules,
      arbitrary: fc.record({
        do: fc.constantFrom(
          'pause' as const,
          'resume' as const,
          'unschedule' as const,
          'trigger' as const,
          'schedule' as const,
        ),
        schedule,
      }),
    },
    {
      weight: ofTopics,
      arbitrary: fc.record({
        do: fc.constant('subscribe' as const),
        topic,
        queue,
        ttlMs: fc.constantFrom(undefined, 20, 120, 1000),
        deleteQueue: fc.boolean(),
      }),
    },
    {
      weight: Math.min(ofTopics, 1),
      arbitrary: fc.record({ do: fc.constant('unsubscribe' as const), topic, queue }),
    },
    {
      weight: ofTopics,
      arbitrary: fc.record({ do: fc.constant('publish' as const), topic, mode: fc.constantFrom(...MODES) }),
    },
  );
};
type Step = ReturnType<typeof stepIn> extends fc.Arbitrary<infer T> ? T : never;
type Asked = Exclude<Step, { do: 'pass' | 'restart' }>;

/** The read before a step; 0: none. */
const look = fc.nat({ max: 8 });
const world = fc.record({ queues: fc.constantFrom(...GROUPS), hasSchedules: fc.boolean(), hasTopics: fc.boolean() });
const history = world.chain((world) => {
  const step = stepIn(world);
  return fc.record({
    queues: fc.constant(world.queues),
    limits: fc.constantFrom(...LIMITS),
    maxQueues: fc.constantFrom(...MAX_QUEUES),
    steps: fc.array(fc.record({ step, look }), { minLength: 5, maxLength: 30, size: 'max' }),
  });
});
type History = typeof history extends fc.Arbitrary<infer T> ? T : never;

interface Lease {
  readonly queue: string;
  readonly pid: string;
  readonly token: number;
}

class Play {
  readonly outcomes: string[] = [];
  readonly #h: EngineHarness;
  readonly #leases: Lease[] = [];

  readonly #queues: readonly QueueName[];

  constructor(h: EngineHarness, queues: readonly QueueName[]) {
    this.#h = h;
    this.#queues = queues;
  }

  async look(kind: number): Promise<void> {
    const { engine, clock } = this.#h;
    const filter = { group: 'g', matches: undefined } as never;
    for (const name of kind === 1 || kind >= 4 ? QUEUES : []) {
      if (kind === 1) await clock.run(this.#h.counts(name));
      if (kind === 4) await clock.run(engine.getTasks(all(name)));
      // A lease that finds nothing.
      if (kind === 5) await clock.run(this.#h.lease(name, { maxPid: '\0' }));
      if (kind === 6) await clock.run(this.#h.waitFor(name, PIDS));
    }
    if (kind === 2) await clock.run(engine.listQueues({ filter, limit: 10, after: undefined }));
    if (kind === 3) await clock.run(engine.queueStats({ kind: 'filtered', filter, limit: 10 }));
    if (kind === 7) for (const name of QUEUES) await clock.run(this.#tasks(name));
    if (kind === 8) await clock.run(this.#records());
  }

  async step(step: Step): Promise<void> {
    const { clock } = this.#h;
    if (step.do === 'pass') await clock.advance(step.ms);
    else if (step.do === 'restart') {
      this.#h.lose();
      await this.#h.clock.advance(step.downMs);
      await this.#h.open();
    } else this.outcomes.push(`${step.do} ${await clock.run(this.#ask(step))}`);
  }

  /** Adds the final state of all queues to the outcomes. */
  async end(): Promise<void> {
    const { clock, engine } = this.#h;
    for (const name of QUEUES) {
      this.outcomes.push(`${name} ${JSON.stringify(await clock.run(this.#h.counts(name)))}`);
      for (const { pid, state, data } of await clock.run(engine.getTasks(all(name)))) {
        // Tokens are not compared: searches are commits, too, and so are tokens.
        this.outcomes.push(`${pid} ${JSON.stringify({ ...state, token: 0 })} ${Buffer.from(data ?? [])}`);
      }
      this.outcomes.push(...(await clock.run(this.#tasks(name))));
      this.outcomes.push(await clock.run(this.#ends(name)));
    }
    this.outcomes.push(await clock.run(this.#records()));
  }

  /** All tasks of a queue. */
  async #tasks(name: QueueName): Promise<string[]> {
    const queue = parseQueueName(name);
    const tasks: string[] = [];
    for (const kind of ['head', 'leased', 'delayed'] as const) {
      for (const { pid } of await this.#h.engine.peekTasks({ queue, kind, limit: 1000, includeData: false })) {
        tasks.push(`${kind} ${pid}`);
      }
    }
    return tasks;
  }

  /** All schedules, subscriptions, pauses and limits. */
  async #records(): Promise<string> {
    const { engine } = this.#h;
    const { schedules } = await engine.schedules.list({
      group: 'g',
      name: undefined,
      nextRuns: 2,
      limit: 10,
      after: undefined,
    });
    const pauses = (await engine.pauses.list('g')).map(({ message }) => message);
    const limits = (await engine.limits.list('g')).map(({ record, leased }) => [record.message, leased]);
    return JSON.stringify([schedules, await engine.topics.list('g', undefined), pauses, limits]);
  }

  async #ask(step: Asked): Promise<string> {
    try {
      return JSON.stringify(await this.#answer(step));
    } catch (error) {
      if (error instanceof UpdateRefusal) return error.items.map(({ reason }) => reason).join();
      if (!(error instanceof Refusal)) throw error;
      return `${error.reason} ${JSON.stringify(error.metadata)}`;
    }
  }

  async #answer(step: Asked): Promise<unknown> {
    const h = this.#h;
    switch (step.do) {
      case 'enqueue':
        return this.#enqueue(step);
      case 'fifo':
        return h.update({ enqueue: [{ queue: FIFO }] });
      case 'lease':
        return this.#lease(step);
      case 'dequeue':
        return this.#of(step, (item) => {
          const { result, keep, cancel } = step;
          if (cancel !== undefined) return h.update({ dequeue: [{ ...item, cancel }] });
          return h.update({ dequeue: [{ ...item, ...(result && { result, keep }) }] });
        });
      case 'renew': {
        const { progress, begun } = step;
        return this.#of(step, (item) =>
          h.update({ renew: [{ ...item, for: step.ms, begun, ...(progress && { progress, checkpoint: progress }) }] }),
        );
      }
      case 'release':
        return this.#of(step, (item) => h.update({ release: [{ ...item, ...howOf(step) }] }));
      case 'remove':
        return h.update({ dequeue: [this.#named(step)] });
      case 'cancel':
        return h.update({ dequeue: [{ ...this.#named(step), cancel: 'because' }] });
      case 'requeue':
        return h.update({ dequeue: [{ queue: step.queue, pid: pidIn(step), requeue: true }] });
      case 'reschedule':
        return h.update({ release: [{ ...this.#named(step), waiting: true, delay: 30 }] });
      case 'ends':
        return this.#ends(step.queue);
      case 'settings':
        return putSettings(h.engine, step.queue, step.settings);
      case 'pause queues':
        return (await pauseQueues(h.engine, step.queue, { durationMs: step.durationMs })).message;
      case 'resume queues': {
        const { resumed, pauses } = await resumeQueues(h.engine, step.queue);
        return [resumed, pauses.map(({ message }) => message)];
      }
      case 'limit queues':
        return (await limitQueues(h.engine, step.queue, { maxLeased: step.maxLeased })).record.message;
      case 'unlimit queues': {
        const { removed, limits } = await unlimitQueues(h.engine, step.queue);
        return [removed, limits.map(({ record }) => record.message)];
      }
      case 'delete':
        return h.engine.deleteQueue(parseQueueName(step.queue));
      case 'reset':
        return h.engine.resetLeases(parseQueueName(step.queue));
      case 'put':
        return this.#put(step);
      case 'pause':
      case 'resume':
        return h.engine.schedules.pause({ group: 'g', name: step.schedule }, step.do === 'pause');
      case 'unschedule':
        return h.engine.schedules.delete({ group: 'g', name: step.schedule });
      case 'trigger':
        return h.engine.schedules.trigger({ group: 'g', name: step.schedule });
      case 'schedule':
        return this.#records();
      case 'subscribe': {
        const { ttlMs, deleteQueue } = step;
        return h.engine.topics.subscribe({ ...subscriptionOf(step), filter: [], ttlMs, deleteQueue });
      }
      case 'unsubscribe':
        return h.engine.topics.unsubscribe(subscriptionOf(step));
      case 'publish': {
        const { topic, mode } = step;
        const data = `data ${this.outcomes.length}`;
        return h.update({ enqueue: [{ queue: topic, topic, pid: PIDS[0], mode, data, retry: { maxAttempts: 1 } }] });
      }
      default:
        return step satisfies never;
    }
  }

  /** Leases from the queue or, if it has nothing, from one of the others. */
  async #lease({ queue, ms, starts }: Extract<Step, { do: 'lease' }>): Promise<unknown> {
    for (const name of [queue, ...this.#queues.filter((other) => other !== queue)]) {
      // More than one PID is there.
      if (name === FIFO) continue;
      if (hasMany(name)) await this.#h.counts(name);
      const leased = await this.#h.lease(name, { for: ms, starts });
      if (leased.length > 0) return this.#leased(leased);
    }
    return [];
  }

  #put({ schedule, target, intervalMs, missedRuns, skipWhileRunning, isLast }: Extract<Step, { do: 'put' }>) {
    const once = { maxAttempts: 1, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' };
    const spec = {
      queue: target,
      data: Buffer.from('run'),
      retry: isLast ? once : undefined,
      cron: '',
      timeZone: '',
      intervalMs,
      missedRuns,
      skipWhileRunning,
      pidPrefix: new Uint8Array(0),
      headers: {},
      timeLimitMs: 0,
      limitKey: '',
    };
    return this.#h.engine.schedules.put({ schedule: { group: 'g', name: schedule }, spec });
  }

  #enqueue(step: Extract<Step, { do: 'enqueue' }>): Promise<unknown> {
    const { queue, mode, delay, timeLimit, key } = step;
    const retries = RETRIES[queue];
    const retry = retries[step.retry % retries.length];
    return this.#h.update({
      enqueue: [
        {
          queue,
          pid: pidIn(step),
          mode,
          delay,
          data: `data ${this.outcomes.length}`,
          ...(retry && { retry }),
          ...(timeLimit !== undefined && { timeLimit }),
          ...(hasKeys(queue) && key !== undefined && { key }),
        },
      ],
    });
  }

  #named(step: { readonly queue: string; readonly pid: string; readonly byKey: boolean }) {
    const { queue, byKey } = step;
    return hasKeys(queue) && byKey ? { queue, key: 'k' } : { queue, pid: pidIn(step) };
  }

  async #ends(queue: string): Promise<string> {
    const ended = await this.#h.waitFor(queue, PIDS);
    return JSON.stringify(ended);
  }

  #leased(tasks: readonly LeasedTask[]): unknown {
    for (const { queue, pid, token } of tasks) this.#leases.unshift({ queue: `g#${queue.name}`, pid, token });
    return tasks.map(({ pid, history, data, attempt, unbegun }) => {
      const checkpoint = Buffer.from(history?.checkpoint ?? []).toString();
      return [pid, history?.key, history?.progress?.text, checkpoint, Buffer.from(data).toString(), attempt, unbegun];
    });
  }

  async #of(
    { which, withToken }: { readonly which: number; readonly withToken: boolean },
    work: (item: { queue: string; pid: string; token: number | undefined }) => Promise<unknown>,
  ): Promise<unknown> {
    const lease = this.#leases[which % this.#leases.length];
    return lease && work({ ...lease, token: withToken ? lease.token : undefined });
  }
}

/** The PIDs of tasks, and of dead letters that found theirs taken. */
const SHOWN = [...PIDS, ...['q', 'r', 'q.dead', 's', 'k'].map((from) => deadLetterPid('p' as Pid, from))];

const all = (name: QueueName) => {
  return { queue: parseQueueName(name), pids: SHOWN as never, keys: ['k'], includeData: true };
};

const subscriptionOf = ({ topic, queue }: { readonly topic: string; readonly queue: string }) => ({
  topic: parseQueueName(topic),
  queue: parseQueueName(queue),
});

/** Queues whose tasks have no keys have one PID. */
const pidIn = ({ queue, pid }: { readonly queue: string; readonly pid: string }): string =>
  hasKeys(queue) ? pid : PIDS[0];

function howOf({ how, delay }: Extract<Step, { do: 'release' }>) {
  if (how === 'last') return { error: 'no', deadLetter: true };
  return {
    refund: how === 'refund',
    ...(how === 'error' && { error: 'no' }),
    ...(delay !== undefined && { delay }),
  };
}

async function outcomes({ queues, steps, limits, maxQueues }: History, looks: boolean) {
  const config = { checkpointIntervalMs: 500, maxQueues };
  await using h = await engineHarness({ jitter: 0.5, config, groupLimits: () => limits });
  const play = new Play(h, queues);
  for (const { step, look } of steps) {
    if (looks) await play.look(look);
    await play.step(step);
  }
  await play.end();
  return play.outcomes;
}

test(
  `no outcome depends on reads, in ${numRuns} random histories`,
  async () => {
    const property = fc.asyncProperty(history, async (played) => {
      expect(await outcomes(played, true)).toEqual(await outcomes(played, false));
    });
    await fc.assert(property, { seed: Number(process.env.LOOKS_SEED ?? 2), numRuns });
  },
  30_000 + numRuns * 100,
);
