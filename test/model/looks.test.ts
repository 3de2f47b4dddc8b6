import { type EngineHarness, type EnqueueSpec, engineHarness, putSettings } from '@taskmaster/engine/testing';
import { EnqueueMode, parseQueueName, type QueueSettings } from '@taskmaster/proto';
import { deadLetterPid, type LeasedTask, type Pid, UpdateRefusal } from '@taskmaster/server/domain';
import fc from 'fast-check';
import { expect, test } from 'vitest';

/*
 * Reads have no effect on other calls: the same history has the same outcomes with and without reads in between. A lease may
 * see a due task up to a second late. So every queue that tasks are leased from has only one PID, which a lease gets or not,
 * except the queues of tasks with keys and those of dead letters: their due tasks are shown before each lease.
 */

const numRuns = Number(process.env.LOOKS_RUNS ?? 1500);

/**
 * The queues of tasks with keys come last, each before its dead-letter queue. Of the others the last three are dead-letter
 * queues: the default one, a named one, and one whose FIFO PIDs depend on the dead letters.
 */
const QUEUES = ['g#q', 'g#r', 'g#q.dead', 'g#d', 'g#fifo', 'g#k', 'g#k.dead'] as const;
type QueueName = (typeof QUEUES)[number];
const FIFO = 'g#fifo';
const PIDS = ['p', 'o'] as const;
const hasKeys = (queue: string): boolean => queue.startsWith('g#k');
const hasDeadLetters = (queue: string): boolean => queue === 'g#d' || queue.endsWith('.dead');
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
];

const pid = fc.constantFrom(...PIDS);
const ms = fc.constantFrom(1, 20, 100, 1000);
/** Index of a granted lease, the latest first. */
const which = fc.nat({ max: 3 });
const withToken = fc.boolean();
const byKey = fc.boolean();
const maybe = <T>(value: T): fc.Arbitrary<T | undefined> => fc.constantFrom(value, undefined);

const stepIn = (queue: fc.Arbitrary<QueueName>) =>
  fc.oneof(
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
      }),
    },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('lease' as const), queue, ms }) },
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 19, 20, 100, 1100) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('dequeue' as const), which, withToken, result: maybe('done') }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('renew' as const), which, withToken, ms, progress: maybe('half') }),
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
    { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
  );
type Step = ReturnType<typeof stepIn> extends fc.Arbitrary<infer T> ? T : never;
type Asked = Exclude<Step, { do: 'pass' | 'restart' }>;

/** The read before a step; 0: none. */
const look = fc.nat({ max: 6 });
const history = fc.constantFrom(...GROUPS).chain((queues) => {
  const step = stepIn(fc.constantFrom(...queues));
  return fc.array(fc.record({ step, look }), { minLength: 3, maxLength: 25, size: 'max' });
});

interface Lease {
  readonly queue: string;
  readonly pid: string;
  readonly token: number;
}

class Play {
  readonly outcomes: string[] = [];
  readonly #h: EngineHarness;
  readonly #leases: Lease[] = [];

  constructor(h: EngineHarness) {
    this.#h = h;
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
  }

  async step(step: Step): Promise<void> {
    const { clock } = this.#h;
    if (step.do === 'pass') await clock.advance(step.ms);
    else if (step.do === 'restart') await this.#h.crash();
    else this.outcomes.push(`${step.do} ${await clock.run(this.#ask(step))}`);
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
      this.outcomes.push(await clock.run(this.#ends(name)));
    }
  }

  async #ask(step: Asked): Promise<string> {
    try {
      return JSON.stringify(await this.#answer(step));
    } catch (error) {
      if (!(error instanceof UpdateRefusal)) throw error;
      return error.items.map(({ reason }) => reason).join();
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
        // More than one PID is there.
        if (step.queue === FIFO) return [];
        if (hasKeys(step.queue) || hasDeadLetters(step.queue)) await h.counts(step.queue);
        return this.#leased(await h.lease(step.queue, { for: step.ms }));
      case 'dequeue':
        return this.#of(step, (item) =>
          h.update({ dequeue: [{ ...item, ...(step.result && { result: step.result }) }] }),
        );
      case 'renew': {
        const { progress } = step;
        return this.#of(step, (item) =>
          h.update({ renew: [{ ...item, for: step.ms, ...(progress && { progress }) }] }),
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
      case 'delete':
        return h.engine.deleteQueue(parseQueueName(step.queue));
      case 'reset':
        return h.engine.resetLeases(parseQueueName(step.queue));
      default:
        return step satisfies never;
    }
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
    return tasks.map(({ pid, key, progress, data, attempt }) => {
      return [pid, key, progress, Buffer.from(data).toString(), attempt];
    });
  }

  async #of(
    { which, withToken }: { readonly which: number; readonly withToken: boolean },
    work: (item: { queue: string; pid: string; token: number | undefined }) => Promise<unknown>,
  ): Promise<unknown> {
    const lease = this.#leases[which];
    return lease && work({ ...lease, token: withToken ? lease.token : undefined });
  }
}

/** The PIDs of tasks, and of dead letters that found theirs taken. */
const SHOWN = [...PIDS, ...['q', 'r', 'q.dead', 'k'].map((from) => deadLetterPid('p' as Pid, from))];

const all = (name: QueueName) => {
  return { queue: parseQueueName(name), pids: SHOWN as never, keys: ['k'], includeData: true };
};

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

async function outcomes(steps: readonly { readonly step: Step; readonly look: number }[], looks: boolean) {
  await using h = await engineHarness({ jitter: 0.5, config: { checkpointIntervalMs: 500 } });
  const play = new Play(h);
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
    const property = fc.asyncProperty(history, async (steps) => {
      expect(await outcomes(steps, true)).toEqual(await outcomes(steps, false));
    });
    await fc.assert(property, { seed: Number(process.env.LOOKS_SEED ?? 2), numRuns });
  },
  30_000 + numRuns * 100,
);
