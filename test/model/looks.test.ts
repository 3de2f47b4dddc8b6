import { type EngineHarness, type EnqueueSpec, engineHarness, pidsOf } from '@taskmaster/node/testing';
import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { type LeasedTask, UpdateRefusal } from '@taskmaster/server/domain';
import fc from 'fast-check';
import { expect, test } from 'vitest';

/*
 * Reads have no effect on other calls: the same history has the same outcomes with and without reads in between. A lease may
 * see a due task up to a second late. So every queue that tasks are leased from has only one PID, which a lease gets or not.
 */

const numRuns = Number(process.env.LOOKS_RUNS ?? 400);

/** The last three are dead-letter queues: the default one, a named one, and one whose FIFO PIDs depend on the dead letters. */
const QUEUES = ['g#q', 'g#r', 'g#q.dead', 'g#d', 'g#fifo'] as const;
const PID = 'p';
/**
 * Each dead-letter queue gets tasks from one queue only. With two, the order of the searches would decide which task with the
 * same PID stays.
 */
const RETRIES: Readonly<Record<(typeof QUEUES)[number], readonly EnqueueSpec['retry'][]>> = {
  'g#q': [undefined, { maxAttempts: 1 }, { maxAttempts: 1, deadLetterQueue: 'fifo' }, { backoffInitialMs: 300 }],
  'g#r': [
    { maxAttempts: 1, deadLetterQueue: 'd' },
    { maxAttempts: 2, backoffInitialMs: 40, deadLetterQueue: 'd' },
  ],
  'g#q.dead': [undefined, { backoffInitialMs: 40 }],
  'g#d': [undefined],
  'g#fifo': [undefined],
};
const MODES = [
  EnqueueMode.ENQUEUE_MODE_COLLAPSE,
  EnqueueMode.ENQUEUE_MODE_FAIL,
  EnqueueMode.ENQUEUE_MODE_REPLACE,
] as const;

const queue = fc.nat({ max: QUEUES.length - 1 });
const ms = fc.constantFrom(1, 20, 100, 1000);
/** Index of a granted lease, the latest first. */
const which = fc.nat({ max: 3 });
const withToken = fc.boolean();

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('enqueue' as const),
      queue,
      mode: fc.nat({ max: 2 }),
      retry: fc.nat({ max: 3 }),
      delay: fc.constantFrom(0, 0, 50),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('lease' as const), queue, ms }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 19, 20, 100, 1100) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('dequeue' as const), which, withToken }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('renew' as const), which, withToken, ms }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('release' as const),
      which,
      withToken,
      refund: fc.boolean(),
      delay: fc.constantFrom(undefined, 0, 30),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fifo' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), queue }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('delete' as const, 'reset' as const), queue }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** The read before a step; 0: none. */
const look = fc.nat({ max: 5 });
const history = fc.array(fc.record({ step, look }), { minLength: 3, maxLength: 25, size: 'max' });

interface Lease {
  readonly queue: string;
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
    for (const name of kind === 1 || kind === 4 || kind === 5 ? QUEUES : []) {
      const of = parseQueueName(name);
      if (kind === 1) await clock.run(this.#h.counts(name));
      if (kind === 4) await clock.run(engine.getTasks({ queue: of, pids: [PID as never], includeData: false }));
      // A lease that finds nothing.
      if (kind === 5) await clock.run(this.#h.lease(name, { maxPid: '\0' }));
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
      const asked = { queue: parseQueueName(name), pids: [PID as never], includeData: true };
      const [task] = await clock.run(engine.getTasks(asked));
      const { token: _, ...state } = task?.state ?? { token: 0 };
      const data = Buffer.from(task?.data ?? []).toString();
      this.outcomes.push(
        `${name} ${JSON.stringify(await clock.run(this.#h.counts(name)))} ${JSON.stringify(state)} ${data}`,
      );
    }
  }

  async #ask(step: Exclude<Step, { do: 'pass' | 'restart' }>): Promise<string> {
    try {
      return JSON.stringify(await this.#answer(step));
    } catch (error) {
      if (!(error instanceof UpdateRefusal)) throw error;
      return error.items.map(({ reason }) => reason).join();
    }
  }

  async #answer(step: Exclude<Step, { do: 'pass' | 'restart' }>): Promise<unknown> {
    const h = this.#h;
    switch (step.do) {
      case 'enqueue': {
        const name = QUEUES[step.queue] ?? QUEUES[0];
        const retries = RETRIES[name];
        const retry = retries[step.retry % retries.length];
        const data = `data ${this.outcomes.length}`;
        const item = { queue: name, pid: PID, mode: MODES[step.mode] ?? MODES[0], delay: step.delay, data };
        return h.update({ enqueue: [retry ? { ...item, retry } : item] });
      }
      case 'fifo':
        return h.update({ enqueue: [{ queue: 'g#fifo' }] });
      case 'lease': {
        const name = QUEUES[step.queue] ?? QUEUES[0];
        // More than one PID is there.
        if (name === 'g#fifo') return [];
        return this.#leased(await h.lease(name, { for: step.ms }));
      }
      case 'dequeue':
        return this.#of(step, (item) => h.update({ dequeue: [item] }));
      case 'renew':
        return this.#of(step, (item) => h.update({ renew: [{ ...item, for: step.ms }] }));
      case 'release': {
        const { refund, delay } = step;
        const how = delay === undefined ? { refund } : { refund, delay };
        return this.#of(step, (item) => h.update({ release: [{ ...item, ...how }] }));
      }
      case 'remove':
        return h.update({ dequeue: [{ queue: QUEUES[step.queue] ?? QUEUES[0], pid: PID }] });
      case 'delete':
        return h.engine.deleteQueue(parseQueueName(QUEUES[step.queue] ?? QUEUES[0]));
      case 'reset':
        return h.engine.resetLeases(parseQueueName(QUEUES[step.queue] ?? QUEUES[0]));
      default:
        return step satisfies never;
    }
  }

  #leased(tasks: readonly LeasedTask[]): unknown {
    for (const { queue, token } of tasks) this.#leases.unshift({ queue: `g#${queue.name}`, token });
    return tasks.map(({ data, attempt }) => [pidsOf(tasks), Buffer.from(data).toString(), attempt]);
  }

  async #of(
    { which, withToken }: { readonly which: number; readonly withToken: boolean },
    work: (item: { queue: string; pid: string; token: number | undefined }) => Promise<unknown>,
  ): Promise<unknown> {
    const lease = this.#leases[which];
    return lease && work({ queue: lease.queue, pid: PID, token: withToken ? lease.token : undefined });
  }
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
    await fc.assert(property, { seed: Number(process.env.LOOKS_SEED ?? 1), numRuns });
  },
  30_000 + numRuns * 100,
);
