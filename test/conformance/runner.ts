import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  clientOver,
  isTaskMasterError,
  type LeasedTask,
  type NewTask,
  type TaskMasterClient,
  type Transport,
  UnrecoverableError,
  type Worker,
} from '@taskmaster/client';
import { connectionLost, GrpcTransport } from '@taskmaster/client/testing';
import type { TransportCallOptions } from '@taskmaster/client/transport';
import type { Method } from '@taskmaster/proto';

/** A step of a scenario; README.md describes them. */
interface Step {
  /** Number of its line, from 1. */
  readonly line: number;
  readonly verb: string;
  readonly args: unknown;
  readonly expected: { readonly kind: '=' | '!'; readonly value: unknown };
  readonly isChecked: boolean;
}

interface TaskArgs {
  readonly queue: string;
  readonly data?: unknown;
  readonly pid?: string;
  readonly key?: string;
  readonly mode?: 'collapse' | 'fail' | 'replace' | 'rerun' | 'rerun-first';
  readonly delayMs?: number;
  readonly timeLimitMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly kind?: string;
  readonly retry?: { readonly maxAttempts: number; readonly backoffMs: number };
}

interface LeasedArgs {
  readonly pid: string;
  readonly as?: string;
}

/** What a handler does. */
interface Attempt {
  readonly block?: number;
  readonly sleep?: number;
  readonly untilStopped?: boolean;
  readonly checkpoint?: string;
  readonly fail?: string;
  readonly unrecoverable?: string;
  readonly result?: unknown;
  readonly enqueue?: readonly TaskArgs[];
}

/** Plays a scenario against a node. Resolves with what differs; empty if nothing does. */
export async function playScenario(endpoint: string, text: string): Promise<string> {
  const transport = new LosingTransport(new GrpcTransport({ endpoints: endpoint }));
  await using client = clientOver(transport);
  const scenario = new Scenario(client, transport);
  for (const step of stepsOf(text)) {
    const got = await scenario.take(step);
    const { kind, value } = step.expected;
    if (got.kind === kind && (!step.isChecked || matches(value, got.value))) continue;
    const shown = (of: typeof got): string => `${of.kind} ${JSON.stringify(of.value)}`;
    return `line ${step.line}: ${step.verb}: expected ${shown(step.expected)}, got ${shown(got)}`;
  }
  return scenario.isWorking ? 'the scenario does not stop its worker' : '';
}

function stepsOf(text: string): Step[] {
  const steps: Step[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    const [, head = '', rest = ''] = /^(\S*) ?(.*)$/.exec(line) ?? [];
    if (head === '' || head.startsWith('#')) continue;
    if (head === '=' || head === '!') {
      const before = steps.pop();
      if (before === undefined) throw new Error(`line ${at + 1}: there is no step before it`);
      const value: unknown = head === '=' ? JSON.parse(rest) : rest;
      steps.push({ ...before, expected: { kind: head, value }, isChecked: true });
    } else {
      steps.push({
        line: at + 1,
        verb: head,
        args: JSON.parse(rest),
        expected: { kind: '=', value: undefined },
        isChecked: false,
      });
    }
  }
  return steps;
}

function matches(expected: unknown, got: unknown): boolean {
  if (expected === null) return got === null || got === undefined;
  if (typeof expected !== 'object') return expected === got;
  if (typeof got !== 'object' || got === null || Array.isArray(expected) !== Array.isArray(got)) return false;
  if (Array.isArray(expected) && expected.length !== (got as unknown[]).length) return false;
  const fields = got as Readonly<Record<string, unknown>>;
  return Object.entries(expected).every(([name, value]) => matches(value, fields[name]));
}

/** Loses answers of calls that the node has answered. */
class LosingTransport implements Transport {
  /** How many. */
  losing = 0;
  readonly #inner: GrpcTransport;

  constructor(inner: GrpcTransport) {
    this.#inner = inner;
  }

  get reachableFrom(): Transport['reachableFrom'] {
    return this.#inner.reachableFrom;
  }

  async unary<Q extends object, R>(method: Method<Q, R>, request: Q, options?: TransportCallOptions): Promise<R> {
    const reply = await this.#inner.unary(method, request, options);
    if (this.losing === 0) return reply;
    this.losing--;
    throw connectionLost();
  }

  stream<Q extends object, R>(method: Method<Q, R>, request: Q): AsyncIterableIterator<R, undefined> {
    return this.#inner.stream(method, request);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
const orUndefined = (bytes: string | undefined): Uint8Array | undefined =>
  bytes === undefined ? undefined : Buffer.from(bytes);

class Scenario {
  readonly #client: TaskMasterClient;
  readonly #transport: LosingTransport;
  readonly #group = `conformance-${randomBytes(6).toString('hex')}`;
  readonly #leased = new Map<string, LeasedTask<unknown>>();
  readonly #seen: Record<string, string[]> = {};
  #worker: Worker<unknown> | undefined;

  constructor(client: TaskMasterClient, transport: LosingTransport) {
    this.#client = client;
    this.#transport = transport;
  }

  get isWorking(): boolean {
    return this.#worker !== undefined;
  }

  async take({ verb, args }: Step): Promise<Step['expected']> {
    const act = this.#verbs[verb];
    if (act === undefined) throw new Error(`there is no verb ${verb}`);
    try {
      return { kind: '=', value: await act(args as never) };
    } catch (error) {
      if (!isTaskMasterError(error)) throw error;
      return { kind: '!', value: error.reason };
    }
  }

  readonly #verbs: Readonly<Record<string, (args: never) => Promise<unknown>>> = {
    enqueue: async (args: TaskArgs) => {
      const { enqueued } = await this.#client.update().enqueue(this.#task(args)).commit();
      return enqueued[0];
    },
    update: async (args: {
      readonly enqueue?: readonly TaskArgs[];
      readonly complete?: readonly LeasedArgs[];
      readonly release?: readonly LeasedArgs[];
    }) => {
      const update = this.#client.update();
      for (const task of args.enqueue ?? []) update.enqueue(this.#task(task));
      for (const task of args.complete ?? []) update.complete(this.#lease(task));
      for (const task of args.release ?? []) update.release(this.#lease(task));
      await update.commit();
    },
    lease: async (args: {
      readonly queues: readonly string[];
      readonly max?: number;
      readonly leaseMs?: number;
      readonly waitMs?: number;
      readonly kinds?: readonly string[];
      readonly as?: string;
    }) => {
      const { max, leaseMs: leaseDuration, waitMs: wait, kinds } = args;
      const queues = args.queues.map((queue) => this.#queue(queue));
      const tasks = await this.#client.lease({ queues, max, leaseDuration, wait, kinds });
      for (const task of tasks) this.#leased.set(`${args.as ?? ''}/${textOf(task.pid)}`, task);
      return tasks.map((task) => ({
        pid: textOf(task.pid),
        data: task.data,
        attempt: task.attempt,
        headers: task.headers,
        checkpoint: task.previousCheckpoint && textOf(task.previousCheckpoint),
        progress: task.previousProgress,
      }));
    },
    complete: async (args: LeasedArgs & { readonly result?: unknown; readonly enqueue?: readonly TaskArgs[] }) => {
      const enqueue = (args.enqueue ?? []).map((task) => this.#task(task));
      await this.#lease(args).complete({ enqueue, ...(args.result === undefined ? {} : { result: args.result }) });
    },
    release: async (
      args: LeasedArgs & {
        readonly error?: string;
        readonly delayMs?: number;
        readonly refund?: boolean;
        readonly interrupted?: boolean;
        readonly deadLetter?: boolean;
      },
    ) => {
      const { error, delayMs, refund: refundAttempt, interrupted, deadLetter } = args;
      const options = { error, delay: delayMs, refundAttempt, interrupted, deadLetter };
      const { deadLetterQueue } = await this.#lease(args).release(options);
      return { deadLetter: deadLetterQueue !== undefined };
    },
    renew: async (
      args: LeasedArgs & { readonly leaseMs?: number; readonly checkpoint?: string; readonly progress?: string },
    ) => {
      const { leaseMs, checkpoint, progress } = args;
      const options = { checkpoint: orUndefined(checkpoint), progress };
      await this.#client.update().renew(this.#lease(args), leaseMs, options).commit();
    },
    cancel: async ({ queue, reason, ...task }: TaskArgs & { readonly reason?: string }) => {
      await this.#queue(queue).cancel(nameOf(task), { reason });
    },
    reschedule: async ({ queue, delayMs = 0, ...task }: TaskArgs) => {
      await this.#queue(queue).reschedule(nameOf(task), delayMs);
    },
    wait: ({ queue, pid, timeoutMs }: { readonly queue: string; readonly pid: string; readonly timeoutMs: number }) =>
      this.#queue(queue).waitForEnd(pid, { timeout: timeoutMs }),
    result: ({ queue, pid, timeoutMs }: { readonly queue: string; readonly pid: string; readonly timeoutMs: number }) =>
      this.#queue(queue).waitFor(pid, { timeout: timeoutMs }),
    get: async ({ queue, pids }: { readonly queue: string; readonly pids: readonly string[] }) => {
      const infos = await this.#queue(queue).get(pids);
      return infos.map(({ state, attempts, interruptions, failures }) => ({
        state,
        attempts,
        interruptions,
        failures: failures.map(({ error }) => error?.message),
      }));
    },
    'lose-answers': async ({ count }: { readonly count: number }) => {
      this.#transport.losing = count;
    },
    sleep: ({ ms }: { readonly ms: number }) => delay(ms),
    'start-worker': async (args: {
      readonly queue: string;
      readonly concurrency?: number;
      readonly leaseMs?: number;
      readonly backoffMs?: number;
      readonly tasks: Readonly<Record<string, readonly Attempt[]>>;
    }) => {
      const { concurrency, leaseMs: leaseDuration, backoffMs, tasks } = args;
      const backoff = backoffMs === undefined ? undefined : () => backoffMs;
      const options = { concurrency, leaseDuration, backoff };
      this.#worker = this.#client.worker(this.#queue(args.queue), (task) => this.#handle(task, tasks), options);
      this.#worker.start();
    },
    'stop-worker': async ({ timeoutMs }: { readonly timeoutMs: number }) => {
      await this.#worker?.stop({ timeout: timeoutMs });
      this.#worker = undefined;
      return this.#seen;
    },
  };

  async #handle(
    task: LeasedTask<unknown>,
    tasks: Readonly<Record<string, readonly Attempt[]>>,
  ): Promise<{ result?: unknown; enqueue: NewTask[] }> {
    const pid = textOf(task.pid);
    this.#seen[pid] ??= [];
    const seen = this.#seen[pid];
    const at = seen.push('') - 1;
    const attempts = tasks[pid] ?? [];
    const attempt = attempts[Math.min(at, attempts.length - 1)] ?? {};
    if (attempt.block !== undefined) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, attempt.block);
    await delay(attempt.sleep ?? 0);
    if (attempt.untilStopped) {
      await new Promise((resolve) => task.signal.addEventListener('abort', resolve, { once: true }));
      seen[at] = task.signal.reason.reason;
      throw task.signal.reason;
    }
    if (attempt.checkpoint !== undefined) await task.checkpoint(Buffer.from(attempt.checkpoint));
    if (attempt.fail !== undefined) throw new Error(attempt.fail);
    if (attempt.unrecoverable !== undefined) throw new UnrecoverableError(attempt.unrecoverable);
    const enqueue = (attempt.enqueue ?? []).map((one) => this.#task(one));
    return attempt.result === undefined ? { enqueue } : { result: attempt.result, enqueue };
  }

  #queue(name: string) {
    return this.#client.queue<unknown>(`${this.#group}#${name}`);
  }

  #task({ queue, data = null, delayMs, timeLimitMs, retry, ...options }: TaskArgs): NewTask {
    const backoff = retry && { initial: retry.backoffMs };
    return this.#queue(queue).task(data, {
      ...options,
      delay: delayMs,
      timeLimit: timeLimitMs,
      retry: retry && { maxAttempts: retry.maxAttempts, backoff },
    });
  }

  #lease({ pid, as = '' }: LeasedArgs): LeasedTask<unknown> {
    const task = this.#leased.get(`${as}/${pid}`);
    if (task === undefined) throw new Error(`no lease ${as} of ${pid}`);
    return task;
  }
}

const nameOf = ({ pid, key }: { readonly pid?: string; readonly key?: string }): string | { key: string } =>
  key === undefined ? (pid ?? '') : { key };
